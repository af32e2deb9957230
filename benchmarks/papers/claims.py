"""What became of all claims at embedded scale, on one page: docs/papers/claims.md."""

from collections.abc import Iterable

from .artefact import Artefact
from .page import reason, verdicts
from .table import FAILS, HOLDS, UNDECIDED, Verdict

TITLES = {FAILS: "Does not hold", UNDECIDED: "Undecided", HOLDS: "Holds"}
HEAD = """# Which claims hold here

What the papers conclude, judged by the kept runs of the embedded scale (glyphs and digits of 32
pixels, small networks, streams of minutes): by 95 % intervals of paired differences, in brackets. It
checks mechanisms, and says nothing of ImageNet. `holdfast paper NAME` runs one again."""


def overview(several: Iterable[Artefact]) -> str:
    """The page, from what is kept of these artefacts."""
    found: list[tuple[Artefact, list[Verdict], str]] = []
    for artefact in several:
        if artefact.claims and (kept := artefact.kept):
            judged = verdicts(artefact, kept)
            found.append((artefact, judged, reason(artefact, kept, judged)))
    states = [verdict.state for _, judged, _ in found for verdict in judged]
    hold, fail, open_ = (states.count(state) for state in (HOLDS, FAILS, UNDECIDED))
    counts = f"{hold} hold, {fail} do not, {open_} are undecided"
    parts = [HEAD, f"Of {len(states)} claims {counts}."]
    for state, title in TITLES.items():
        parts.append(f"## {title}")
        for artefact, judged, why in found:
            own = [f"- {v.claim} ({v.because})" for v in judged if v.state == state]
            if own:
                place = f"{artefact.paper}/{artefact.file}.md"
                parts += [f"**[{artefact.name}]({place})**: {artefact.shows}", "\n".join(own)]
                parts += [f"Why: {why or 'not found out.'}"] if state == FAILS else []
    return "\n\n".join(parts) + "\n"
