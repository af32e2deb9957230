"""Suites: the grid of runs, their schedule, and the executors."""
