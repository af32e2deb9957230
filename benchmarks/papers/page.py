"""Pages in Markdown: the section of an experiment, the page of a paper, and that of all claims."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ..results.run_statistics import Values, deviation
from ..results.text_table import first_of, formatted
from .experiment import EMBEDDED, PHOTOS, Experiment, Published, data
from .table import Table, written
from .verdicts import GROUPS, STATES, Verdict, counted

PAPERS = {
    "rdumb": "RDumb and CCC",
    "flips": "Weighted flips",
    "aetta": "AETTA",
    "agreement": "Agreement on the line",
    "monitoring": "Monitoring without labels",
    "field": "All methods",
}
NO_CLAIM = "The paper draws no conclusion here that runs could decide."
AVERAGE = "Average"
FEW, MANY = 12, 15  # printed columns of a table along an axis that has more than MANY
LARGEST = 3  # number of differences from the paper's setup that come before the numbers
# Settings of the largest differences: data, network, length of the stream, strength of the corruptions.
FIRST = ("source", "backbone", "images", "each", "severity", "severities", "difficulty")
PAGE = """# {}

Each table and figure of the paper, by the committed runs at embedded scale and, where the caption says so,
on photographs, with the verdicts on its claims. [The papers' tables](../guides/papers.md) describes the
command and the scales, [Which claims hold](claims.md) counts the verdicts of all papers."""
CLAIMS = """# Which claims hold here

The papers' claims, judged by the committed runs at embedded scale (glyphs and digits of 32 pixels, small
networks, streams of minutes), which check mechanisms and say nothing about ImageNet, and in the last
column by the runs on photographs (ImageNet's, with a network that one core can adapt).
`holdfast paper NAME` repeats the runs. The pages list each claim with the numbers that decide it.

A claim is judged by 95 % intervals of differences paired by run; a run counts once, whatever the number
of its windows and columns. A claim of several parts holds if each part's interval is on the claimed side,
which needs no correction (an intersection-union test). It does not hold if one part's interval is on the
other side after Holm's correction for the number of parts. *Undecided*: an interval contains the limit,
or lies beyond it only without that correction. *Equal*: what is compared, in the claim or a part of it, is
the same in every run, so further runs would not decide. *Premise not met*: what the claim is about did not
happen. *Not judged*: a part has a single run, where runs differ, or none, and no other part fails; the
premise was not recorded; these runs cannot decide the claim; or the results were made by
uncommitted code or with unknown threads or processor. A size that was measured on the paper's data is
judged only at full scale, where three quarters of it suffice (of a share, all but ten points); else its
direction.

Each of the papers' claims is followed by the paper's words or cells, in brackets; a test compares the cells
with the claim. Readings of a figure, claims with a threshold of ours, and claims of papers that came later
are counted apart. [Verdicts that changed](changes.md) lists what this page said before an audit."""
CHANGES = """# Verdicts that changed

An audit of the comparisons on {} changed the rules by which claims are judged, and which results may judge
them, to those in [Which claims hold](claims.md). This page lists the verdicts at embedded scale that are
not those of that day. Results that *were made by uncommitted code*, or *with unknown threads or processor*,
decided claims then, and decide none until they are made again."""


def section(
    own: Experiment,
    results: Mapping[str, Any],
    picture: str = "",
    form: str = "markdown",
    further: bool = False,
) -> str:
    """The section of an experiment, a function of the results alone.

    picture: the figure's path, if there is one. form: the format of its tables. further: it follows
    the section of another scale, which has all published numbers.
    """
    table, scale = Table.read(results["table"]), results["scale"]
    counts = own.counts or "runs"
    caption = f"Ours ({scale} scale; {table.unit}, mean ± sd over {counts})"
    if own.takes == "files":
        caption = f"{table.unit}; mean ± sd over repeats"
    published = own.published
    if further:
        published = {key: row for key, row in published.items() if key in table.cells}
    if published:
        caption += ", and as published"
    differences = sorted(results.get("differences", ()), key=rank)
    parts = [
        f"### {own.file}, {scale}" if further else f"## {own.file}",
        f"{own.shows[:1].upper()}{own.shows[1:]}: `{own.command(scale)}`",
        verdict_text(own.verdicts(results)),
    ]
    if differences:
        largest = listed(differences[:LARGEST])
        parts.append(f"The largest differences from the paper's setup:\n\n{largest}")
    parts.append(f"{caption}:\n\n{formatted(numbers(table, published, counts), form)}")
    if protocol := results.get("protocol"):  # results of earlier versions lack it
        parts.append(f"P{protocol[1:]}; {table.unit.partition(', ')[0]}.")
    if table.axis:
        some = f", {FEW} of {len(table.xs)}" if is_thinned(table) else ""
        parts.append(f"Columns: {table.axis}{some}.")
    if picture:
        parts.append(f"![{own.shows}]({picture})")
    if reason := own.unreliable(results):
        parts.append(f"These numbers decide no claim: they were {reason}.")
    if missing := results.get("missing"):
        runs = "; ".join(first_of(missing, 8)).rstrip(".")
        parts.append(f"Missing runs ({len(missing)}): {runs}.")
    if others := differences[LARGEST:]:
        parts.append(f"Further differences from the paper's setup:\n\n{listed(others)}")
    parts += table.notes
    if note := own.note(scale):
        parts.append(note)
    if facts := results.get("provenance"):
        known = {k: ", ".join(v) if isinstance(v, list) else v for k, v in facts.items()}
        parts.append(f"Provenance: {'; '.join(f'{k}: {v}' for k, v in known.items())}.")
    return "\n\n".join(parts)


def rank(difference: str) -> int:
    """The position of a difference's setting in FIRST; those that are not in it come last."""
    setting = difference.partition(":")[0].removeprefix("stream.")
    return FIRST.index(setting) if setting in FIRST else len(FIRST)


def listed(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def page(paper: str, several: Iterable[Experiment]) -> str:
    """docs/papers/PAPER.md: the sections of a paper's experiments that have committed results."""
    sections = [
        section(own, results, f"{paper}/{own.named(scale, '.png')}", further=number > 0)
        for own in several
        if own.paper == paper
        for number, (scale, results) in enumerate(own.kept.items())
    ]
    return "\n\n".join([PAGE.format(PAPERS[paper]), *sections]) + "\n"


def numbers(table: Table, published: Published, counts: str) -> pd.DataFrame:
    """Our rows with their numbers of runs, and means of rows or columns; each above its published row.

    counts: what is written for "runs".
    """
    xs = table.xs
    if is_thinned(table):
        xs = [xs[n] for n in np.linspace(0, len(xs) - 1, FEW).astype(int)]
    averaged = (table.averaged or {AVERAGE: xs}) if table.summary == "columns" else {}
    ours: dict[tuple[str, str], dict[str, str]] = {}
    for key, cells in table.cells.items():
        runs = max(map(len, cells.values()))
        ours[key] = {written(x): number(cells.get(x, {}), runs) for x in xs}
        means = {name: [table.mean(*key, x) for x in own] for name, own in averaged.items()}
        ours[key] |= {name: average(own) for name, own in means.items()} | {counts: str(runs)}
    if table.summary == "rows":
        known = {written(x): [table.mean(*key, x) for key in table.cells] for x in xs}
        columns = {x: sorted(m for m in own if m is not None) for x, own in known.items()}
        ours["", AVERAGE] = {x: average(own) for x, own in columns.items()}
        ours["", "Worst case"] = {x: text_of(max(own)) for x, own in columns.items()}
        ours["", "Average (worst excluded)"] = {x: average(o[:-1]) for x, o in columns.items()}
    rows = []
    for key in dict.fromkeys([*ours, *published]):
        if key in ours:
            rows.append({"": label(*key), **ours[key]})
        if key in published:
            theirs = {x: text_of(value, "g") for x, value in published[key].items()}
            rows.append({"": f"{label(*key)} (published)", **theirs})
    last = [*averaged, *([] if table.exact else [counts])]
    first = dict.fromkeys(["", *map(written, xs), *(x for row in published.values() for x in row)])
    return pd.DataFrame(rows, columns=[*(x for x in first if x not in last), *last]).fillna("-")


def is_thinned(table: Table) -> bool:
    """Whether only FEW of the columns are printed."""
    return table.along and len(table.xs) > MANY


def average(means: Sequence[float | None]) -> str:
    """The mean as text, "-" unless all numbers are known."""
    known = [mean for mean in means if mean is not None]
    return text_of(float(np.mean(known)) if known and len(known) == len(means) else None)


def number(values: Values[str], usual: int) -> str:
    """Mean ± sd over runs, with their number if it is not the usual one."""
    if not values:
        return "-"
    spread, mean = deviation(values.values()), float(np.mean([*values.values()]))
    text = text_of(mean if spread is None else [mean, spread])
    return text if usual == len(values) else f"{text} (n={len(values)})"


def text_of(value: float | list[float] | None, form: str = ".2f") -> str:
    """A number, or a mean and its standard deviation, as text; "-" if there is none."""
    if value is None:
        return "-"
    return " ± ".join(
        format(part, form) for part in (value if isinstance(value, list) else [value])
    )


def label(panel: str, curve: str) -> str:
    return f"{panel}: {curve}" if panel else curve


def verdict_text(found: list[Verdict]) -> str:
    """The verdicts on the claims, by 95 % intervals of differences paired by run."""
    text = []
    for group, title in GROUPS.items():
        own = [verdict for verdict in found if verdict.claim.group == group]
        lines = [
            f"{v.state}: {v.claim.says}{v.claim.quote and f' [{v.claim.quote}]'} ({v.because})"
            for v in own
        ]
        text += [f"{title}:\n\n{listed(lines)}"] if own else []
    return "\n\n".join(text) or NO_CLAIM


def overview(several: Iterable[Experiment]) -> str:
    """docs/papers/claims.md: the number of claims by verdict, of each group and of each experiment."""
    by_group: dict[str, list[list[Verdict]]] = {title: [[], []] for title in GROUPS.values()}
    by_name = {}
    for own in (own for own in several if own.kept):
        anchor = own.file.lower().replace(".", "")
        both = [own.judged_at(scale) for scale in (EMBEDDED, PHOTOS)]
        by_name[f"[{own.name}]({own.paper}.md#{anchor})"] = both
        for number, verdicts in enumerate(both):
            for verdict in verdicts:
                by_group[GROUPS[verdict.claim.group]][number].append(verdict)
    return "\n\n".join([CLAIMS, counts(by_group), counts(by_name)]) + "\n"


def counts(found: Mapping[str, list[list[Verdict]]]) -> str:
    """A table of the number of claims by verdict: at embedded scale, and in words on photographs."""
    rows = [["", "claims", *STATES, "on photographs"]]
    for name, both in found.items():
        states, others = ([verdict.state for verdict in verdicts] for verdicts in both)
        own = [str(states.count(s) or "") for s in STATES]
        rows.append([name, str(len(states) or ""), *own, counted(others)])
    return formatted(rows, "markdown")


def changes(several: Iterable[Experiment]) -> str:
    """docs/papers/changes.md: each verdict that is not what it was before the audit, with the reason."""
    known = data("changes.json")
    rows = [["claim", "before", "now", "reason"]]
    experiments = {own.name: own for own in several}
    for name in dict.fromkeys([*experiments, *known["verdicts"]]):
        old, new, why = known["verdicts"].get(name, {}), {}, ""
        if own := experiments.get(name):
            new = {verdict.claim.id: verdict.state for verdict in own.judged}
            day = own.committed.get("provenance", {}).get("date", "")
            again = f"made again on {day}" if day > known["date"] else ""
            why = own.unreliable(own.committed) or again
        for id in (id for id in {**old, **new} if old.get(id) != new.get(id)):
            claim = f"{name}: {id}"
            reason = known["reasons"].get(claim) or known["reasons"].get(name)
            reasons = filter(None, [reason, why if id in new else ""])
            rows.append([claim, old.get(id, "-"), new.get(id, "-"), "; ".join(reasons)])
    return f"{CHANGES.format(known['date'])}\n\n{formatted(rows, 'markdown')}\n"
