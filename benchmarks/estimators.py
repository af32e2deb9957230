"""`holdfast estimators`: accuracy without labels, beyond what a run itself prints.

cost      the time of each per-batch estimator, in plain forward passes
"""

import argparse
import importlib

COMMANDS = {"cost": ".cost"}


def main(argv: list[str]) -> int:
    """Hand over to the module of the subcommand."""
    parser = argparse.ArgumentParser(
        prog="holdfast estimators",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=COMMANDS)
    name = parser.parse_args(argv[:1]).command
    return importlib.import_module(COMMANDS[name], __package__).main(argv[1:])
