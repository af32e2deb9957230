"""The papers' published numbers, and which runs they stand beside."""
