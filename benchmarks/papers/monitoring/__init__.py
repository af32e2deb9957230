"""Monitors with error control: simulations with known truth, and embedded CCC."""
