"""`holdfast cite`: CiteME, finding the paper behind a citation."""

import importlib
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, TextIO

from .. import printable
from ..command_parser import Parser

# Name: the module, with `main(argv)` (its exit status, or None) and `parser()`; and what it does.
COMMANDS = {
    "demo": (".commands.cite_demo", "run agents without a language model on mini-cite, offline"),
    "run": (".commands.cite_run", "run an agent; the same command resumes the run"),
    "score": (".report.summary", "score result files, as text, JSON, a figure or a page"),
    "show": (".commands.cite_show", "show a sample's trajectory, as text or as a page"),
    "compare": (".compare", "compare two runs on the same samples"),
    "optimize": (
        ".commands.cite_optimize",
        "compile the agent's program on the train split (DSPy)",
    ),
    "dense": (".commands.cite_dense", "evaluate retrieval by embeddings (SPECTER)"),
    "import": (
        ".authors_results",
        "convert results of CiteME's or CiteGuard's code, or Inspect logs",
    ),
    "export": (".commands.cite_export", "write a run as a log of Inspect, for `inspect view`"),
    "data": (".curation.data_quality", "describe a dataset, compared with CiteME's tables"),
    "ambiguity": (".curation.ambiguity", "estimate how many excerpts cite several papers"),
    "filter": (".curation.closed_book", "remove samples that models answer from memory"),
    "people": (".curation.people", "convert answers of people to a run; measure their agreement"),
    "tags": (".curation.tags", "tag every cited paper with a language model"),
}


def main(argv: list[str]) -> int:
    """Run the subcommand and return its exit status."""
    about = "\n".join([f"{__doc__}\n", *(f"{n:9}  {what}" for n, (_, what) in COMMANDS.items())])
    own = "holdfast cite COMMAND --help prints the options of a command."
    parser = Parser("cite", about, f"demo\n{own}")
    parser.add("command", choices=COMMANDS)
    name = parser.parse_args(argv[:1]).command
    try:
        with redirect_stdout(Printable(sys.stdout)), redirect_stderr(Printable(sys.stderr)):
            return module(name).main(argv[1:]) or 0
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


def module(name: str) -> Any:
    """The module of a subcommand."""
    return importlib.import_module(COMMANDS[name][0], __package__)
