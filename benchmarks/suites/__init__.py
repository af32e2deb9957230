"""Many runs: the grid, the schedule, and what runs a cell."""
