"""Observers: what is measured inside a model while it adapts."""
