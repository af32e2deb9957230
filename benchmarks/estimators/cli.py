"""`holdfast estimators`: accuracy without labels, beyond what a run itself prints.

table     errors of the estimates and gains by recovery, in the papers' layout, and a figure
warnings  how soon each estimator told of a collapse, and how often it was wrong
datasets  errors of the estimates for whole data sets; fits f where it is asked to
fit       f, which turns weighted flips into an accuracy, from runs
agree     accuracies from the agreement of several models, and agreement-on-the-line
cost      the time of each per-batch estimator, in plain forward passes
"""

import argparse
import importlib
from typing import Any

COMMANDS = {
    "table": ".table",
    "warnings": ".warnings",
    "datasets": ".datasets",
    "fit": ".fit",
    "agree": ".agree",
    "cost": "..measure.estimator_cost",
}


def main(argv: list[str]) -> int:
    """Hand over to the module of the subcommand."""
    parser = argparse.ArgumentParser(
        prog="holdfast estimators",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: holdfast estimators table runs/estimators-glyphs\n"
        "holdfast estimators COMMAND --help shows a command's own options.",
    )
    parser.add_argument("command", choices=COMMANDS)
    return module(parser.parse_args(argv[:1]).command).main(argv[1:])


def module(name: str) -> Any:
    """The module of a subcommand."""
    return importlib.import_module(COMMANDS[name], __package__)
