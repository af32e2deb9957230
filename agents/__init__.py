"""CiteME: search, read and select the paper behind a citation; nothing in here imports torch."""
