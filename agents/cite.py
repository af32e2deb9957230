"""`holdfast cite`: CiteME, finding the paper behind a citation."""

import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, TextIO

from .. import printable
from ..commands import run_part


def main(argv: list[str]) -> int:
    """Run the subcommand and return its exit status."""
    try:
        with redirect_stdout(Printable(sys.stdout)), redirect_stderr(Printable(sys.stderr)):
            return run_part("cite", argv)
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


class Printable:
    """A stream to the terminal in which control characters are shown, not executed."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(printable(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
