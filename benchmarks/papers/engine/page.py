"""Pages in Markdown: an experiment's, a paper's front page, and that of all claims."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ...results.run_statistics import Values, deviation
from ...results.text_table import first_of, formatted
from .claims import GROUPS
from .experiment import Experiment, Published, front_matter
from .sources import EMBEDDED, PHOTOS
from .table import Table, header
from .verdicts import STATES, Verdict, counted

NO_CLAIM = "The paper draws no conclusion here that runs could decide."
AVERAGE = "Average"
FEW, MANY = 12, 15  # printed columns of a table along an axis that has more than MANY
LARGEST = 3  # number of differences from the paper's setup that are not folded
# Settings of the largest differences: data, network, length of the stream, strength of the corruptions.
LARGEST_SETTINGS = (
    "source",
    "backbone",
    "images",
    "each",
    "severity",
    "severities",
    "difficulty",
)
FRONT = """## Tables and figures

Each page has our numbers beside the printed ones, the picture, and the claims with the numbers that decide
them. [The papers' tables](../guides/papers.md) describes the command and the scales, [Which claims
hold](claims.md) how claims are judged."""
CLAIMS = """# Which claims hold here

The papers' claims, judged by the committed runs at embedded scale (glyphs and digits of 32 pixels, small
networks, streams of minutes), which check mechanisms and say nothing about ImageNet, and in the last
column by the runs on photographs (Tiny ImageNet's and CIFAR-10's, with networks that one core can adapt).
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
direction. A claim that states of the same runs what another one does is counted once, there.

Each of the papers' claims is followed by the paper's words or cells, in brackets; a test compares the cells
with the claim. Readings of a figure, claims with a threshold of ours, and claims of papers that came later
are counted apart."""


def section(
    experiment: Experiment,
    results: Mapping[str, Any],
    picture: str = "",
    form: str = "markdown",
    further: bool = False,
) -> str:
    """The section of an experiment, a function of the results alone.

    picture: the figure's path, if there is one. form: the format of its tables; "text" folds nothing.
    further: it follows the section of another scale, which has all published numbers.
    """
    table, scale = Table.read(results), results["scale"]
    counts = experiment.counts or experiment.source.counts
    caption = f"{table.unit}; mean ± sd over {counts}"
    if experiment.source.suites:
        caption = f"Ours ({scale} scale; {table.unit}, mean ± sd over {counts})"
    published = experiment.published
    if further:
        published = {key: row for key, row in published.items() if key in table.cells}
    if published:
        caption += ", and as published"
    title = f"{experiment.file}: {experiment.title}"
    heading = f"## {experiment.file}, {scale}" if further else f"# {title}"
    verdicts = experiment.verdicts(results)
    claims = _claims_text(verdicts)
    differences = sorted(results.get("differences", ()), key=_rank)
    parts = [
        heading,
        f"`{experiment.command(scale)}`",
        f"{caption}:\n\n{formatted(numbers(table, published, counts), form)}",
    ]
    if protocol := results.get("protocol"):  # results of earlier versions lack it
        parts.append(f"{_capital(protocol)}; {table.unit.partition(', ')[0]}.")
    if table.axis:
        some = f", {FEW} of {len(table.xs)}" if _is_thinned(table) else ""
        parts.append(f"Columns: {table.axis}{some}.")
    if picture:
        parts.append(f"![{experiment.title}]({picture})")
    if reason := experiment.unreliable(results):
        parts.append(f"These numbers decide no claim: they were {reason}.")
    if missing := results.get("missing"):
        runs = "; ".join(first_of(missing, 8)).rstrip(".")
        parts.append(f"Missing runs ({len(missing)}): {runs}.")
    if note := experiment.note(scale):
        parts.append(note)
    fold = _folded if form == "markdown" else _titled
    states = counted([verdict.state for verdict in verdicts])
    parts.append(fold(f"Claims: {states}", claims) if claims else NO_CLAIM)
    if differences:
        largest = _listed(differences[:LARGEST])
        parts.append(f"The largest differences from the paper's setup:\n\n{largest}")
    if others := differences[LARGEST:]:
        parts.append(fold("Further differences from the paper's setup", _listed(others)))
    if table.notes:
        parts.append(fold(f"Remarks on the numbers ({len(table.notes)})", "\n\n".join(table.notes)))
    if facts := results.get("provenance"):
        texts = {k: ", ".join(v) if isinstance(v, list) else v for k, v in facts.items()}
        parts.append(fold("Provenance", "; ".join(f"{k}: {v}" for k, v in texts.items()) + "."))
    return "\n\n".join(parts)


def experiment_page(experiment: Experiment) -> str:
    """docs/papers/PAPER/NAME.md: the sections of all scales with committed results."""
    sections = [
        section(experiment, results, experiment.file_name(scale, ".png"), further=number > 0)
        for number, (scale, results) in enumerate(experiment.committed.items())
    ]
    return "\n\n".join(sections) + "\n"


def front_page(paper: str, experiments: Iterable[Experiment]) -> str:
    """docs/papers/PAPER.md: the summary in PAPER/notes.md, and the list of its tables and figures."""
    rows = [["", "shows", "claims", "on photographs"]]
    for experiment in experiments:
        if experiment.paper == paper and experiment.committed:
            by_scale = (experiment.judged(scale) for scale in (EMBEDDED, PHOTOS))
            states = (counted([v.state for v in verdicts]) for verdicts in by_scale)
            link = f"[{experiment.file}]({paper}/{experiment.file}.md)"
            rows.append([link, experiment.title, *states])
    return "\n\n".join([front_matter(paper), FRONT, formatted(rows, "markdown")]) + "\n"


def claims_page(experiments: Iterable[Experiment]) -> str:
    """docs/papers/claims.md: the number of claims by verdict, of each group and of each experiment."""
    by_group: dict[str, list[list[Verdict]]] = {title: [[], []] for title in GROUPS.values()}
    by_name = {}
    for experiment in (experiment for experiment in experiments if experiment.committed):
        judged = (experiment.judged(scale) for scale in (EMBEDDED, PHOTOS))
        by_scale = [[v for v in verdicts if not v.claim.same_as] for verdicts in judged]
        by_name[f"[{experiment.name}]({experiment.name}.md)"] = by_scale
        for number, verdicts in enumerate(by_scale):
            for verdict in verdicts:
                by_group[GROUPS[verdict.claim.group]][number].append(verdict)
    return "\n\n".join([CLAIMS, _counts(by_group), _counts(by_name)]) + "\n"


def _counts(verdicts: Mapping[str, list[list[Verdict]]]) -> str:
    """A table of the number of claims by verdict: at embedded scale, and in words on photographs."""
    rows = [["", "claims", *STATES, "on photographs"]]
    for name, by_scale in verdicts.items():
        states, others = ([verdict.state for verdict in same] for same in by_scale)
        counts = [str(states.count(s) or "") for s in STATES]
        rows.append([name, str(len(states) or ""), *counts, counted(others)])
    return formatted(rows, "markdown")


def numbers(table: Table, published: Published, counts: str) -> pd.DataFrame:
    """Our rows with their numbers of runs, and means of rows or columns; each above its published row.

    counts: what is written for "runs".
    """
    xs = table.xs
    if _is_thinned(table):
        xs = [xs[n] for n in np.linspace(0, len(xs) - 1, FEW).astype(int)]
    averaged = (table.averaged or {AVERAGE: xs}) if table.summary == "columns" else {}
    ours: dict[tuple[str, str], dict[str, str]] = {}
    for key, cells in table.cells.items():
        runs = max(map(len, cells.values()))
        ours[key] = {header(x): _number(cells.get(x, {}), runs) for x in xs}
        means = {name: [table.mean(*key, x) for x in columns] for name, columns in averaged.items()}
        ours[key] |= {name: _average(values) for name, values in means.items()}
        ours[key][counts] = str(runs)
    if table.summary == "rows":
        by_column = {header(x): [table.mean(*key, x) for key in table.cells] for x in xs}
        known = {x: sorted(m for m in means if m is not None) for x, means in by_column.items()}
        ours["", AVERAGE] = {x: _average(means) for x, means in known.items()}
        ours["", "Worst case"] = {x: _text_of(max(means)) for x, means in known.items()}
        best = {x: _average(means[:-1]) for x, means in known.items()}
        ours["", "Average (worst excluded)"] = best
    rows = []
    for key in dict.fromkeys([*ours, *published]):
        if key in ours:
            rows.append({"": _label(*key), **ours[key]})
        if key in published:
            theirs = {x: _text_of(value, "g") for x, value in published[key].items()}
            rows.append({"": f"{_label(*key)} (published)", **theirs})
    last = [*averaged, *([] if table.exact else [counts])]
    printed = [x for row in published.values() for x in row]
    first = dict.fromkeys(["", *map(header, xs), *printed])
    return pd.DataFrame(rows, columns=[*(x for x in first if x not in last), *last]).fillna("-")


def _is_thinned(table: Table) -> bool:
    """Whether only FEW of the columns are printed."""
    return table.along and len(table.xs) > MANY


def _average(means: Sequence[float | None]) -> str:
    """The mean as text, "-" unless all numbers are known."""
    known = [mean for mean in means if mean is not None]
    return _text_of(float(np.mean(known)) if known and len(known) == len(means) else None)


def _number(values: Values[str], usual: int) -> str:
    """Mean ± sd over runs, with their number if it is not the usual one."""
    if not values:
        return "-"
    spread, mean = deviation(values.values()), float(np.mean([*values.values()]))
    text = _text_of(mean if spread is None else [mean, spread])
    return text if usual == len(values) else f"{text} (n={len(values)})"


def _text_of(value: float | list[float] | None, form: str = ".2f") -> str:
    """A number, or a mean and its standard deviation, as text; "-" if there is none."""
    if value is None:
        return "-"
    return " ± ".join(
        format(part, form) for part in (value if isinstance(value, list) else [value])
    )


def _label(panel: str, curve: str) -> str:
    return f"{panel}: {curve}" if panel else curve


def _claims_text(verdicts: Sequence[Verdict]) -> str:
    """The verdicts on the claims, by 95 % intervals of differences paired by run."""
    text = []
    for group, title in GROUPS.items():
        lines = [_line(verdict) for verdict in verdicts if verdict.claim.group == group]
        text += [f"{title}:\n\n{_listed(lines)}"] if lines else []
    return "\n\n".join(text)


def _line(verdict: Verdict) -> str:
    """A verdict in one line."""
    claim = verdict.claim
    quote = f" [{claim.quote}]" if claim.quote else ""
    counted_there = f"; counted as {claim.same_as}" if claim.same_as else ""
    sentence = claim.sentence_of(verdict.parts)
    return f"{verdict.state}: {sentence}{quote} ({verdict.because}{counted_there})"


def _rank(difference: str) -> int:
    """The position of a difference's setting in LARGEST_SETTINGS; those that are not in it come last."""
    setting = difference.partition(":")[0].removeprefix("stream.")
    known = setting in LARGEST_SETTINGS
    return LARGEST_SETTINGS.index(setting) if known else len(LARGEST_SETTINGS)


def _folded(title: str, text: str) -> str:
    """Text that a browser shows on a click."""
    return f'<details markdown="1">\n<summary>{title}</summary>\n\n{text}\n\n</details>'


def _titled(title: str, text: str) -> str:
    """Text below its title, as a terminal shows it."""
    return f"{title}\n\n{text}"


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def _listed(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)
