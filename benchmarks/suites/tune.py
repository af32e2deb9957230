"""`holdfast tune`: choose the settings of every method of a suite by one rule and with one budget.

Trials run on data that the suite does not use; the suite itself then runs with the default, the tuned and
the other settings that the table compares.
"""

import argparse
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import yaml

from ... import HoldfastError, callbacks
from ...run_folder import ERROR
from ..common_options import command_parser
from ..results.run_statistics import mean
from ..results.runs import Run, grouped
from ..results.text_table import formatted
from . import suite as command
from .trials import Trial, cells, defaults, on_holdout, rates, seconds

Choice = dict[tuple[str, str], Trial]  # by method and network
Score = Callable[[Run], float | None]
accuracy: Score = attrgetter("accuracy")


def parser() -> argparse.ArgumentParser:
    parser = command_parser(
        "Choose the learning rate of every method of a suite, and a second setting where its "
        "paper studies one, by trials on a stream that the suite does not use.",
        "tune suite.yaml --budget 7 --out runs/tune",
    )
    add = parser.add_argument
    command.add_file(parser)
    add("--budget", type=int, default=9, help="trials of each method and network (default: 9)")
    longer = "batches of a trial (default: 1.5 times the longest reset interval, at least 128)"
    add("--steps", type=int, help=longer)
    rule = "accuracy estimator of the rule without labels (default: SourceAgreement)"
    add("--estimator", default="SourceAgreement", help=rule)
    add("--oracle", action="store_true", help="run the suite with the settings of all trials")
    command.add_options(parser, out="runs/tune/NAME")
    return parser


def main(argv: list[str]) -> int:
    """Run the trials and the suite with the chosen settings, and write and print the choices."""
    args = parser().parse_args(argv)
    if args.budget < 3:
        raise HoldfastError(f"--budget must be at least 3, not {args.budget}.")
    if not hasattr(callbacks, args.estimator):
        raise HoldfastError(f"There is no estimator {args.estimator} in holdfast.callbacks.")
    scale = ["--scale", args.scale] if args.scale else []
    args.command = command.repeating("holdfast", "tune", args.config, *scale, seeds=args.seeds)
    args.command += f" --budget {args.budget}"
    suite = command.load(args.config, args, args.scale)
    suite["out"] = args.out or f"runs/tune/{Path(args.config).stem}"
    try:
        chosen, there = search(suite, args)
    except Unfinished as error:
        print(error)
        return int(error.failed)
    text = formatted(table(chosen, there), "markdown")
    Path(suite["out"], "table.md").write_text(f"{text}\n", encoding="utf-8")
    print(text, f"settings: {suite['out']}/tuned.yaml", sep="\n\n")
    return 0


def search(suite: dict[str, Any], args: Namespace) -> tuple[dict[str, Choice], "Results"]:
    """The choices of each rule, which it writes, and the suite's results with all of them."""
    first, held = rates(suite, args.budget), on_holdout(suite, args.steps)
    chosen: dict[str, Choice] = {"default": {trial.key: trial for trial in defaults(suite)}}
    tried = [*chosen["default"].values()]
    for rule, score in (("tuned", accuracy), (args.estimator, estimate(args.estimator))):
        best = Results.of(held, first, args).best(score).values()
        found = Results.of(held, [*first, *(t for own in best for t in seconds(own))], args)
        chosen[rule] = found.best(score)
        write(Path(suite["out"], f"{rule}.yaml"), chosen[rule].values(), found, args)
        tried += found.trials if args.oracle else chosen[rule].values()
    there = Results.of(suite, tried, args)
    return chosen | ({"oracle": there.best(accuracy)} if args.oracle else {}), there


class Unfinished(Exception):
    """Some runs have failed, or are left to other shards or processes."""

    failed = False


def estimate(name: str) -> Score:
    """The mean of an estimator's values over the batches of a run."""
    return lambda run: mean(run.column(name))


class Results(NamedTuple):
    """Trials and their finished runs, by the trials' names."""

    trials: list[Trial]
    runs: dict[tuple[str, str, str], list[Run]]

    @classmethod
    def of(cls, suite: dict[str, Any], trials: Iterable[Trial], args: Namespace) -> "Results":
        """Run what is missing; raises Unfinished if some of it is left."""
        known = {trial.name: trial for trial in trials}
        several = {name: cells(suite, [trial], args.estimator) for name, trial in known.items()}
        every = [cell for own in several.values() for cell in own]
        failed, _ = command.run_cells(every, args)
        if missing := [cell for cell in every if not cell.finished]:
            error = Unfinished(
                f"{len(missing)} runs are unfinished ({failed} have failed: see {ERROR} there), such "
                f"as {missing[0].folder}. Repeat the command when other shards have finished."
            )
            error.failed = bool(failed)
            raise error
        runs = {name: [Run.load(cell.folder) for cell in own] for name, own in several.items()}
        return cls([*known.values()], runs)

    def by_seed(self, trial: Trial, score: Score = accuracy) -> list[float]:
        """The mean score over the streams in percent, for each seed; NaN where it is unknown."""
        groups = grouped(self.runs[trial.name], lambda run: run.seed).values()
        return [100 * float(np.mean(np.array([*map(score, own)], dtype=float))) for own in groups]

    def best(self, score: Score) -> Choice:
        """The trial of each method and network with the highest mean score, the first of equal ones."""
        found: Choice = {}
        for key, several in grouped(self.trials, lambda trial: trial.key).items():
            means = np.nan_to_num([np.mean(self.by_seed(t, score)) for t in several], nan=-np.inf)
            found[key] = several[int(np.argmax(means))]
        return found


def write(path: Path, chosen: Iterable[Trial], found: Results, args: Namespace) -> None:
    """Write chosen settings for a suite's `tuned:`, and the scores of all trials beside them."""
    content: dict[str, dict[str, Any]] = {}
    for trial in chosen:
        content.setdefault(trial.network, {})[trial.method] = trial.arguments
    head = f"# {args.command}\n# Use it in a suite: `tuned: {path}`. All trials: {path.stem}.csv\n"
    path.write_text(head + yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    names = ["method", "network", "settings", "seed", "accuracy", args.estimator]
    score = estimate(args.estimator)
    rows = [
        (*trial.name, run.seed, run.accuracy, score(run))
        for trial in found.trials
        for run in found.runs[trial.name]
    ]
    pd.DataFrame(rows, columns=names).to_csv(path.with_suffix(".csv"), index=False)


def table(chosen: Mapping[str, Choice], there: Results) -> pd.DataFrame:
    """Each method's mean accuracy, and its worst seed's, by choice; what a rule costs beside the oracle."""
    several = len({network for _, network in chosen["default"]}) > 1
    rows = []
    for key in chosen["default"]:
        own = {rule: choice[key] for rule, choice in chosen.items() if key in choice}
        seeds = {rule: there.by_seed(trial) for rule, trial in own.items()}
        row = {"method": ", ".join(key) if several else key[0]} | dict.fromkeys(chosen, "-")
        for rule, trial in own.items():
            row[rule] = f"{np.mean(seeds[rule]):.1f} ({min(seeds[rule]):.1f}) {trial.text}".strip()
        for rule in [*chosen][1:-1] if "oracle" in chosen else ():
            costs = np.mean(seeds["oracle"]) - np.mean(seeds.get(rule, seeds["oracle"]))
            row[f"{rule} costs"] = f"{costs:.1f}" if rule in own else "-"
        rows.append(row)
    return pd.DataFrame(rows)
