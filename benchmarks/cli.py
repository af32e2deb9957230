"""The `holdfast` command, which runs the subcommand's module; this module imports nothing slow."""

import argparse
import os
import sys
from difflib import get_close_matches
from importlib import import_module

from .. import HoldfastError

# Each module has `main(argv)`, which returns an exit status or None, and `parser()`. A new user needs the
# first six.
COMMANDS = {
    "demo": ("benchmarks.demo", "show Tent's collapse and RDumb on this machine"),
    "corruptions": ("benchmarks.corruptions", "measure a model's accuracy under each corruption"),
    "methods": ("benchmarks.methods_command", "list the methods"),
    "test": ("benchmarks.test", "run one method on one stream (LightningCLI)"),
    "suite": ("benchmarks.suites.suite", "run a grid of methods, streams and seeds from YAML"),
    "report": ("benchmarks.report_command", "print tables, or write a page, of runs; their status"),
    "tune": (
        "benchmarks.suites.tune",
        "choose the settings of a suite's methods by one rule and budget",
    ),
    "stress": ("benchmarks.suites.stress", "find the learning rates at which a method collapses"),
    "leaderboard": (
        "benchmarks.leaderboard.command",
        "compare methods on fixed tracks; add and check entries",
    ),
    "paper": ("benchmarks.papers.engine.command", "reproduce a table or figure of the papers"),
    "estimators": ("benchmarks.results.estimators", "evaluate accuracy estimators and alarms"),
    "train": ("benchmarks.train.train", "train source models and ensembles"),
    "calibrate": ("benchmarks.streams.calibrate", "measure the accuracies that CCC is built from"),
    "generate": ("benchmarks.streams.generate", "write a CCC stream as tar shards"),
    "bench": ("benchmarks.bench.bench", "measure what steps, streams and estimators cost"),
    "cite": ("agents.cite", "evaluate agents on CiteME: which paper is cited?"),
}


def main(argv: list[str] | None = None) -> int:
    """Run `holdfast COMMAND ...` and return its exit status (2: invalid input)."""
    listed = [f"  {name:13} {about}" for name, (_, about) in COMMANDS.items()]
    parser = argparse.ArgumentParser(
        prog="holdfast",
        usage="holdfast COMMAND ...",
        description="Test-time adaptation under continual corruption, and citation attribution.",
        epilog="\n".join(
            [
                "commands:",
                *listed,
                "",
                "Run holdfast COMMAND --help for the options of a command, holdfast --version for the",
                "version. Configurations may name classes of modules in the current folder.",
            ]
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", metavar="COMMAND", choices=COMMANDS, help=argparse.SUPPRESS)
    argv = sys.argv[1:] if argv is None else argv
    if not argv:
        print("\n".join([parser.format_usage(), *listed[:6]]))
        print("\nholdfast --help lists all commands, holdfast COMMAND --help a command's options.")
        return 0
    if argv[:1] == ["--version"]:
        from importlib.metadata import version  # deferred: slow import

        print("holdfast", version("holdfast"))
        return 0
    if argv and argv[0] not in COMMANDS and (near := get_close_matches(argv[0], COMMANDS, 1)):
        parser.error(f"there is no command {argv[0]!r}. Did you mean holdfast {near[0]}?")
    name = parser.parse_args(argv[:1]).command
    # Set before torch starts its threads: spinning threads slow down small networks on shared cores.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    sys.path.insert(0, os.getcwd())  # as `python -m`, for the user's own classes
    try:
        status = import_module(f"holdfast.{COMMANDS[name][0]}").main(argv[1:]) or 0
        sys.stdout.flush()  # inside the block that handles a closed pipe
        return status
    except BrokenPipeError:  # the reader, such as `| head`, has closed the pipe
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
