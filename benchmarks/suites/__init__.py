"""Suites: the grid of runs, the schedule, and the executors."""
