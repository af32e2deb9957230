"""`holdfast cite compare`: a paired comparison of two runs on the same samples."""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .. import HoldfastError
from .commands.options import CiteParser, dataset_of
from .data import Dataset
from .results import Key, read
from .schema import RETRIED, Record
from .score import judge
from .stats import interval_of_mean, mcnemar, mean_sd, sign_flip

Records = Mapping[Key, Record]
Verdicts = dict[str, dict[int, bool]]  # by sample and repeat


def compare(a: Records, b: Records, dataset: Dataset, *, strict: bool = False) -> dict[str, Any]:
    """The paired comparison over the samples that both runs finished.

    With one answer per sample in both runs: the exact McNemar test. With repeats: a sign-flip test of
    the difference of each sample's rates. The mean difference, in [-1, 1], has a 95 % bootstrap interval
    over samples. `a` and `b` are each run's mean and standard deviation over repeats.

    Raises:
        HoldfastError: if the runs share no finished sample.
    """
    which = "strict" if strict else "official"
    judged = [verdicts(run, dataset, which) for run in (a, b)]
    shared = sorted(judged[0].keys() & judged[1].keys())
    if not shared:
        raise HoldfastError("The two runs share no finished sample. Compare runs on the same data.")
    rates = [[sum(run[s].values()) / len(run[s]) for s in shared] for run in judged]
    differences = [x - y for x, y in zip(*rates, strict=True)]
    single = all(set(run[s]) == {0} for run in judged for s in shared)
    counts = Counter((x == 1, y == 1) for x, y in zip(*rates, strict=True))
    only_a, only_b = counts[True, False], counts[False, True]
    return {
        "pairs": len(shared),
        "split": dataset.split,
        "matcher": which,
        "both": counts[True, True],
        "only_a": only_a,
        "only_b": only_b,
        "neither": counts[False, False],
        "a": over_repeats([judged[0][s] for s in shared]),
        "b": over_repeats([judged[1][s] for s in shared]),
        "difference": sum(differences) / len(differences),
        "interval": interval_of_mean(differences),
        "test": "exact McNemar" if single else "sign flips over samples",
        "p": mcnemar(only_a, only_b) if single else sign_flip(differences),
    }


def verdicts(run: Records, dataset: Dataset, which: str) -> Verdicts:
    """Whether each finished repeat of each sample is correct by a matcher."""
    samples = {s.id: s for s in dataset.samples}
    found: Verdicts = {}
    for (name, repeat), record in run.items():
        if name in samples and record.status not in RETRIED:
            found.setdefault(name, {})[repeat] = getattr(judge(record, samples[name]), which)
    return found


def over_repeats(judged: list[dict[int, bool]]) -> dict[str, Any]:
    """Mean and standard deviation of the accuracy over repeats."""
    repeats = {repeat for one in judged for repeat in one}
    rights = [[one[repeat] for one in judged if repeat in one] for repeat in repeats]
    mean, sd = mean_sd([sum(right) / len(right) for right in rights])
    return {"mean": mean, "sd": sd, "repeats": len(repeats)}


def main(argv: list[str]) -> None:
    """Print how many samples both, one or neither of the runs answered correctly, and the p-value."""
    args = parser().parse_args(argv)
    (header_a, a), (header_b, b) = read(args.a), read(args.b)
    if header_a.dataset.sha256 != header_b.dataset.sha256:
        raise HoldfastError("The two runs are on different data. Compare runs on the same file.")
    figures = compare(a, b, dataset_of(args, header_a, args.a), strict=args.strict)
    if args.json:
        print(json.dumps(figures, indent=1))
        return
    low, high = figures["interval"]
    print(
        f"A {args.a}\nB {args.b}\n"
        f"{figures['pairs']} pairs, split = {figures['split']}, {figures['matcher']} matcher\n"
        f"correct in both {figures['both']}, only A {figures['only_a']}, only B {figures['only_b']}, "
        f"neither {figures['neither']}\n"
        f"A {spread(figures['a'])}, B {spread(figures['b'])}\n"
        f"A - B = {100 * figures['difference']:+.1f} points [{100 * low:+.1f}, {100 * high:+.1f}], "
        f"{figures['test']} p = {figures['p']:.4f}"
    )


def spread(run: dict[str, Any]) -> str:
    """A run's accuracy in percent, over repeats if there are several."""
    if run["repeats"] == 1:
        return f"{100 * run['mean']:.1f} %"
    return f"{100 * run['mean']:.1f} ± {100 * run['sd']:.1f} % over {run['repeats']} repeats"


def parser() -> CiteParser:
    parser = CiteParser("compare", __doc__, "runs/bm25.jsonl runs/rules.jsonl")
    parser.add("a", type=Path, metavar="RUN_A")
    parser.add("b", type=Path, metavar="RUN_B")
    parser.data(default=None)
    parser.flag("--strict", "use the strict matcher")
    parser.json()
    return parser
