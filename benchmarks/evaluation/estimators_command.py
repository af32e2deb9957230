"""`holdfast estimators`: accuracy estimates without labels, in more detail than a run prints.

warnings  measure each estimator's delay and false alarms in detecting collapse, and draw a figure
quality   measure the quality of estimates: R2, Spearman's rho, mean absolute error, coverage
fit       fit f, which maps weighted flips to an accuracy, to runs
agree     estimate accuracy from the agreement of several models (GDE, agreement-on-the-line)
cost      measure the time of each per-batch estimator, in plain forward passes
"""

import importlib
from typing import Any

from ... import HoldfastError
from ...command_parser import Parser

COMMANDS = {
    "warnings": ".alarm_quality",
    "quality": ".quality",
    "fit": ".fit",
    "agree": ".agree",
    "cost": "..measure.estimator_cost",
}


PARTS = "holdfast estimators COMMAND --help prints the options of a command."
MOVED = {  # former subcommands
    "table": "aetta/T2 --runs FOLDER (and aetta/T3 for recovery)",
    "datasets": "flips/T3.1 --runs FOLDER (and T3.2, TB.1 to TB.4; --fit-on, --f)",
}


def main(argv: list[str]) -> int:
    """Run the module of the subcommand."""
    if argv[:1] and argv[0] in MOVED:
        raise HoldfastError(
            f"`holdfast estimators {argv[0]}` is now `holdfast paper {MOVED[argv[0]]}`."
        )
    parser = Parser("estimators", __doc__, "warnings runs/estimators-glyphs\n" + PARTS)
    parser.add("command", choices=COMMANDS)
    return module(parser.parse_args(argv[:1]).command).main(argv[1:])


def module(name: str) -> Any:
    """The module of a subcommand."""
    return importlib.import_module(COMMANDS[name], __package__)
