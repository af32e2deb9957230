"""Monitors with error control (issue 31): simulations with known truth, and embedded CCC."""
