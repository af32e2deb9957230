"""Results as one self-contained HTML file."""
