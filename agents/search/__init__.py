"""Paper search and reading: each provider in a file of its own; the table is in providers.py."""
