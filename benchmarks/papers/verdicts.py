"""Verdicts on claims: a state, and the numbers from which it follows, in words."""

from typing import Any, NamedTuple

from ..results.text_table import first_of
from .claims import INF, Claim, Part
from .table import Table

HOLDS, FAILS, UNDECIDED = "holds", "does not hold", "undecided"
PREMISE, UNJUDGED = "premise not met", "not judged"
STATES = (HOLDS, FAILS, UNDECIDED, PREMISE, UNJUDGED)
ONE_RUN, NO_RUNS = "one run, not judged", "runs are missing"
SHOWN = 4  # maximum number of failed parts of a conjunction that are listed


class Verdict(NamedTuple):
    """The verdict on a claim with its reason."""

    claim: Claim
    state: str  # one of STATES
    because: str
    parts: list[Part]

    def as_json(self) -> dict[str, Any]:
        """The verdict for `holdfast paper --json`."""
        return {
            **{"id": self.claim.id, "says": self.claim.says, "group": self.claim.group},
            **{"state": self.state, "because": self.because},
            "parts": [part._asdict() for part in self.parts],
        }


def judge(claim: Claim, table: Table, scale: str = "embedded", noise: float = 0) -> Verdict:
    """Judge a claim by the 95 % intervals of its parts in a table, all of which must hold.

    noise: the change of a number in points when the same runs are repeated; a smaller effect is
    undecided.
    """
    noise = noise if claim.points else 0
    if scale in claim.undecidable:
        return Verdict(claim, UNJUDGED, claim.undecidable[scale], [])
    if claim.premise is not None:
        premise = list(claim.premise(table))
        if lacking := [part for part in premise if state(part) != HOLDS]:
            return Verdict(claim, PREMISE, f"{claim.unless}: {listing(lacking)}", premise)
    parts = claim.check(table)
    if not parts or any(part.found is None for part in parts):
        return Verdict(claim, UNJUDGED, NO_RUNS, parts)
    states = [state(part, noise) for part in parts]
    result = FAILS if FAILS in states else states[0] if len({*states}) == 1 else UNDECIDED
    return Verdict(claim, result, because(parts, states, noise), parts)


def state(part: Part, noise: float = 0) -> str:
    """The verdict on one part."""
    if part.found is None or part.found.low is None or part.found.high is None:
        return UNJUDGED
    mean, low, high, _ = part.found
    if high < part.least or low > part.most:
        result = FAILS
    elif low > part.least and high < part.most:
        result = HOLDS
    else:
        return UNDECIDED
    return UNDECIDED if low < high and distance(part, mean) < noise else result


def distance(part: Part, mean: float) -> float:
    """The distance of a mean from the nearest limit of its part."""
    return min(abs(mean - limit) for limit in (part.least, part.most) if abs(limit) < INF)


def because(parts: list[Part], states: list[str], noise: float) -> str:
    """The numbers of a claim as text; for a conjunction, the parts that hold and that do not."""
    if len(parts) == 1:
        return described(parts[0], noise, named=False)
    if set(states) == {HOLDS}:
        closest = min(parts, key=lambda part: distance(part, part.found.mean if part.found else 0))
        return f"all {len(parts)} parts; the closest: {described(closest, noise)}"
    if all(part.found and part.found.low is None for part in parts):
        return f"{len(parts)} comparisons of one run each"
    open_ = [p for p, s in zip(parts, states, strict=True) if s != HOLDS]
    open_.sort(key=lambda part: state(part, noise) != FAILS)
    return f"of {len(parts)} parts {counted(states)}: {listing(open_, noise)}"


def listing(parts: list[Part], noise: float = 0) -> str:
    """Parts as text; only the first ones of many."""
    return "; ".join(first_of([described(part, noise) for part in parts], SHOWN))


def described(part: Part, noise: float = 0, named: bool = True) -> str:
    """The number of a part with its interval, its claimed limits, and the number of runs."""
    name = f"{part.name} " if named and part.name else ""
    if part.found is None:
        return f"{name}{NO_RUNS}"
    mean, low, high, n = part.found
    if low is None or high is None:
        return f"{name}{mean:+.2f}, {ONE_RUN}"
    text = f"{name}{mean:+.2f}"
    if low < high:
        text += f" [{low:+.2f}, {high:+.2f}], {n} {part.of}"
    text += claimed(part)
    if state(part) != state(part, noise):
        text += f"; below the rerun noise of {noise:.2g}"
    return text


def claimed(part: Part) -> str:
    """The limits of a part as text; "" if the claim is only that it is above 0."""
    if part.least == -part.most:
        return f", claimed: within ±{part.most:g}"
    if part.most < INF:
        return f", claimed: below {part.most:g}" if part.most else ", claimed: below 0"
    return f", claimed: above {part.least:+g}" if part.least else ""


def counted(states: list[str]) -> str:
    """The number of claims or parts by state: "2 hold, 1 does not hold"."""
    counts = {s: states.count(s) for s in STATES}
    plural = {HOLDS: "hold", FAILS: "do not hold"}
    return ", ".join(f"{n} {plural.get(s, s) if n > 1 else s}" for s, n in counts.items() if n)
