"""`holdfast cite`: CiteME, the search for the paper behind a citation; finds the subcommand.

demo      agents without a language model on mini-cite, offline
run       run an agent; the same command resumes
score     judge result files; a table, a picture or a page of several runs
show      a sample's trajectory, in the terminal or as HTML
compare   paired comparison of two runs, repeated or not
optimize  compile the program on the train split (DSPy)
dense     retrieval over embeddings (SPECTER-style)
import    a result file of CiteME's code, of CiteGuard's, or a log of Inspect, as a run
export    a run as a log of Inspect, for `inspect view`

data      what a data set is made of, beside CiteME's tables and figure
ambiguity how many excerpts cite several papers at once, at the least
filter    leave out what models answer from memory
people    answers of people as a run, and how far they agree
tags      three tags for every cited paper, by a language model
"""

import argparse
import importlib
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, TextIO

from .. import printable

# Modules of the package `commands`; each has a `main(argv)` that returns an exit status or None.
COMMANDS = (
    "demo",
    "run",
    "score",
    "show",
    "compare",
    "optimize",
    "dense",
    "import",
    "export",
    "data",
    "ambiguity",
    "filter",
    "people",
    "tags",
)


def main(argv: list[str]) -> int:
    """Hand over to the module of the subcommand and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="holdfast cite",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: holdfast cite demo\nholdfast cite COMMAND --help shows a command's own options.",
    )
    parser.add_argument("command", choices=COMMANDS)
    name = parser.parse_args(argv[:1]).command
    try:
        with redirect_stdout(Printable(sys.stdout)), redirect_stderr(Printable(sys.stderr)):
            return module(name).main(argv[1:]) or 0
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


class Printable:
    """A stream to the terminal; what is written is shown and never obeyed, whoever wrote it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(printable(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def module(name: str) -> Any:
    """The module of a subcommand."""
    file = "import_" if name == "import" else name  # a word of Python's own
    return importlib.import_module(f".commands.{file}", __package__)
