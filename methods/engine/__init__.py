"""What all methods share: one online step, its checks, its undoing, the loop of a Trainer."""
