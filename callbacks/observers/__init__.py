"""Observers: measurements inside a model while it adapts."""
