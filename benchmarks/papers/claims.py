"""The verdicts on all claims at embedded scale, on one page: docs/papers/claims.md."""

from collections.abc import Iterable

from .experiment import Experiment
from .page import line
from .verdicts import GROUPS, STATES, Verdict

HEAD = """# Which claims hold here

The papers' claims, judged by the committed runs at embedded scale (glyphs and digits of 32 pixels, small
networks, streams of minutes). This checks mechanisms and says nothing about ImageNet. `holdfast paper NAME`
repeats the runs.

A claim is judged by 95 % intervals of differences paired by run; a run counts once, whatever the number
of its windows and columns. A claim of several parts holds if all of them do. *Undecided*: an interval
contains the limit. *Premise not met*: what the claim is about did not happen. *Not judged*: there is one
run, or these runs cannot decide it."""


def overview(several: Iterable[Experiment]) -> str:
    """The page, from the committed results of these experiments."""
    found: list[tuple[Experiment, list[Verdict]]] = [
        (own, own.verdicts(own.committed)) for own in several if own.claims and own.committed
    ]
    parts = [HEAD, counts([verdict for _, own in found for verdict in own])]
    for group, title in GROUPS.items():
        parts.append(f"## {title}")
        for own, judged in found:
            if chosen := [verdict for verdict in judged if verdict.claim.group == group]:
                parts.append(f"**[{own.name}]({own.paper}/{own.file}.md)**: {own.shows}")
                parts.append("\n".join(map(line, sorted(chosen, key=state))))
    return "\n\n".join(parts) + "\n"


def state(found: Verdict) -> int:
    """The sort key of a verdict."""
    return STATES.index(found.state)


def counts(found: list[Verdict]) -> str:
    """A table of the numbers of claims, by group and verdict."""
    rows = [["", "claims", *STATES], ["---"] * (len(STATES) + 2)]
    for group, title in GROUPS.items():
        states = [verdict.state for verdict in found if verdict.claim.group == group]
        rows.append([title, str(len(states)), *(str(states.count(s)) for s in STATES)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
