"""Verdicts on claims: a state, and the numbers from which it follows, in words."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ...results.run_statistics import holm, p_value
from ...results.text_table import first_of
from .claims import INF, Claim, Part
from .table import Table

HOLDS, FAILS, UNDECIDED, EQUAL = "holds", "does not hold", "undecided", "equal"
PREMISE, UNJUDGED = "premise not met", "not judged"
STATES = (HOLDS, FAILS, UNDECIDED, EQUAL, PREMISE, UNJUDGED)
ONE_RUN, NO_RUNS, UNRECORDED = "one run, not judged", "runs are missing", "not recorded"
DIRECTION = "the direction only, as the size is that of the paper's data"
ROUNDING = 1e-9  # points: what two sums of the same numbers can differ by
SHOWN = 4  # maximum number of failed parts of a conjunction that are listed


class Verdict(NamedTuple):
    """The verdict on a claim with its reason."""

    claim: Claim
    state: str  # one of STATES
    because: str
    parts: Sequence[Part] = ()

    def as_json(self) -> dict[str, Any]:
        """The verdict for `holdfast paper --json`."""
        claim = self.claim
        return {
            "id": claim.id,
            "says": claim.sentence_of(self.parts),
            "quote": claim.quote,
            "group": claim.group,
            "same_as": claim.same_as,
            "state": self.state,
            "because": self.because,
            "parts": [
                {
                    "name": part.name,
                    "found": part.number,
                    "least": part.least,
                    "most": part.most,
                    "of": part.of,
                }
                for part in self.parts
            ],
        }


def judge(
    claim: Claim, table: Table, scale: str = "embedded", absent: Sequence[str] = ()
) -> Verdict:
    """Judge a claim by the 95 % intervals of its parts in a table, all of which must hold.

    absent: streams that have no run yet, without which nothing holds on all streams.

    That each interval is on the claimed side needs no correction (an intersection-union test); that one of
    several is on the other side does: Holm's.
    """
    if claim.undecidable and scale == "embedded":
        return Verdict(claim, UNJUDGED, claim.undecidable)
    if claim.premise is not None:
        premise = list(claim.premise(table))
        if lacking := [part for part in premise if state(part) != HOLDS]:
            if {state(part) for part in lacking} == {UNJUDGED}:
                unknown = _listing(lacking).replace(NO_RUNS, UNRECORDED)
                return Verdict(claim, UNJUDGED, f"premise unknown: {unknown}", premise)
            return Verdict(claim, PREMISE, f"{claim.unless}: {_listing(lacking)}", premise)
    parts = claim.parts(table)
    states = _corrected(parts)
    # One part refutes a claim; otherwise, with a part that cannot be judged, the claim cannot be.
    order = (FAILS, UNJUDGED, EQUAL, UNDECIDED, HOLDS)
    result = next((s for s in order if s in states), UNJUDGED)
    reason = _because(parts, states)
    if result == HOLDS and absent and not claim.names_x:
        result, reason = UNJUDGED, f"{NO_RUNS} of {', '.join(absent)}; without them {reason}"
    if result != UNJUDGED and any(part.direction for part in parts):
        reason = f"{DIRECTION}: {reason}"
    return Verdict(claim, result, reason, parts)


def state(part: Part) -> str:
    """The verdict on one part."""
    _, low, high, _ = part.number or (0.0, None, None, 0)
    if low is None or high is None:
        return UNJUDGED
    limits = part.least, part.most
    if any(max(abs(low - limit), abs(high - limit)) < ROUNDING for limit in limits):
        return EQUAL
    if high < part.least or low > part.most:
        return FAILS
    return HOLDS if low > part.least and high < part.most else UNDECIDED


def counted(states: Sequence[str]) -> str:
    """The number of claims or parts by state: "2 hold, 1 does not hold"."""
    counts = {s: states.count(s) for s in STATES}
    plural = {HOLDS: "hold", FAILS: "do not hold"}
    return ", ".join(f"{n} {plural.get(s, s) if n > 1 else s}" for s, n in counts.items() if n)


def _corrected(parts: list[Part]) -> list[str]:
    """The verdict on each part; one that fails only without Holm's correction is undecided."""
    states = [state(part) for part in parts]
    refuted = holm([p_value(part.number, part.least, part.most) for part in parts])
    pairs = zip(states, refuted, strict=True)
    return [UNDECIDED if s == FAILS and not surely else s for s, surely in pairs]


def _because(parts: list[Part], states: list[str]) -> str:
    """The numbers of a claim as text; for a conjunction, the parts that hold and that do not."""
    if len(parts) == 1:
        return _described(parts[0], named=False)
    if set(states) == {HOLDS}:
        return f"all {len(parts)} parts; the closest: {_described(min(parts, key=_distance))}"
    if {*states} <= {UNJUDGED}:
        missing = not all(part.number for part in parts) or not parts
        return NO_RUNS if missing else f"{len(parts)} comparisons of one run each"
    # Those that fail first.
    pairs = sorted(zip(states, parts, strict=True), key=lambda pair: pair[0] != FAILS)
    not_holding = [part for part_state, part in pairs if part_state != HOLDS]
    return f"of {len(parts)} parts {counted(states)}: {_listing(not_holding)}"


def _distance(part: Part) -> float:
    """The distance of a part's mean from its nearest limit."""
    mean = part.number.mean if part.number else 0
    return min(abs(mean - limit) for limit in (part.least, part.most) if abs(limit) < INF)


def _listing(parts: list[Part]) -> str:
    """Parts as text; only the first ones of many."""
    return "; ".join(first_of([_described(part) for part in parts], SHOWN))


def _described(part: Part, named: bool = True) -> str:
    """The number of a part with its interval, its claimed limits, and the number of runs."""
    name = f"{part.name} " if named and part.name else ""
    if part.number is None:
        return f"{name.strip()}: {NO_RUNS}" if name else NO_RUNS
    mean, low, high, n = part.number
    if low is None or high is None:
        return f"{name}{mean:+.2f}, {ONE_RUN}"
    text = f"{name}{mean:+.2f}"
    if low < high:
        text += f" [{low:+.2f}, {high:+.2f}], {n} {part.of}"
    return text + _limits(part)


def _limits(part: Part) -> str:
    """The limits of a part as text; "" if the claim is only that it is above 0."""
    if part.least == -part.most:
        return f", claimed: within ±{part.most:g}"
    if part.most < INF:
        return f", claimed: below {part.most:g}" if part.most else ", claimed: below 0"
    return f", claimed: above {part.least:+g}" if part.least else ""
