"""The `holdfast` command: finds the subcommand's module and hands over; imports nothing heavy."""

import argparse
import importlib
import os
import sys
from typing import NamedTuple

from .. import HoldfastError


class Command(NamedTuple):
    module: str  # relative to this package; its `main(argv)` returns an exit status or None
    help: str


COMMANDS = {
    "demo": Command(".demo", "show collapse and RDumb on this machine, without downloads"),
    "test": Command(".test", "run one method on one stream (LightningCLI)"),
    "suite": Command(".suites.suite", "run a grid of methods, streams and seeds from a YAML file"),
    "status": Command(
        ".suites.status", "how far the runs in a folder are, who runs them, what failed"
    ),
    "report": Command(".results.report", "table and figure of finished or unfinished runs"),
    "estimators": Command(".estimators.cli", "accuracy without labels: tables, warnings, costs"),
    "train-source": Command(
        ".train.source", "train the source model of an embedded data set, or of CIFAR"
    ),
    "calibrate": Command(".calibrate", "measure the accuracy matrices a CCC stream is built from"),
    "generate": Command(".generate", "write a CCC stream as tar shards in the official layout"),
    "paths": Command(".paths", "how long the walks of a calibration are (table A.1)"),
    "step-cost": Command(
        ".measure.step_cost", "time and memory of each method's step, beside a bare one"
    ),
    "long-run": Command(".measure.long_run", "memory, sizes and overhead of a long run's record"),
    "throughput": Command(".measure.throughput", "corruptions per second, beside imagecorruptions"),
    "cite": Command("..agents.cli", "CiteME: can an agent find the paper behind a citation?"),
}


def main(argv: list[str] | None = None) -> int:
    """Run `holdfast COMMAND ...` and return its exit status (2: the user can mend the input)."""
    parser = argparse.ArgumentParser(
        prog="holdfast",
        description="Test-time adaptation under continual corruption, and citation attribution.",
        epilog="holdfast COMMAND --help shows a command's own options.",
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        commands.add_parser(name, help=command.help, add_help=False)
    argv = sys.argv[1:] if argv is None else argv
    name = parser.parse_args(argv[:1]).command
    # Before torch starts its threads: spinning ones slow small networks down where cores are shared.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        module = importlib.import_module(COMMANDS[name].module, __package__)
        return module.main(argv[1:]) or 0
    except HoldfastError as error:
        print(f"holdfast {name}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stop:
        print(f"holdfast {name}: {str(stop) or 'interrupted'}", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
