"""Holdfast: does a model that adapts itself at test time keep hold, for how long, and can it tell?"""


class HoldfastError(Exception):
    """A problem the user can solve; its message is one sentence that says what to change."""
