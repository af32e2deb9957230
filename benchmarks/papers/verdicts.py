"""Verdicts on claims: a state, and the parts from which it follows."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..results.text_table import first_of
from .primitives import INF, PRIMITIVES, Part
from .table import Table

HOLDS, FAILS, UNDECIDED = "holds", "does not hold", "undecided"
PREMISE, UNJUDGED = "premise not met", "not judged"
STATES = (HOLDS, FAILS, UNDECIDED, PREMISE, UNJUDGED)
GROUPS = {
    "paper": "The papers' claims",
    "ours": "Our own hypotheses",
    "threshold": "The papers' claims with a threshold of ours",
}
ONE_RUN, NO_RUNS = "one run, not judged", "runs are missing"
SHOWN = 4  # maximum number of failed parts of a conjunction that are listed


@dataclass(frozen=True)
class Claim:
    """A statement about a table: a primitive with its arguments, and an id used in results.

    premise: another primitive that must hold for the claim to be meaningful; `unless` states what is
    missing without it. needs: the reason why these results cannot decide the claim. points: whether its
    numbers are points of accuracy, the unit of rerun noise.
    """

    id: str
    says: str
    kind: str
    arguments: Mapping[str, Any]
    group: str = "paper"
    premise: Mapping[str, Any] = field(default_factory=dict)
    unless: str = ""
    needs: str = ""
    points: bool = True


class Verdict(NamedTuple):
    """The verdict on a claim with its reason."""

    claim: Claim
    state: str  # one of STATES
    because: str
    parts: list[Part]


def parts_of(claim: Claim, table: Table, kind: str, arguments: Mapping[str, Any]) -> list[Part]:
    """The parts of a primitive on this table."""
    given = {"claim": claim.id} if kind == "computed" else {}
    return PRIMITIVES[kind](table, **given, **arguments)


def judge(claim: Claim, table: Table, noise: float = 0) -> Verdict:
    """Judge a claim by the 95 % intervals of its parts, all of which must hold.

    noise: the change of a number in points when the same runs are repeated; a smaller effect is
    undecided.
    """
    noise = noise if claim.points else 0
    if claim.needs:
        return Verdict(claim, UNJUDGED, claim.needs, [])
    if claim.premise:
        ((kind, arguments),) = claim.premise.items()
        premise = parts_of(claim, table, kind, arguments)
        if not premise or any(state(part) != HOLDS for part in premise):
            lacking = listing([p for p in premise if state(p) != HOLDS])
            text = f"{claim.unless}: {lacking}" if lacking else claim.unless
            return Verdict(claim, PREMISE, text, premise)
    parts = parts_of(claim, table, claim.kind, claim.arguments)
    if not parts or any(part.found is None for part in parts):
        return Verdict(claim, UNJUDGED, NO_RUNS, parts)
    states = [state(part, noise) for part in parts]
    if FAILS in states:
        result = FAILS
    elif set(states) == {HOLDS}:
        result = HOLDS
    else:
        result = UNJUDGED if set(states) == {UNJUDGED} else UNDECIDED
    return Verdict(claim, result, because(parts, states, noise), parts)


def state(part: Part, noise: float = 0) -> str:
    """The verdict on one part."""
    if part.found is None:
        return UNJUDGED
    mean, low, high, _ = part.found
    if low is None or high is None:
        return UNJUDGED
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


def tally(found: list[Verdict]) -> str:
    """The number of claims by state: "2 hold, 1 does not hold"."""
    return counted([verdict.state for verdict in found])


def counted(states: list[str]) -> str:
    """States as text, with their numbers."""
    counts = {s: states.count(s) for s in STATES}
    plural = {HOLDS: "hold", FAILS: "do not hold"}
    return ", ".join(f"{n} {plural.get(s, s) if n > 1 else s}" for s, n in counts.items() if n)


def claim_of(name: str, content: Mapping[str, Any]) -> Claim:
    """Create a claim from its declaration: `says`, one primitive, and optional keys."""
    own = dict(content)
    kinds = [key for key in own if key in PRIMITIVES]
    assert len(kinds) == 1, f"{name}: one of {', '.join(PRIMITIVES)}"
    assert re.fullmatch(r"[a-z0-9-]+", name), f"{name}: an id has small letters and hyphens"
    return Claim(id=name, kind=kinds[0], arguments=own.pop(kinds[0]) or {}, **own)
