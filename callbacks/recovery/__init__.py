"""Recovery: resets and restores."""
