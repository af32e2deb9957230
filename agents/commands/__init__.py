"""What `holdfast cite` does, one command a file."""
