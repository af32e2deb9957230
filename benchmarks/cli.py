"""The `holdfast` command: finds the subcommand's module and hands over; imports nothing heavy."""

import argparse
import gc
import importlib
import os
import sys
from types import ModuleType
from typing import NamedTuple

from .. import HoldfastError


class Command(NamedTuple):
    """A row of the table below."""

    module: str  # relative to this package; its `main(argv)` returns an exit status or None
    help: str
    quick: str = (
        ""  # a module that answers `is_quick` words, where the command's takes seconds to import
    )


GROUPS: dict[str, dict[str, Command]] = {
    "runs": {
        "demo": Command(".demo", "show collapse and RDumb on this machine, without downloads"),
        "test": Command(".test", "run one method on one stream (LightningCLI)", quick=".help"),
        "suite": Command(".suites.suite", "run a grid of methods, streams and seeds from YAML"),
    },
    "results": {
        "status": Command(".suites.status", "how far runs are, who runs them, what failed"),
        "report": Command(".report", "table, figure or page of the runs in a folder"),
        "paper": Command(".papers.paper", "every table and figure of the papers, from one command"),
        "estimators": Command(
            ".estimators.cli", "accuracy without labels: tables, warnings, costs"
        ),
    },
    "models and streams": {
        "train-source": Command(".train.source", "train a source model for glyphs, digits, CIFAR"),
        "ensemble": Command(
            ".train.ensemble", "train models that differ in one source of diversity"
        ),
        "calibrate": Command(
            ".calibrate", "measure the accuracies that a CCC stream is built from"
        ),
        "generate": Command(
            ".generate", "write a CCC stream as tar shards, in the official layout"
        ),
        "paths": Command(".paths", "how long the walks of a calibration are (table A.1)"),
    },
    "costs": {
        "step-cost": Command(".measure.step_cost", "time and memory of each method's step"),
        "long-run": Command(".measure.long_run", "memory, sizes and overhead of a long run"),
        "throughput": Command(".measure.throughput", "corruptions per second"),
    },
    "citations": {
        "cite": Command("..agents.cli", "CiteME: can an agent find the paper behind a citation?"),
    },
}
COMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}


def help_text() -> str:
    """The commands, group by group."""
    lines = []
    for group, commands in GROUPS.items():
        lines += [f"{group}:"]
        lines += [f"  {name:13} {command.help}" for name, command in commands.items()] + [""]
    return "\n".join([*lines, "holdfast COMMAND --help shows a command's own options."])


def imported(name: str) -> ModuleType:
    """A module of this package; what it makes stays, so that nothing is looked through for garbage."""
    looking = gc.isenabled()
    gc.disable()
    try:
        return importlib.import_module(name, __package__)
    finally:
        if looking:
            gc.enable()


def main(argv: list[str] | None = None) -> int:
    """Run `holdfast COMMAND ...` and return its exit status (2: the user can mend the input)."""
    parser = argparse.ArgumentParser(
        prog="holdfast",
        usage="holdfast COMMAND ...",
        description="Test-time adaptation under continual corruption, and citation attribution.",
        epilog=help_text(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", metavar="COMMAND", choices=COMMANDS, help=argparse.SUPPRESS)
    argv = sys.argv[1:] if argv is None else argv
    name = parser.parse_args(argv[:1]).command
    if os.getcwd() not in sys.path:  # modules of one's own in the current folder, found last
        sys.path.append(os.getcwd())
    # Before torch starts its threads: spinning ones slow small networks down where cores are shared.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        command, words = COMMANDS[name], argv[1:]
        module = imported(command.quick or command.module)
        if command.quick and not module.is_quick(words):
            module = imported(command.module)
        status = module.main(words) or 0
        sys.stdout.flush()  # here, where a pipe that nobody reads any more is told apart
        return status
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except HoldfastError as error:
        print(f"holdfast {name}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stop:
        print(f"holdfast {name}: {str(stop) or 'interrupted'}", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
