"""Runs and trajectories as self-contained pages: no network, no script needed to read them."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from ...files import whole_file, written
from ..costs import Prices, usd_of
from ..data import Dataset, Sample
from ..failures import KINDS, failure
from ..matching import THRESHOLD
from ..score import judge
from ..trajectory import Turn, turns
from . import svg
from .figures import ACTIONS
from .published import beside_published
from .trajectory import READING, headline, shortened, verdict

STYLE = """
:root { color-scheme: light dark }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 84rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: .6rem 0 } th, td { padding: .2rem .7rem; text-align: left }
thead th { border-bottom: 1px solid }
td { white-space: nowrap; font-variant-numeric: tabular-nums }
details { margin: .3rem 0 } summary { cursor: pointer } svg { width: 21rem; margin-right: 1rem }
pre { white-space: pre-wrap; opacity: .85 } .target { font-weight: 600 } ol, p { margin: .3rem 0 }
.step { border-left: 3px solid #4477aa; padding-left: .8rem; margin: .8rem 0 }
"""
# A link to a sample opens the block it is in, where the browser does not do so by itself.
SCRIPT = """
const open = () => document.getElementById(location.hash.slice(1))?.closest("details")
  ?.setAttribute("open", "");
addEventListener("hashchange", open); open();
"""


@dataclass
class JudgedRun:
    """A run as `holdfast cite score` has read and judged it."""

    name: str
    header: Mapping[str, Any]
    dataset: Dataset
    records: Mapping[tuple[str, int], dict[str, Any]]
    scores: Mapping[str, Any]
    threshold: float = THRESHOLD
    prices: Prices | None = None


def trajectory_page(header: Mapping[str, Any], record: dict[str, Any], sample: Sample) -> str:
    """One sample's trajectory, with all that the agent was shown."""
    agent = header["agent"]
    title = f"{sample.id} by {agent.get('model') or agent['name']}"
    return page(title, [f"<h1>{escape(title)}</h1>", *trajectory(record, sample, full=True)])


def runs_page(runs: Sequence[JudgedRun]) -> str:
    """What runs amount to, side by side; every count leads to its samples, they to their steps."""
    body = ["<h1>CiteME: runs side by side</h1>"]
    if any(run.dataset.name == "mini-cite" for run in runs):
        body.append("<p>mini-cite is a small set of our own; its scores are not CiteME scores.</p>")
    body.append(summary(runs))
    body.append("<h2>How samples ended</h2>")
    body.append(counted(runs, "outcome", [{**run.scores["outcomes"]} for run in runs]))
    body.append("<h2>Wrong answers</h2>")
    body.append(counted(runs, "failure", [run.scores["failures"] for run in runs]))
    body += [f"<p><b>{escape(k)}</b>: {escape(meaning)}.</p>" for k, meaning in KINDS.items()]
    body.append("<h2>Actions by step, correct answers</h2>")
    body += [svg.stacked(r.scores["actions_by_step_correct"], ACTIONS, r.name) for r in runs]
    body.append("<h2>Price and duration of a sample</h2>")
    body += costs(runs)
    for k, run in enumerate(runs):
        body += samples(k, run)
    return page("CiteME: runs side by side", body)


def summary(runs: Sequence[JudgedRun]) -> str:
    """The table of figures, one row a run; columns that would be empty are left out."""
    columns: dict[str, list[str]] = {}
    for k, run in enumerate(runs):
        s, agent = run.scores, run.header["agent"]
        demonstration = " + demonstration" if agent.get("demonstration") else ""
        spread, cut = s["per_repeat"], s["by_cutoff"]
        right = f'<a href="#{anchor(k, "outcome", "correct")}">{compact(s["accuracy"])}</a>'
        cells = {
            "run": f'<a href="#r{k}">{escape(run.name)}</a>',
            "model": escape(agent.get("model") or agent["name"]),
            "setting": escape(f"{agent.get('commands') or ''}{demonstration}"),
            "data": escape(f"{run.dataset.name}, {run.dataset.split}, n = {s['n']}"),
            "accuracy, %": right if s["accuracy"]["k"] else compact(s["accuracy"]),
            "repeats": f"{100 * spread['mean']:.1f} ± {100 * spread['sd']:.1f} %" if spread else "",
            "strict, %": compact(s["strict_accuracy"]),
            "found, %": compact(s["found_in_search"]),
            f"before {cut['year']}" if cut else "": compact(cut["before"]) if cut else "",
            f"since {cut['year']}" if cut else " ": compact(cut["since"]) if cut else "",
            "USD": rounded(s["usd_per_sample"]["mean"]),
            "tokens": rounded(s["tokens_per_sample"]["mean"]),
            "seconds": rounded(s["seconds"]["mean"]),
        }
        for name, cell in cells.items():
            columns.setdefault(name, []).append(cell)
    shown = {name: column for name, column in columns.items() if any(column)}
    said = "USD, tokens and seconds are means of a sample; intervals are Wilson's, 95 %."
    return table(list(shown), list(zip(*shown.values(), strict=True))) + f"<p>{said}</p>"


def compact(rate: Mapping[str, Any]) -> str:
    """A rate in percent with its interval; "" of nothing."""
    if not rate["n"]:
        return ""
    return f"{100 * rate['rate']:.1f} [{100 * rate['low']:.0f}, {100 * rate['high']:.0f}]"


def rounded(value: float | None) -> str:
    """Three digits; "" for nothing."""
    return "" if value is None else f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"


def counted(runs: Sequence[JudgedRun], what: str, counts: Sequence[Mapping[str, int]]) -> str:
    """Counts and shares, one column a run; each count leads to its samples."""
    kinds = list(dict.fromkeys(kind for column in counts for kind in column))
    totals = [sum(column.values()) or 1 for column in counts]
    rows = []
    for kind in kinds:
        cells = [escape(kind.replace("_", " "))]
        for k, column in enumerate(counts):
            count = column.get(kind, 0)
            shown = f"{count} ({100 * count / totals[k]:.1f} %)"
            cells.append(f'<a href="#{anchor(k, what, kind)}">{shown}</a>' if count else "0")
        rows.append(cells)
    return table([what, *(run.name for run in runs)], rows)


def costs(runs: Sequence[JudgedRun]) -> list[str]:
    """Histograms of price and duration, and accuracy against the mean of either."""
    drawn = []
    for run in runs:
        calls = [[e for e in r["events"] if e["kind"] == "lm"] for r in run.records.values()]
        usd = [value for c in calls if c and (value := usd_of(c, run.prices)) is not None]
        if usd:
            drawn.append(svg.histogram(usd, f"{run.name}: price", "USD"))
        seconds = [r["seconds"] for r in run.records.values()]
        drawn.append(svg.histogram(seconds, f"{run.name}: duration", "s"))
    for key, unit in (("usd_per_sample", "USD"), ("seconds", "s")):
        named = {}
        for run in runs:
            rate, cost = run.scores["accuracy"], run.scores[key]["mean"]
            if cost is not None and rate["n"]:
                named[run.name] = (cost, rate["low"], rate["rate"], rate["high"])
        if named:
            drawn.append(svg.points(named, f"accuracy against {unit} per sample", unit))
    return drawn


def samples(k: int, run: JudgedRun) -> list[str]:
    """A run's samples, listed by how they ended, and their trajectories."""
    known = {s.id: s for s in run.dataset.samples}
    lists: dict[str, list[str]] = {}
    shown = []
    for (name, repeat), record in run.records.items():
        if name not in known:
            continue
        row = judge(record, known[name], run.threshold)
        place = f"r{k}-{name}-{repeat}"
        link = f'<a href="#{escape(place)}">{escape(name)}{f" ({repeat})" if repeat else ""}</a>'
        groups = [("outcome", row["outcome"])]
        if row["outcome"] == "wrong" and row["searched"]:
            groups.append(("failure", failure(record, known[name], run.threshold)))
        for group in groups:
            lists.setdefault(anchor(k, *group), [f"{group[0]} {group[1]}:"]).append(link)
        said = escape(f"{name}: {headline(record, known[name])}")
        inner = "".join(trajectory(record, known[name]))
        shown.append(
            f'<details><summary>{said}</summary><div id="{escape(place)}">{inner}</div></details>'
        )
    beside = beside_published(run.header, run.dataset, run.scores)
    return [
        f'<h2 id="r{k}">{escape(run.name)}</h2>',
        f"<pre>{escape(beside)}</pre>",
        *(f'<p id="{place}">{" ".join(links)}</p>' for place, links in lists.items()),
        *shown,
    ]


def trajectory(record: dict[str, Any], sample: Sample, full: bool = False) -> list[str]:
    """The excerpt, the turns and the answer."""
    chosen = record["selection"]
    return [
        f"<p>{escape(headline(record, sample))}</p>",
        f"<blockquote>{escape(sample.excerpt)}</blockquote>",
        *(f'<p>target: <span class="target">{escape(t)}</span></p>' for t in sample.titles),
        *(of_turn(turn, full) for turn in turns(record, sample)),
        f"<p>answer: {escape(chosen['title'] if chosen else 'none')}. "
        f"{escape(verdict(record, sample))}</p>",
    ]


def of_turn(turn: Turn, full: bool) -> str:
    """One turn: the reason, the action, what it returned."""
    parts = [f"<b>{turn.step}.</b> {escape(turn.reason)}"]
    if turn.action:
        parts.append(f"<p><code>{escape(turn.action)}</code> {escape(turn.argument)}</p>")
    else:
        parts += [f"<pre>{escape(shortened(reply, full))}</pre>" for reply in turn.replies]
    if turn.error:
        parts.append(f"<p>error: {escape(turn.error)}</p>")
    if turn.hits:
        hits = [
            f"<li{' class=target' if hit['target'] else ''}>{escape(hit['title'])}</li>"
            for hit in turn.hits
        ]
        parts.append(f"<ol>{''.join(hits)}</ol>")
    if turn.action in READING and turn.seen and not turn.error:
        parts.append(f"<pre>{escape(shortened(turn.seen, full))}</pre>")
    return f'<div class="step">{"".join(parts)}</div>'


def anchor(k: int, what: str, kind: str) -> str:
    """Where the samples of a kind are listed."""
    return f"r{k}-{what}-" + "".join(c if c.isalnum() else "-" for c in kind)


def table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of cells that are HTML already, under plain names."""
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def page(title: str, body: Sequence[str]) -> str:
    """The whole page."""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style></head><body>\n"
        + "\n".join(body)
        + f"\n<script>{SCRIPT}</script></body></html>\n"
    )


def write_page(path: Path, content: str) -> None:
    """Write a page whole, and say so."""
    with written(path, "or give the page another place."):
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as partial:
            partial.write_text(content, encoding="utf-8")
    print(f"Wrote {path}", file=sys.stderr)
