"""Scores and trajectories for people: text, pictures, pages."""
