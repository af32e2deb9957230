"""Claims, and the verdicts on them: a state, and the numbers from which it follows, in words."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Concatenate, NamedTuple, ParamSpec

from ..results.run_statistics import holm, p_value
from ..results.text_table import first_of
from . import claims
from .claims import INF, Check, Part, Parts
from .table import Table

HOLDS, FAILS, UNDECIDED, EQUAL = "holds", "does not hold", "undecided", "equal"
PREMISE, UNJUDGED = "premise not met", "not judged"
STATES = (HOLDS, FAILS, UNDECIDED, EQUAL, PREMISE, UNJUDGED)
ONE_RUN, NO_RUNS, UNRECORDED = "one run, not judged", "runs are missing", "not recorded"
DIRECTION = "the direction only, as the size is that of the paper's data"
ROUNDING = 1e-9  # points: what two sums of the same numbers can differ by
SHOWN = 4  # maximum number of failed parts of a conjunction that are listed
GROUPS = {
    "paper": "The papers' claims",
    "figure": "Our readings of the papers' figures",
    "threshold": "The papers' claims with a threshold of ours",
    "others": "Claims of later papers, checked on our streams",
    "ours": "Our own hypotheses",
}
Arguments = ParamSpec("Arguments")


def deferred(
    primitive: Callable[Concatenate[Table, Arguments], Parts],
) -> Callable[Concatenate["Claim", Arguments], "Claim"]:
    """A method of a claim by which a primitive with these arguments checks it."""

    def method(self: "Claim", *args: Arguments.args, **options: Arguments.kwargs) -> "Claim":
        return self.by(primitive, *args, **options)

    return method


@dataclass(eq=False)
class Claim:
    """A sentence of a paper, or of ours, and its checks: its methods, which can be chained, or functions.

    group: whose claim it is, one of GROUPS. quote: the paper's own words or cells. at_full: further
    arguments of its checks at full scale, such as a size that was measured on ImageNet; at other scales
    its direction is judged. undecidable: the reason why embedded runs cannot decide the claim. premise: a
    check that must hold for the claim to be meaningful; `unless` states what is missing without it.
    counts: what its checks count, if not runs.
    """

    id: str
    says: str
    group: str
    quote: str = ""
    at_full: Mapping[str, Any] = field(default_factory=dict)
    undecidable: str = ""
    premise: Check | None = None
    unless: str = ""
    counts: str = ""
    checks: list[Callable[..., Parts]] = field(default_factory=list)

    def __call__(self, check: Check) -> Check:
        """Check the claim by the decorated function."""
        self.by(check)
        return check

    def by(
        self, check: Callable[Concatenate[Table, Arguments], Parts], *args: Any, **options: Any
    ) -> "Claim":
        """Check the claim also by a function of the table and these arguments."""
        self.checks.append(lambda table, **full: check(table, *args, **{**options, **full}))
        return self

    def check(self, table: Table, full: bool = False) -> list[Part]:
        """The parts of the claim, at full scale with the sizes that hold there."""
        sizes = self.at_full if full else {}
        parts = (part for check in self.checks for part in check(table, **sizes))
        return [part._replace(of=self.counts or part.of) for part in parts]

    above = deferred(claims.above)
    below = deferred(claims.below)
    rises = deferred(claims.rises)
    falls = deferred(claims.falls)
    falls_along = deferred(claims.falls_along)
    near = deferred(claims.near)
    bounded = deferred(claims.bounded)
    positive = deferred(claims.positive)
    share_above = deferred(claims.share_above)
    spread = deferred(claims.spread)
    lower_mean = deferred(claims.lower_mean)
    mean_below = deferred(claims.mean_below)
    rank_correlation = deferred(claims.rank_correlation)
    peak = deferred(claims.peak)
    computed = deferred(claims.computed)


class Verdict(NamedTuple):
    """The verdict on a claim with its reason."""

    claim: Claim
    state: str  # one of STATES
    because: str
    parts: list[Part]

    def as_json(self) -> dict[str, Any]:
        """The verdict for `holdfast paper --json`."""
        return {
            **{"id": self.claim.id, "says": self.claim.says, "quote": self.claim.quote},
            **{"group": self.claim.group, "state": self.state, "because": self.because},
            "parts": [part._asdict() for part in self.parts],
        }


def judge(claim: Claim, table: Table, scale: str = "embedded") -> Verdict:
    """Judge a claim by the 95 % intervals of its parts in a table, all of which must hold.

    That each interval is on the claimed side needs no correction (an intersection-union test); that one of
    several is on the other side does: Holm's.
    """
    if claim.undecidable and scale == "embedded":
        return Verdict(claim, UNJUDGED, claim.undecidable, [])
    if claim.premise is not None:
        premise = list(claim.premise(table))
        if lacking := [part for part in premise if state(part) != HOLDS]:
            if {state(part) for part in lacking} == {UNJUDGED}:
                unknown = listing(lacking).replace(NO_RUNS, UNRECORDED)
                return Verdict(claim, UNJUDGED, f"premise unknown: {unknown}", premise)
            return Verdict(claim, PREMISE, f"{claim.unless}: {listing(lacking)}", premise)
    parts = claim.check(table, scale == "full")
    states = corrected(parts)
    # One part refutes a claim; otherwise, with a part that cannot be judged, the claim cannot be.
    every = (FAILS, UNJUDGED, EQUAL, UNDECIDED, HOLDS)
    result = next((s for s in every if s in states), UNJUDGED)
    reason = because(parts, states)
    if claim.at_full and scale != "full" and result != UNJUDGED:
        reason = f"{DIRECTION}: {reason}"
    return Verdict(claim, result, reason, parts)


def corrected(parts: list[Part]) -> list[str]:
    """The verdict on each part; one that fails only without Holm's correction is undecided."""
    states = [state(part) for part in parts]
    refuted = holm([p_value(part.found, part.least, part.most) for part in parts])
    pairs = zip(states, refuted, strict=True)
    return [UNDECIDED if own == FAILS and not surely else own for own, surely in pairs]


def state(part: Part) -> str:
    """The verdict on one part."""
    _, low, high, _ = part.found or (0.0, None, None, 0)
    if low is None or high is None:
        return UNJUDGED
    if any(
        max(abs(low - limit), abs(high - limit)) < ROUNDING for limit in (part.least, part.most)
    ):
        return EQUAL
    if high < part.least or low > part.most:
        return FAILS
    return HOLDS if low > part.least and high < part.most else UNDECIDED


def distance(part: Part, mean: float) -> float:
    """The distance of a mean from the nearest limit of its part."""
    return min(abs(mean - limit) for limit in (part.least, part.most) if abs(limit) < INF)


def because(parts: list[Part], states: list[str]) -> str:
    """The numbers of a claim as text; for a conjunction, the parts that hold and that do not."""
    if len(parts) == 1:
        return described(parts[0], named=False)
    if set(states) == {HOLDS}:
        closest = min(parts, key=lambda part: distance(part, part.found.mean if part.found else 0))
        return f"all {len(parts)} parts; the closest: {described(closest)}"
    if {*states} <= {UNJUDGED}:
        missing = not all(part.found for part in parts) or not parts
        return NO_RUNS if missing else f"{len(parts)} comparisons of one run each"
    # Those that fail first.
    several = sorted(zip(states, parts, strict=True), key=lambda pair: pair[0] != FAILS)
    open_ = [part for own, part in several if own != HOLDS]
    return f"of {len(parts)} parts {counted(states)}: {listing(open_)}"


def listing(parts: list[Part]) -> str:
    """Parts as text; only the first ones of many."""
    return "; ".join(first_of([described(part) for part in parts], SHOWN))


def described(part: Part, named: bool = True) -> str:
    """The number of a part with its interval, its claimed limits, and the number of runs."""
    name = f"{part.name} " if named and part.name else ""
    if part.found is None:
        return f"{name.strip()}: {NO_RUNS}" if name else NO_RUNS
    mean, low, high, n = part.found
    if low is None or high is None:
        return f"{name}{mean:+.2f}, {ONE_RUN}"
    text = f"{name}{mean:+.2f}"
    if low < high:
        text += f" [{low:+.2f}, {high:+.2f}], {n} {part.of}"
    return text + claimed(part)


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
