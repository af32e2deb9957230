"""`holdfast stress`: from which learning rate on a method collapses, on each stream and network."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ... import HoldfastError
from ...intervals import exact_interval
from ..common_options import command_parser
from ..presets import presets
from ..results.runs import Run, grouped, with_results
from ..results.text_table import formatted
from . import grid
from .options import RunOptions, add_run_options, repeating
from .suite import Unfinished, load_suite, run_all_cells
from .trials import cells, defaults, rates


def parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__ or "", "stress Tent --budget 5")
    add = parser.add_argument
    method = "a method, a name of methods.yaml, or a class path such as mymethods.Mine"
    add("method", help=method)
    add("--budget", type=int, default=7, help="learning rates around the method's (default: 7)")
    backbones = "networks, such as glyphs and one without batch normalisation (default: glyphs)"
    add("--backbones", nargs="+", default=["glyphs"], metavar="NAME", help=backbones)
    streams = "suite with the streams (default: CCC-Medium on glyphs, two orders of labels)"
    add("--streams", default="stress", metavar="SUITE", help=streams)
    add_run_options(parser, out="runs/stress")
    return parser


def main(argv: list[str]) -> int:
    """Run the method at each rate, and print where it collapses; 1 if runs have failed."""
    args = parser().parse_args(argv)
    if args.budget < 1:
        raise HoldfastError(f"--budget must be at least 1, not {args.budget}.")
    options = RunOptions.parsed(args, command=repeating("holdfast", "stress", args.method))
    suite = load_suite(args.streams, options)
    suite["overrides"] = {
        name: {"model": {"init_args": {"backbone": name}}} for name in args.backbones
    }
    sources = [*grid.cells(suite)]
    suite["methods"] = {args.method: settings_of(args.method)}
    trials = rates(suite, args.budget) or [*defaults(suite)]
    tried = cells(suite, trials)
    try:
        run_all_cells([*sources, *tried], options)
    except Unfinished as error:
        print(error)
        return int(error.failed)
    runs = with_results(Run.load(cell.folder) for cell in [*sources, *tried])
    table = thresholds([run for run in runs if run.method == args.method])
    text = formatted(table, "markdown")
    Path(suite["out"], f"{args.method}.md").write_text(f"{text}\n", encoding="utf-8")
    print(text)
    return 0


def settings_of(method: str) -> str | dict[str, Any]:
    """The settings of a method for glyphs, or its paper's, or those of a class."""
    known = presets("methods")
    names = (f"{method.lower()}-glyphs", method.lower(), method)
    return next((name for name in names if name in known), {"class_path": method})


def thresholds(runs: Sequence[Run]) -> pd.DataFrame:
    """A row for each network, stream and rate: mean accuracy, and how many seeds collapse.

    A run collapses as in reports: below the source model over the last eighth, by more than the margin. The
    interval of the share is Clopper and Pearson's.

    Raises:
        HoldfastError: if a stream is too short to tell.
    """
    if unknown := next((run for run in runs if run.collapsed is None), None):
        raise HoldfastError(
            f"{unknown.folder} has {len(unknown.rows)} batches with labels of its source model: too few to "
            "tell whether it has collapsed. Choose streams of 40 batches or more."
        )
    rows = []
    tried = grouped(runs, lambda run: (network_of(run), run.stream, rate_of(run)))
    for (network, stream, rate), same in sorted(tried.items()):
        hits = sum(bool(run.collapsed) for run in same)
        low, high = (100 * end for end in exact_interval(hits, len(same)))
        rows.append(
            {
                "network": network,
                "stream": stream,
                "rate": f"{rate:g}" if rate else "-",
                "accuracy": f"{100 * np.mean([run.accuracy for run in same]):.1f}",
                "collapsed": f"{hits} of {len(same)}",
                "share, % [95 %]": f"{100 * hits / len(same):.0f} [{low:.0f}, {high:.0f}]",
            }
        )
    return pd.DataFrame(rows)


def network_of(run: Run) -> str:
    """The name of a run's network."""
    return str(run.cell["config"]["model"]["init_args"]["backbone"])


def rate_of(run: Run) -> float:
    """The learning rate of a run; 0 for a method without one."""
    return float(run.factors.get("lr", 0))
