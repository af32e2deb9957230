"""The papers' published numbers, and the runs they are compared with."""
