"""What all methods share: the online step, its checks, how it is undone, and the loop of a
Trainer."""
