"""Monitors: alarms from estimates and outputs, with bounded error rates."""
