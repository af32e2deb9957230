"""What is run: the command line, YAML protocols, the suite runner, reports, the papers' numbers."""
