"""`holdfast tune`: choose the settings of every method of a suite by one rule and with one budget.

Trials run on data that the suite does not use; the suite itself then runs with the default, the tuned and
the other settings that the table compares.
"""

import argparse
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import yaml

from ... import HoldfastError, callbacks
from ..common_options import command_parser
from ..results.run_statistics import mean
from ..results.runs import Run, grouped
from ..results.text_table import formatted
from .options import RunOptions, add_data_options, add_run_options, add_suite_file, repeating
from .suite import Unfinished, load_suite, run_all_cells
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
    add_suite_file(parser)
    add("--budget", type=int, default=9, help="trials of each method and network (default: 9)")
    longer = "batches of a trial (default: 1.5 times the longest reset interval, at least 128)"
    add("--steps", type=int, help=longer)
    rule = "accuracy estimator of the rule without labels (default: SourceAgreement)"
    add("--estimator", default="SourceAgreement", help=rule)
    within = "choose the largest rate at most POINTS below the best one (default: 0, the best)"
    add("--within", type=float, default=0.0, metavar="POINTS", help=within)
    add("--oracle", action="store_true", help="run the suite with the settings of all trials")
    add_run_options(parser, out="runs/tune/NAME")
    add_data_options(parser)
    return parser


def main(argv: list[str]) -> int:
    """Run the trials and the suite with the chosen settings, and write and print the choices."""
    args = parser().parse_args(argv)
    if args.budget < 3:
        raise HoldfastError(f"--budget must be at least 3, not {args.budget}.")
    if not hasattr(callbacks, args.estimator):
        raise HoldfastError(f"There is no estimator {args.estimator} in holdfast.callbacks.")
    scale = ["--scale", args.scale] if args.scale else []
    command = repeating("holdfast", "tune", args.config, *scale, seeds=args.seeds)
    options = RunOptions.parsed(args, command=f"{command} --budget {args.budget}")
    suite = load_suite(args.config, options, args.scale)
    suite["out"] = args.out or f"runs/tune/{Path(args.config).stem}"
    search = Search(
        suite, options, args.budget, args.steps, args.estimator, args.oracle, args.within
    )
    try:
        choices, results = search.run()
    except Unfinished as error:
        print(error)
        return int(error.failed)
    text = formatted(table(choices, results), "markdown")
    Path(suite["out"], "table.md").write_text(f"{text}\n", encoding="utf-8")
    print(text, f"settings: {suite['out']}/tuned.yaml", sep="\n\n")
    return 0


@dataclass(frozen=True)
class Search:
    """The trials of a suite's methods, and the suite with the settings that each rule chooses.

    budget: trials of each method and network. steps: batches of a trial, or None. estimator: whose mean the
    rule without labels maximises. oracle: run the suite with the settings of all trials. within: points
    that the largest rate may cost.
    """

    suite: dict[str, Any]
    options: RunOptions
    budget: int
    steps: int | None
    estimator: str
    oracle: bool
    within: float = 0.0

    def run(self) -> tuple[dict[str, Choice], "Results"]:
        """The choices of each rule, which it writes, and the suite's results with all of them."""
        wanted = self.options.methods or self.suite["methods"]
        first = [t for t in rates(self.suite, self.budget) if t.method in wanted]
        holdout = on_holdout(self.suite, self.steps)
        default = {t.key: t for t in defaults(self.suite) if t.method in wanted}
        choices: dict[str, Choice] = {"default": default}
        tried = [*choices["default"].values()]
        for rule, score in (("tuned", accuracy), (self.estimator, estimate(self.estimator))):
            best = self.results(holdout, first).best(score, self.within).values()
            trials = [*first, *(second for trial in best for second in seconds(trial))]
            results = self.results(holdout, trials)
            choices[rule] = results.best(score, self.within)
            if equal := results.equal(score):
                chosen = "largest rate" if self.within else "first"
                print(f"{rule}: all trials of {', '.join(equal)} are equal; the {chosen} is chosen")
            self.write(Path(self.suite["out"], f"{rule}.yaml"), choices[rule].values(), results)
            tried += results.trials if self.oracle else choices[rule].values()
        results = self.results(self.suite, tried)
        oracle = {"oracle": results.best(accuracy)} if self.oracle else {}
        return choices | oracle, results

    def results(self, suite: dict[str, Any], trials: Iterable[Trial]) -> "Results":
        """Run what is missing of these trials; raises Unfinished if some of it is left."""
        by_name = {trial.name: trial for trial in trials}
        cells_of = {name: cells(suite, [t], self.estimator) for name, t in by_name.items()}
        every = [cell for trial_cells in cells_of.values() for cell in trial_cells]
        run_all_cells(every, self.options)
        runs = {
            name: [Run.load(cell.folder) for cell in trial_cells]
            for name, trial_cells in cells_of.items()
        }
        return Results([*by_name.values()], runs)

    def write(self, path: Path, chosen: Iterable[Trial], results: "Results") -> None:
        """Write chosen settings for a suite's `tuned:`, and the scores of all trials beside them."""
        content: dict[str, dict[str, Any]] = {}
        for trial in chosen:
            content.setdefault(trial.network, {})[trial.method] = trial.arguments
        head = f"# {self.options.command}\n# Use it in a suite: `tuned: {path}`. All trials: "
        text = f"{head}{path.stem}.csv\n{yaml.safe_dump(content, sort_keys=False)}"
        path.write_text(text, encoding="utf-8")
        names = ["method", "network", "settings", "seed", "accuracy", self.estimator]
        score = estimate(self.estimator)
        rows = [
            (*trial.name, run.seed, run.accuracy, score(run))
            for trial in results.trials
            for run in results.runs[trial.name]
        ]
        pd.DataFrame(rows, columns=names).to_csv(path.with_suffix(".csv"), index=False)


def estimate(name: str) -> Score:
    """The mean of an estimator's values over the batches of a run."""
    return lambda run: mean(run.column(name))


class Results(NamedTuple):
    """Trials and their finished runs, by the trials' names."""

    trials: list[Trial]
    runs: dict[tuple[str, str, str], list[Run]]

    def by_seed(self, trial: Trial, score: Score = accuracy) -> list[float]:
        """The mean score over the streams in percent, for each seed; NaN where it is unknown."""
        groups = grouped(self.runs[trial.name], lambda run: run.seed).values()
        return [100 * float(np.mean(np.array([*map(score, runs)], dtype=float))) for runs in groups]

    def best(self, score: Score, within: float = 0.0) -> Choice:
        """The trial of each method and network with the highest mean score, the first of equal ones.

        within: points by which a trial with a larger rate may be below it.
        """
        choice: Choice = {}
        for key, trials in grouped(self.trials, lambda trial: trial.key).items():
            means = np.nan_to_num([np.mean(self.by_seed(t, score)) for t in trials], nan=-np.inf)
            near = [trials[n] for n in np.flatnonzero(means >= means.max() - within)]
            choice[key] = max(near, key=lambda t: t.values.get("lr", 0.0) if within else 0.0)
        return choice

    def equal(self, score: Score) -> list[str]:
        """The methods whose trials, of one network, all have the same score with each seed."""
        return [
            method
            for (method, _), trials in grouped(self.trials, lambda trial: trial.key).items()
            if len(trials) > 1 and len({tuple(self.by_seed(t, score)) for t in trials}) == 1
        ]


def table(choices: Mapping[str, Choice], results: Results) -> pd.DataFrame:
    """Each method's mean accuracy, and its worst seed's, by choice; what a rule costs beside the oracle."""
    name_networks = len({network for _, network in choices["default"]}) > 1
    rows = []
    for key in choices["default"]:
        trials = {rule: choice[key] for rule, choice in choices.items() if key in choice}
        seeds = {rule: results.by_seed(trial) for rule, trial in trials.items()}
        row = {"method": ", ".join(key) if name_networks else key[0]} | dict.fromkeys(choices, "-")
        for rule, trial in trials.items():
            row[rule] = f"{np.mean(seeds[rule]):.1f} ({min(seeds[rule]):.1f}) {trial.text}".strip()
        for rule in [*choices][1:-1] if "oracle" in choices else ():
            costs = np.mean(seeds["oracle"]) - np.mean(seeds.get(rule, seeds["oracle"]))
            row[f"{rule} costs"] = f"{costs:.1f}" if rule in trials else "-"
        rows.append(row)
    return pd.DataFrame(rows)
