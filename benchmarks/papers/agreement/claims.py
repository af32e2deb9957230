"""Claims C1 to C7 about ensembles as numbers that are above 0 where they hold (Saxena et al. 2024).

A mechanism check at the embedded scale, not a reproduction. Accuracy lies on a line under the shifts
LINEAR; under OFF it does not, which the paper says of iWildCam and Camelyon17.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ....callbacks.functional.agreement import Resampled
from .evidence import Ensemble, Evidence, Number, number

Array = np.ndarray
LINEAR, OFF = ("gaussian_noise", "glass_blur", "fog"), ("contrast",)
HOLDS, FAILS, UNDECIDED = "holds", "does not hold", "undecided"
LEAST_R2 = 0.95
LEAST_BEST = 0.25  # accuracy in distribution: of models near chance nothing can be said
Statistic = Callable[[Resampled], Array]  # one number for each row


def slope_gap(lines: Resampled) -> Array:
    """How far the agreement line's slope is from the accuracy line's."""
    return np.abs(lines.slope_gap)


def bias_gap(lines: Resampled) -> Array:
    return np.abs(lines.bias_gap)


def error(lines: Resampled) -> Array:
    """Of ALine-S, mean over the models."""
    return lines.error


def r2(which: str) -> Statistic:
    """How far R^2 of a line exceeds what makes it one."""
    return lambda lines: getattr(lines, which)[:, 2] - LEAST_R2


def nearer_diagonal(lines: Resampled) -> Array:
    """How much nearer the agreement line's slope is to 1 than to the accuracy line's."""
    return slope_gap(lines) - np.abs(lines.agreement[:, 0] - 1)


def excess_inside(lines: Resampled) -> Array:
    """|mean agreement - mean accuracy| in distribution."""
    return np.abs(lines.excess[:, 0])


def excess_outside(lines: Resampled) -> Array:
    """Mean agreement less mean accuracy out of distribution."""
    return lines.excess[:, 1]


def best_confidence(lines: Resampled) -> Array:
    """The least error of AC, DoC and ATC, which an oracle has chosen, too."""
    return lines.others.min(1)


def atc(lines: Resampled) -> Array:
    """The error of ATC by confidence or entropy, whichever is less."""
    return lines.others[:, 2:].min(1)


class Term(NamedTuple):
    """A statistic of an ensemble, meaned over shifts, with a sign or weight."""

    weight: float
    statistic: Statistic
    name: str
    source: str
    shifts: Sequence[str] = LINEAR


class Claim(NamedTuple):
    """A statement, and sums of terms that are all above `least` if it holds."""

    key: str
    text: str
    sums: list[list[Term]]
    least: float = 0.0


class Verdict(NamedTuple):
    """What became of a claim, and its numbers."""

    key: str
    text: str
    state: str
    numbers: list[Number]


def value(terms: list[Term], found: Evidence, least: float) -> Number | None:
    """The sum over the seeds that all its ensembles have; None if they have none, or are near chance."""
    needed = [(Ensemble(t.name, t.source), shift) for t in terms for shift in t.shifts]
    having = [
        {seed for seed, seen in found.get(e, {}).get(shift, {}).items() if seen.best > LEAST_BEST}
        for e, shift in needed
    ]
    seeds = sorted(set.intersection(*having))
    if not seeds:
        return None

    def total(seed: int, kind: str) -> Array:
        parts = [
            t.weight
            * np.mean([t.statistic(getattr(of[shift][seed], kind)) for shift in t.shifts], 0)
            for t in terms
            for of in [found[Ensemble(t.name, t.source)]]
        ]
        return np.sum(parts, 0) - least

    own = np.array([total(seed, "own")[0] for seed in seeds])
    return number(own, np.stack([total(seed, "drawn") for seed in seeds]))


def judge(claim: Claim, found: Evidence) -> Verdict:
    """Holds if all intervals lie above 0, does not if one lies below, else undecided."""
    values = [value(terms, found, claim.least) for terms in claim.sums]
    known = [v for v in values if v is not None]
    state = UNDECIDED
    if any(v.high < 0 for v in known):
        state = FAILS
    elif len(known) == len(values) and all(v.low > 0 for v in known):
        state = HOLDS
    return Verdict(claim.key, claim.text, state, known)


def less(statistic: Statistic, name: str, first: str, *others: str) -> list[list[Term]]:
    """The first source's statistic is less than each of the others'."""
    return [[Term(1, statistic, name, other), Term(-1, statistic, name, first)] for other in others]


def each(statistic: Statistic, name: str, *sources: str) -> list[list[Term]]:
    """The statistic itself, of each source."""
    return [[Term(1, statistic, name, source)] for source in sources]


def gap(name: str, other: str, weight: float = 1) -> list[Term]:
    """How much more ALine-S errs with another source than with random heads."""
    return [Term(weight, error, name, other), Term(-weight, error, name, "head-1")]


MAIN = ("head-1", "order-1", "subset-0.1")
FAIR = ("head-0.1", "order-0.1", "subset-0.1")
RANKED = (("slope", slope_gap), ("bias", bias_gap), ("ALine-S's error", error))
WHOLE = {"finetune": "light full finetuning", "scratch": "training from scratch"}
CLAIMS = [
    Claim(
        "C1", "probes: accuracy is on a line with each source", each(r2("accuracy"), "probe", *MAIN)
    ),
    Claim(
        "C1",
        "probes: agreement is on a line with each source",
        each(r2("agreement"), "probe", *MAIN),
    ),
    *(
        Claim(
            "C1", f"probes{where}: {what} is nearest with random heads", less(of, "probe", *sources)
        )
        for sources, where in ((MAIN, ""), (FAIR, " on a shared tenth"))
        for what, of in RANKED
    ),
    Claim(
        "C1",
        "probes: with orders and subsets agreement is nearer to y = x than to the accuracy line",
        each(nearer_diagonal, "probe", *MAIN[1:]),
    ),
    *(
        Claim(
            "C2",
            f"{WHOLE['finetune']}: {what} is nearest with random heads",
            less(of, "finetune", *MAIN),
        )
        for what, of in RANKED
    ),
    Claim(
        "C2",
        "random heads gain less in light full finetuning than in probes",
        [[*gap("probe", other), *gap("finetune", other, -1)] for other in MAIN[1:]],
    ),
    Claim(
        "C3",
        "random heads gain less in training from scratch than in probes",
        [[*gap("probe", other), *gap("scratch", other, -1)] for other in MAIN[1:]],
    ),
    Claim(
        "C3",
        "from scratch the slopes differ by less than 0.15 with each source",
        [[Term(-1, slope_gap, "scratch", source)] for source in MAIN],
        -0.15,
    ),
    Claim(
        "C4",
        "probes of several bases are on one accuracy line",
        each(r2("accuracy"), "probe", "bases"),
    ),
    Claim("C4", "so is their agreement", each(r2("agreement"), "probe", "bases")),
    Claim(
        "C5",
        "where the line holds ALine-S errs less than the best of the confidences (random heads)",
        [[Term(1, best_confidence, "probe", "head-1"), Term(-1, error, "probe", "head-1")]],
    ),
    Claim(
        "C5",
        "where it does not ATC errs less than ALine-S",
        [[Term(1, error, "probe", "head-1", OFF), Term(-1, atc, "probe", "head-1", OFF)]],
    ),
    Claim(
        "C6",
        "slopes differ more for probes of pixels than of features",
        [[Term(1, slope_gap, "probe-pixels", "head-1"), Term(-1, slope_gap, "probe", "head-1")]],
    ),
    Claim(
        "C7",
        "in distribution agreement equals accuracy best with subsets",
        less(excess_inside, "probe", "subset-0.1", "head-1", "order-1"),
    ),
    Claim(
        "C7",
        "out of distribution subsets agree more than they are right, by more than random heads",
        less(excess_outside, "probe", "head-1", "subset-0.1"),
    ),
]
