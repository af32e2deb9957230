"""`holdfast cite`: CiteME, the search for the paper behind a citation; finds the subcommand."""

import argparse
import importlib
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, TextIO

from .. import printable

# Where each command is, and what it does; its module has `main(argv)`, which returns an exit status or
# None, and `parser()`.
COMMANDS = {
    "demo": (".commands.cite_demo", "agents without a language model on mini-cite, offline"),
    "run": (".commands.cite_run", "run an agent; the same command resumes"),
    "score": (".commands.cite_score", "judge result files; a table, a picture or a page of runs"),
    "show": (".commands.cite_show", "a sample's trajectory, in the terminal or as HTML"),
    "compare": (".compare", "paired comparison of two runs, repeated or not"),
    "optimize": (".commands.cite_optimize", "compile the program on the train split (DSPy)"),
    "dense": (".commands.cite_dense", "retrieval over embeddings (SPECTER-style)"),
    "import": (".authors_results", "results of CiteME's code, CiteGuard's or Inspect's, as a run"),
    "export": (".commands.cite_export", "a run as a log of Inspect, for `inspect view`"),
    "data": (
        ".curation.data_quality",
        "what a data set contains, beside CiteME's tables and figure",
    ),
    "ambiguity": (".curation.ambiguity", "how many excerpts cite several papers at once, at least"),
    "filter": (".curation.closed_book", "leave out what models answer from memory"),
    "people": (".curation.people", "answers of people as a run, and how far they agree"),
    "tags": (".curation.tags", "three tags for every cited paper, by a language model"),
}


def main(argv: list[str]) -> int:
    """Hand over to the module of the subcommand and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="holdfast cite",
        description="\n".join([f"{__doc__}\n", *(f"{n:9} {h}" for n, (_, h) in COMMANDS.items())]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: holdfast cite demo\nholdfast cite COMMAND --help shows a command's options.",
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
    return importlib.import_module(COMMANDS[name][0], __package__)
