"""Two runs on the same samples, paired: what only one of them gets right, and whether that is chance."""

from collections import Counter
from typing import Any

from .. import HoldfastError
from .data import Dataset
from .episode import RETRIED
from .results import Key
from .score import judge
from .stats import interval_of_mean, mcnemar, mean_sd, sign_flip

Records = dict[Key, dict[str, Any]]


def compare(a: Records, b: Records, dataset: Dataset, *, strict: bool = False) -> dict[str, Any]:
    """The paired comparison over samples that both runs finished.

    With one answer a sample in both runs, the exact McNemar test. With repeats a sample counts once: the
    differences of its rates are tested by flipping their signs, and the mean difference has a 95 %
    bootstrap interval over samples. `a` and `b` hold each run's mean and standard deviation over repeats.
    """
    which = "strict" if strict else "official"
    samples = {s.id: s for s in dataset.samples}
    verdicts: list[dict[Key, bool]] = [
        {
            key: judge(record, samples[key[0]])[which]
            for key, record in run.items()
            if key[0] in samples and record["status"] not in RETRIED
        }
        for run in (a, b)
    ]
    shared = sorted({k for k, _ in verdicts[0]} & {k for k, _ in verdicts[1]})
    if not shared:
        raise HoldfastError("the two runs share no finished sample: compare runs on the same data.")
    rates = [{name: rate(judged, name) for name in shared} for judged in verdicts]
    differences = [rates[0][name] - rates[1][name] for name in shared]
    single = all(repeat == 0 for judged in verdicts for name, repeat in judged if name in rates[0])
    counts = Counter((rates[0][name] == 1, rates[1][name] == 1) for name in shared)
    only_a, only_b = counts[True, False], counts[False, True]
    return {
        "pairs": len(shared),
        "split": dataset.split,
        "matcher": which,
        "both": counts[True, True],
        "only_a": only_a,
        "only_b": only_b,
        "neither": counts[False, False],
        "a": over_repeats(verdicts[0], set(shared)),
        "b": over_repeats(verdicts[1], set(shared)),
        "difference": sum(differences) / len(differences),
        "interval": interval_of_mean(differences),
        "test": "exact McNemar" if single else "sign flips over samples",
        "p": mcnemar(only_a, only_b) if single else sign_flip(differences),
    }


def rate(judged: dict[Key, bool], sample: str) -> float:
    """Which share of a sample's repeats is right."""
    verdicts = [right for (name, _), right in judged.items() if name == sample]
    return sum(verdicts) / len(verdicts)


def over_repeats(judged: dict[Key, bool], shared: set[str]) -> dict[str, Any]:
    """Mean and standard deviation over repeats of the accuracy on the shared samples."""
    repeats: dict[int, list[bool]] = {}
    for (name, repeat), right in judged.items():
        if name in shared:
            repeats.setdefault(repeat, []).append(right)
    mean, sd = mean_sd([sum(rights) / len(rights) for rights in repeats.values()])
    return {"mean": mean, "sd": sd, "repeats": len(repeats)}
