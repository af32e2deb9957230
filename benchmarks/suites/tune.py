"""`holdfast tune`: choose the settings of every method of a suite by one rule and with one budget.

Trials run on data that the suite does not use; the suite itself then runs with the default, the tuned and
the other settings that the table compares.
"""

import argparse
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import yaml

from ... import HoldfastError, callbacks
from ...run_folder import ERROR
from ..results.run_statistics import mean
from ..results.runs import Run, grouped
from ..results.text_table import formatted
from . import suite as command
from .cell import Cell
from .trials import Trial, cells, defaults, on_holdout, rates, seconds

Key = tuple[str, str]  # method and network
Score = Callable[[Run], float | None]


def accuracy(run: Run) -> float | None:
    """The accuracy of a run."""
    return run.accuracy


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = argparse.ArgumentParser(
        "holdfast tune",
        description="Choose the learning rate of every method of a suite, and a second setting where its "
        "paper studies one, by trials on a stream that the suite does not use.",
        epilog="example: holdfast tune suite.yaml --budget 7 --out runs/tune",
    )
    add = parser.add_argument
    add("config", help="YAML file, or the name of a suite that comes with Holdfast")
    add("--scale", help="one of the scales in the file (default: its first)")
    add("--budget", type=int, default=9, help="trials of each method and network (default: 9)")
    add("--steps", type=int, help="batches of a trial (default: 1.5 times the longest interval "
        "between resets, at least 128)")  # fmt: skip
    add(
        "--estimator",
        default="SourceAgreement",
        help="accuracy estimator of the rule without labels (default: SourceAgreement)",
    )
    add("--oracle", action="store_true", help="run the suite with the settings of all trials")
    command.add_options(parser)
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
    out = Path(suite["out"])
    own = list(defaults(suite))
    held = on_holdout(suite, args.steps)
    chosen: dict[str, Mapping[Key, Trial]] = {"default": {trial.key: trial for trial in own}}
    tried = {trial.name: trial for trial in own}
    try:
        for rule, score in (("tuned", accuracy), (args.estimator, estimate(args.estimator))):
            first = rates(suite, args.budget)
            best = Results.of(held, first, args).best(score).values()
            own = [*first, *(trial for choice in best for trial in seconds(choice))]
            done = Results.of(held, own, args)
            chosen[rule] = done.best(score)
            write(out / f"{rule}.yaml", chosen[rule].values(), done, args)
            if args.oracle:
                tried |= {trial.name: trial for trial in own}
        tried |= {trial.name: trial for several in chosen.values() for trial in several.values()}
        there = Results.of(suite, tried.values(), args)
    except Unfinished as error:
        print(error)
        return error.failed
    if args.oracle:
        chosen["oracle"] = there.best(accuracy)
    text = formatted(table(chosen, there), "markdown")
    (out / "table.md").write_text(f"{text}\n", encoding="utf-8")
    print(text, f"settings: {out / 'tuned.yaml'}", sep="\n\n")
    return 0


class Unfinished(Exception):
    """Runs have failed, or are left to other shards or processes."""

    def __init__(self, cells: list[Cell], failed: int) -> None:
        self.failed = bool(failed)
        super().__init__(
            f"{len(cells)} runs are unfinished, such as {cells[0].folder}. Repeat the command when the "
            f"other shards have finished; failed runs ({failed}) have a file {ERROR}."
        )


def estimate(name: str) -> Score:
    """The mean of an estimator's values over the batches of a run."""
    return lambda run: mean(run.column(name))


class Results(NamedTuple):
    """Trials and their finished runs, by the trials' names."""

    trials: list[Trial]
    runs: dict[tuple[Any, ...], list[Run]]

    @classmethod
    def of(cls, suite: dict[str, Any], trials: Iterable[Trial], args: Namespace) -> "Results":
        """Run what is missing; raises Unfinished if some of it is left."""
        trials = list(trials)
        several = {trial.name: cells(suite, [trial], args.estimator) for trial in trials}
        every = [cell for own in several.values() for cell in own]
        failed, _ = command.run_cells(every, args)
        if missing := [cell for cell in every if not cell.finished]:
            raise Unfinished(missing, failed)
        return cls(trials, {k: [Run.load(c.folder) for c in own] for k, own in several.items()})

    def by_seed(self, trial: Trial, score: Score = accuracy) -> list[float]:
        """The mean score over the streams in percent, for each seed; NaN where it is unknown."""
        groups = grouped(self.runs[trial.name], lambda run: run.seed).values()
        return [100 * float(np.mean(np.array([*map(score, own)], dtype=float))) for own in groups]

    def best(self, score: Score) -> dict[Key, Trial]:
        """The trial of each method and network with the highest mean score, the first of equal ones."""
        found: dict[Key, Trial] = {}
        for key, several in grouped(self.trials, lambda trial: trial.key).items():
            means = np.nan_to_num([np.mean(self.by_seed(t, score)) for t in several], nan=-np.inf)
            found[key] = several[int(np.argmax(means))]
        return found


def write(path: Path, chosen: Iterable[Trial], done: Results, args: Namespace) -> None:
    """Write chosen settings for a suite's `tuned:`, and all trials with their scores beside them."""
    content: dict[str, dict[str, Any]] = {}
    for trial in chosen:
        content.setdefault(trial.network, {})[trial.method] = trial.arguments
    head = f"# {args.command}\n# Use it in a suite: `tuned: {path}`. All trials: {path.stem}.csv\n"
    path.write_text(head + yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    rows = [
        {
            **{"method": trial.method, "network": trial.network, "settings": trial.text},
            **{"seed": run.seed, "accuracy": run.accuracy},
            args.estimator: estimate(args.estimator)(run),
        }
        for trial in done.trials
        for run in done.runs[trial.name]
    ]
    pd.DataFrame(rows).to_csv(path.with_suffix(".csv"), index=False)


def table(chosen: Mapping[str, Mapping[Key, Trial]], there: Results) -> pd.DataFrame:
    """Each method's mean accuracy and that of its worst seed on the suite by choice, and its cost."""
    rows = []
    several = len({network for _, network in chosen["default"]}) > 1
    for key, default in chosen["default"].items():
        row = {"method": ", ".join(key) if several else key[0]}
        seeds = {rule: there.by_seed(own[key]) for rule, own in chosen.items() if key in own}
        for rule, own in chosen.items():
            row[rule] = (
                f"{np.mean(seeds[rule]):.1f} ({min(seeds[rule]):.1f})" if key in own else "-"
            )
            row[rule] += f" {own[key].text}" if default.values else ""
        if "oracle" in chosen:
            for rule in [*chosen][1:-1]:
                cost = np.mean(seeds["oracle"]) - np.mean(seeds[rule]) if rule in seeds else None
                row[f"{rule} costs"] = "-" if cost is None else f"{cost:.1f}"
        rows.append(row)
    return pd.DataFrame(rows)
