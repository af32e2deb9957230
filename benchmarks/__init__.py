"""Benchmarks: the command line, suites in YAML, reports, and the papers' tables and figures."""
