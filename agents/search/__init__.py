"""Paper search and reading; the table of providers is in open_search.py."""
