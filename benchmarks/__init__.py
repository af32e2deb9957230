"""Running benchmarks: the command line, suites in YAML, reports, the papers' tables and figures."""
