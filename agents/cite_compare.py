"""`holdfast cite compare`: two runs on the same samples, paired; accuracy against cost of any number."""

import json
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import HoldfastError
from ..files import written
from . import cite_options as options
from .cite_options import say
from .data import Dataset
from .limits import Prices, tokens_of, usd_of
from .records import RETRIED
from .score import Records, judged, rate

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray


def add_options(parser: ArgumentParser) -> None:
    """Add the options of the command, and its action."""
    parser.set_defaults(action=_compare)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="result files")
    options.add_run_data(parser)
    options.add_price(parser)
    options.add(parser, "--plot", "draw accuracy against cost in a file (.png, .pdf or .svg)", Path)
    options.add_json(parser)


def _compare(args: Namespace) -> None:
    if len(args.runs) < 2:
        raise HoldfastError("A comparison needs two runs or more.")
    runs = {str(path): options.read_run(args, path) for path in args.runs}
    rows = against_cost(
        {name: (records, data) for name, (_, records, data) in runs.items()}, args.usd_per_million
    )
    if args.plot:
        draw(rows, args.plot)
    if len(args.runs) > 2:
        content = {"runs": rows.reset_index(names="run").to_dict("records")}
        say(json.dumps(content, indent=1) if args.json else _cost_table(rows))
        return
    name_a, name_b = map(str, args.runs)
    (_, a, dataset), (_, b, _) = runs[name_a], runs[name_b]
    figures = compare(a, b, dataset)
    text = f"A {name_a}\nB {name_b}\n{_text(figures)}"
    if rows.cost.notna().all():
        text += f"\n{_cost_table(rows)}"
    say(json.dumps(figures, indent=1) if args.json else text)


def compare(a: Records, b: Records, dataset: Dataset) -> dict[str, Any]:
    """The paired comparison over the samples that both runs finished.

    With one answer per sample in both runs: the exact McNemar test. With repeats: a sign-flip test of
    the difference of each sample's rates. The mean difference, in [-1, 1], has a 95 % bootstrap interval
    over samples. `a` and `b` are each run's mean and standard deviation over repeats. Raises
    `HoldfastError` if the runs share no finished sample.
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


def _verdicts(records: Records, dataset: Dataset) -> "pd.DataFrame":
    """1 or 0 for each finished sample (row) and repeat (column) that is correct or not."""
    done = _finished(records, dataset).astype({"official": float})
    return done.pivot(index="sample", columns="repeat", values="official")


def _finished(records: Records, dataset: Dataset) -> "pd.DataFrame":
    rows = judged(records, dataset)
    return rows[~rows.outcome.isin(RETRIED)]


def _over_repeats(verdicts: "pd.DataFrame") -> dict[str, Any]:
    """Mean and standard deviation of the accuracy over repeats."""
    rates = verdicts.mean()
    sd = float(rates.std()) if len(rates) > 1 else 0.0
    return {"mean": float(rates.mean()), "sd": sd, "repeats": len(rates)}


def _interval(differences: "NDArray[np.float64]") -> list[float]:
    """The 95 % bootstrap interval of the mean: percentiles of 2,000 draws, fixed seed (Efron 1979)."""
    import numpy as np
    from scipy.stats import bootstrap

    if len(differences) == 1:  # which scipy refuses
        return [float(differences[0])] * 2
    draws: dict[str, Any] = {"n_resamples": 2_000, "random_state": np.random.default_rng(0)}
    interval = bootstrap((differences,), np.mean, method="percentile", **draws).confidence_interval
    return [float(interval.low), float(interval.high)]


def mcnemar(only_a: int, only_b: int) -> float:
    """The exact two-sided p-value from the counts of pairs correct only in A or B (McNemar, 1947)."""
    from scipy.stats import binomtest

    return float(binomtest(only_a, only_a + only_b).pvalue) if only_a + only_b else 1.0


def sign_flip(differences: Sequence[float]) -> float:
    """The two-sided p-value of the mean of paired differences, by flipping their signs.

    Fisher, The Design of Experiments, 1935, section 21. Exact for up to 14 non-zero differences,
    otherwise over 20,000 random flips with a fixed seed.
    """
    import numpy as np
    from scipy.stats import permutation_test

    nonzero = [difference for difference in differences if difference]
    if len(nonzero) < 2:
        return 1.0
    test = permutation_test(
        (nonzero,), np.mean, permutation_type="samples", n_resamples=20_000, random_state=0
    )
    return float(test.pvalue)


# ---- accuracy against cost ----


def against_cost(
    runs: Mapping[str, tuple[Records, Dataset]], prices: Prices | None = None
) -> "pd.DataFrame":
    """A row per run: accuracy and mean cost per sample with 95 % intervals, and whether it is efficient.

    `unit` is "USD", or "tokens" unless all runs have prices. A run is efficient, on the Pareto front, if
    no other is as cheap and as accurate, and better in one of them.
    """
    import pandas as pd

    done = {name: _finished(*run) for name, run in runs.items()}
    usd = {
        name: rows.calls.map(lambda calls: usd_of(calls, prices) if calls else None).dropna()
        for name, rows in done.items()
    }
    has_prices = all(len(usd[name]) == len(rows) > 0 for name, rows in done.items())
    table = {}
    for name, rows in done.items():
        tokens = rows.calls[rows.calls.map(bool)].map(lambda calls: sum(tokens_of(calls).values()))
        costs = (usd[name] if has_prices else tokens).to_numpy(dtype=float)
        accuracy = rate(rows)
        low, high = _interval(costs) if len(costs) else (None, None)
        table[name] = {
            "n": accuracy.n,
            "accuracy": accuracy.rate,
            "low": accuracy.low,
            "high": accuracy.high,
            "cost": float(costs.mean()) if len(costs) else None,
            "cost_low": low,
            "cost_high": high,
            "unit": "USD" if has_prices else "tokens",
        }
    rows = pd.DataFrame(table).T.infer_objects()
    return rows.assign(efficient=[_is_efficient(rows, name) for name in rows.index])


def _is_efficient(rows: "pd.DataFrame", name: str) -> bool:
    this = rows.loc[name]
    if this.cost is None or this.cost != this.cost or this.accuracy is None:
        return False
    as_good = (rows.cost <= this.cost) & (rows.accuracy >= this.accuracy)
    better = (rows.cost < this.cost) | (rows.accuracy > this.accuracy)
    return not (as_good & better).any()


def _cost_table(rows: "pd.DataFrame") -> str:
    """The rows of `against_cost` as text, cheapest first."""
    import pandas as pd

    lines = {}
    for name, row in rows.sort_values("cost").iterrows():
        low, high = 100 * row.low, 100 * row.high
        cost = "none" if pd.isna(row.cost) else f"{row.cost:.4g}"
        if not pd.isna(row.cost):
            cost += f" [{row.cost_low:.4g}, {row.cost_high:.4g}]"
        lines[Path(str(name)).stem] = {
            "n": row.n,
            "accuracy % [95 % interval]": f"{100 * row.accuracy:.1f} [{low:.1f}, {high:.1f}]",
            f"{row.unit} per sample": cost,
            "efficient": "yes" if row.efficient else "",
        }
    return pd.DataFrame(lines).T.to_string()


def draw(rows: "pd.DataFrame", path: Path) -> None:
    """Draw accuracy against cost, with intervals and the Pareto front.

    Raises `HoldfastError` if no run has a cost, or the file cannot be written.
    """
    from ..drawing import legend, panels

    shown = rows.dropna(subset=["cost", "accuracy"]).sort_values("cost")
    if shown.empty:
        raise HoldfastError("No run has a cost. Compare runs of language models.")
    front = shown[shown.efficient]
    with written(path, "or pass --plot another file."), panels(path, height=2.4) as (figure, [ax]):
        for name, row in shown.iterrows():
            x, y = [row.cost], [100 * row.accuracy]
            x_error = [[row.cost - row.cost_low], [row.cost_high - row.cost]]
            y_error = [[100 * (row.accuracy - row.low)], [100 * (row.high - row.accuracy)]]
            ax.errorbar(x, y, y_error, x_error, fmt="o", capsize=3, label=Path(str(name)).stem)
        ax.step(
            front.cost, 100 * front.accuracy, where="post", color="0.5", zorder=0, label="front"
        )
        ax.set(xlabel=f"{shown.unit.iloc[0]} per sample", ylabel="accuracy, %", ylim=(0, 100))
        if (shown.cost > 0).all() and shown.cost.max() > 10 * shown.cost.min():
            ax.set_xscale("log")
        legend(figure, [ax])


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
