"""What became of all claims at embedded scale, on one page: docs/papers/claims.md."""

from collections.abc import Iterable

from .artefact import Artefact
from .page import reason, verdicts
from .table import FAILS, HOLDS, UNDECIDED, Table, Verdict

TITLES = {FAILS: "Does not hold", UNDECIDED: "Undecided", HOLDS: "Holds"}
HEAD = """# Which claims hold here

What the papers conclude, judged by the kept runs of the embedded scale (glyphs and digits of 32
pixels, small networks, streams of minutes): by 95 % intervals of paired differences, in brackets. It
checks mechanisms, and says nothing of ImageNet. `holdfast paper NAME` runs one again."""


def overview(several: Iterable[Artefact]) -> str:
    """The page, from what is kept of these artefacts."""
    kept = [artefact for artefact in several if artefact.kept and artefact.claims]
    found = {a.name: verdicts(a, Table(**a.kept["table"])) for a in kept}
    states = [verdict.state for own in found.values() for verdict in own]
    hold, fail, open_ = (states.count(state) for state in (HOLDS, FAILS, UNDECIDED))
    counts = f"{hold} hold, {fail} do not, {open_} are undecided"
    parts = [HEAD, f"Of {len(states)} claims {counts}."]
    for state, title in TITLES.items():
        parts.append(f"## {title}")
        parts += [
            section(artefact, state, found[artefact.name])
            for artefact in kept
            if any(verdict.state == state for verdict in found[artefact.name])
        ]
    return "\n\n".join(parts) + "\n"


def section(artefact: Artefact, state: str, found: list[Verdict]) -> str:
    """An artefact's claims of one state, and why they fail if they do."""
    link = f"**[{artefact.name}]({artefact.paper}/{artefact.file}.md)**: {artefact.shows}"
    claims = "\n".join(f"- {v.claim} ({v.because})" for v in found if v.state == state)
    why = f"Why: {reason(artefact, artefact.kept) or 'not found out.'}" if state == FAILS else ""
    return "\n\n".join(part for part in (link, claims, why) if part)
