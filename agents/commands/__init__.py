"""Commands of `holdfast cite`, one per file; further ones are beside what they do."""
