"""Commands of `holdfast cite`, one per file; other commands are next to the code that they call."""
