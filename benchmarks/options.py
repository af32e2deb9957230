"""Options that several commands have."""

import argparse
import re


def share(text: str) -> tuple[int, int]:
    """'2/8' as (2, 8): every eighth piece of the work, from the third on."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if not match or not 0 <= int(match[1]) < int(match[2]):
        raise argparse.ArgumentTypeError(f"{text} is not of the form 0/4, 1/4, 2/4 or 3/4")
    return int(match[1]), int(match[2])
