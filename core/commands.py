"""The commands of `holdfast`, and how one is found and run; this module imports nothing slow."""

import gc
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import NamedTuple

from . import HoldfastError
from .command_parser import Parser


class Command(NamedTuple):
    """The module and help text of a command, or its subcommands.

    A module has `main(argv)`, which returns an exit status or None, and `parser()`.
    """

    module: str  # in the package holdfast; empty: the subcommand's
    help: str
    quick: str = ""  # a fast module that handles the arguments accepted by its `is_quick`
    parts: Mapping[str, "Command"] = {}

    def load(self) -> ModuleType:
        """Import the module."""
        return imported(self.module)


GROUPS: dict[str, dict[str, Command]] = {
    "runs": {
        "demo": Command(
            "benchmarks.demo", "show Tent's collapse and RDumb on this machine, without downloads"
        ),
        "corruptions": Command(
            "benchmarks.corruption_table", "measure a model's accuracy under each corruption"
        ),
        "test": Command(
            "benchmarks.test",
            "run one method on one stream (LightningCLI)",
        ),
        "check-method": Command(
            "benchmarks.check_method", "check that a method satisfies the contract of all methods"
        ),
        "suite": Command(
            "benchmarks.suites.suite", "run a grid of methods, streams and seeds from YAML"
        ),
    },
    "results": {
        "status": Command(
            "benchmarks.suites.status", "show the progress, owners and errors of runs"
        ),
        "report": Command(
            "benchmarks.report_command", "print tables, or write a figure or page, of runs"
        ),
        "paper": Command("benchmarks.papers.paper", "reproduce a table or figure of the papers"),
        "estimators": Command(
            "benchmarks.results.estimators", "evaluate accuracy estimators: alarms, quality, fits"
        ),
    },
    "models and streams": {
        "train": Command(
            "benchmarks.train.train",
            "train the source model of a data set, or an ensemble of models",
        ),
        "calibrate": Command(
            "benchmarks.streams.calibrate",
            "measure the accuracies that a CCC stream is built from, or print its paths",
        ),
        "generate": Command(
            "benchmarks.streams.generate",
            "write a CCC stream as tar shards, in the official layout",
        ),
    },
    "costs": {
        "bench": Command(
            "benchmarks.bench.bench", "measure what steps, streams, estimators or loaders cost"
        ),
    },
    "citations": {
        "cite": Command("agents.cite", "evaluate agents on CiteME: which paper is cited?"),
    },
    "shell": {
        "completion": Command("benchmarks.completion", "print a completion script for your shell"),
    },
}
MOVED = {  # former subcommands
    "estimators table": "paper aetta/T2 --runs FOLDER (and aetta/T3 for recovery)",
    "estimators datasets": "paper flips/T3.1 --runs FOLDER (and T3.2, TB.1 to TB.4; --fit-on, --f)",
}
COMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}


def imported(name: str) -> ModuleType:
    """Import a module of holdfast without garbage collection, as its objects stay alive."""
    looking = gc.isenabled()
    gc.disable()
    try:
        return import_module(f"holdfast.{name}")
    finally:
        if looking:
            gc.enable()


def run_part(of: str, argv: list[str]) -> int:
    """Run the subcommand of the command `of` that `argv` starts with; returns its exit status.

    Raises:
        HoldfastError: if it is a former one; names its successor.
    """
    command = COMMANDS[of]
    if successor := MOVED.get(" ".join([of, *argv[:1]])):
        raise HoldfastError(f"`holdfast {of} {argv[0]}` is now `holdfast {successor}`.")
    listed = "\n".join(f"{name:9}  {part.help}" for name, part in command.parts.items())
    first = next(iter(command.parts))
    parser = Parser(
        f"{of} COMMAND",
        f"{command.help}\n\n{listed}",
        f"{first}\nholdfast {of} COMMAND --help prints the options of a command.",
    )
    parser.add("command", choices=command.parts)
    part = command.parts[parser.parse_args(argv[:1]).command]
    return part.load().main(argv[1:]) or 0
