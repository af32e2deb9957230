"""Scores and trajectories as text, figures and pages."""
