"""`holdfast cite compare`: two runs on the same samples, paired."""

import json
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import binomtest, bootstrap, permutation_test

from .. import HoldfastError
from . import cite_options as options
from .cite_options import say
from .data import Dataset
from .records import RETRIED
from .score import Records, judged


def add_options(parser: ArgumentParser) -> None:
    """Add the options of the command, and its action."""
    parser.set_defaults(action=_compare)
    parser.add_argument("a", type=Path, metavar="RUN_A", help="result file")
    parser.add_argument("b", type=Path, metavar="RUN_B", help="result file")
    options.add_run_data(parser)
    options.add_json(parser)


def _compare(args: Namespace) -> None:
    (_, a, dataset), (_, b, _) = options.read_run(args, args.a), options.read_run(args, args.b)
    figures = compare(a, b, dataset)
    text = f"A {args.a}\nB {args.b}\n{_text(figures)}"
    say(json.dumps(figures, indent=1) if args.json else text)


def compare(a: Records, b: Records, dataset: Dataset) -> dict[str, Any]:
    """The paired comparison over the samples that both runs finished.

    With one answer per sample in both runs: the exact McNemar test. With repeats: a sign-flip test of
    the difference of each sample's rates. The mean difference, in [-1, 1], has a 95 % bootstrap interval
    over samples. `a` and `b` are each run's mean and standard deviation over repeats.

    Raises:
        HoldfastError: if the runs share no finished sample.
    """
    verdicts_a, verdicts_b = _verdicts(a, dataset), _verdicts(b, dataset)
    shared = verdicts_a.index.intersection(verdicts_b.index).sort_values()
    if not len(shared):
        raise HoldfastError("The two runs share no finished sample. Compare runs on the same data.")
    verdicts_a = verdicts_a.loc[shared].dropna(axis=1, how="all")
    verdicts_b = verdicts_b.loc[shared].dropna(axis=1, how="all")
    rates_a, rates_b = verdicts_a.mean(axis=1), verdicts_b.mean(axis=1)
    differences = (rates_a - rates_b).to_numpy()
    counts = Counter(zip(rates_a == 1, rates_b == 1, strict=True))
    only_a, only_b = counts[True, False], counts[False, True]
    is_single = list(verdicts_a) == list(verdicts_b) == [0]
    return {
        "pairs": len(shared),
        "split": dataset.split,
        "both": counts[True, True],
        "only_a": only_a,
        "only_b": only_b,
        "neither": counts[False, False],
        "a": _over_repeats(verdicts_a),
        "b": _over_repeats(verdicts_b),
        "difference": float(differences.mean()),
        "interval": _interval(differences),
        "test": "exact McNemar" if is_single else "sign flips over samples",
        "p": mcnemar(only_a, only_b) if is_single else sign_flip(differences),
    }


def _verdicts(records: Records, dataset: Dataset) -> pd.DataFrame:
    """1 or 0 for each finished sample (row) and repeat (column) that is correct or not."""
    rows = judged(records, dataset)
    done = rows[~rows.outcome.isin(RETRIED)].astype({"official": float})
    return done.pivot(index="sample", columns="repeat", values="official")


def _over_repeats(verdicts: pd.DataFrame) -> dict[str, Any]:
    """Mean and standard deviation of the accuracy over repeats."""
    rates = verdicts.mean()
    sd = float(rates.std()) if len(rates) > 1 else 0.0
    return {"mean": float(rates.mean()), "sd": sd, "repeats": len(rates)}


def _interval(differences: NDArray[np.float64]) -> list[float]:
    """The 95 % bootstrap interval of the mean: percentiles of 2,000 draws, fixed seed (Efron 1979)."""
    if len(differences) == 1:  # which scipy refuses
        return [float(differences[0])] * 2
    interval = bootstrap(
        (differences,),
        np.mean,
        n_resamples=2_000,
        method="percentile",
        random_state=np.random.default_rng(0),
    ).confidence_interval
    return [float(interval.low), float(interval.high)]


def mcnemar(only_a: int, only_b: int) -> float:
    """The exact two-sided p-value from the counts of pairs correct only in A or B (McNemar, 1947)."""
    return float(binomtest(only_a, only_a + only_b).pvalue) if only_a + only_b else 1.0


def sign_flip(differences: Sequence[float]) -> float:
    """The two-sided p-value of the mean of paired differences, by flipping their signs.

    Fisher, The Design of Experiments, 1935, section 21. Exact for up to 14 non-zero differences,
    otherwise over 20,000 random flips with a fixed seed.
    """
    nonzero = [difference for difference in differences if difference]
    if len(nonzero) < 2:
        return 1.0
    test = permutation_test(
        (nonzero,), np.mean, permutation_type="samples", n_resamples=20_000, random_state=0
    )
    return float(test.pvalue)


def _text(figures: dict[str, Any]) -> str:
    """A comparison by `compare` in four lines."""
    low, high = figures["interval"]
    return (
        f"{figures['pairs']} pairs, split = {figures['split']}, CiteME's matcher\n"
        f"correct in both {figures['both']}, only A {figures['only_a']}, only B {figures['only_b']}, "
        f"neither {figures['neither']}\n"
        f"A {_percent(figures['a'])}, B {_percent(figures['b'])}\n"
        f"A - B = {100 * figures['difference']:+.1f} points [{100 * low:+.1f}, {100 * high:+.1f}], "
        f"{figures['test']} p = {figures['p']:.4f}"
    )


def _percent(accuracy: dict[str, Any]) -> str:
    """An accuracy in percent, over repeats if there are several."""
    if accuracy["repeats"] == 1:
        return f"{100 * accuracy['mean']:.1f} %"
    spread = f"{100 * accuracy['mean']:.1f} ± {100 * accuracy['sd']:.1f} %"
    return f"{spread} over {accuracy['repeats']} repeats"
