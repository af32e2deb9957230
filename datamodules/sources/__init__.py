"""Where clean images come from."""
