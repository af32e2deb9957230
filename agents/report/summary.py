"""`holdfast cite score`: score result files, as text, JSON, a figure or a page."""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

from ..commands.options import CiteParser, dataset_of, prices_of
from ..data import Dataset, with_alternatives
from ..results import read
from ..schema import Header
from ..score import Scores, score
from ..stats import Spread
from .beside import beside_published
from .figures import histogram
from .runs_page import JudgedRun, runs_page, write_page


def text(header: Header, s: Scores, dataset: Dataset) -> str:
    """The full report of one run."""
    agent, provider = header.agent, header.provider
    lines = [
        f"{agent.name} on {dataset.describe()}",
        f"  language model: {agent.model or 'none'}; search: {provider.name}"
        + (f", corpus {provider.sha256[:12]}" if provider.sha256 else ""),
    ]
    if s.missing:
        whole = s.n_expected * s.repeats
        resume = "" if agent.name == "people" else "; run it again to resume"
        lines.append(f"  UNFINISHED: {whole - s.missing} of {whole} answers{resume}")
    if s.provider_errors:
        lines.append(f"  not answered, excluded from rates: {counts_text(s.provider_errors)}")
    if not {"correct", "wrong"} & set(s.outcomes):
        ended = f": {counts_text(s.outcomes)}" if s.outcomes else ""
        sent = f"; repaired replies: {s.repairs} of {s.sent_back} sent back"
        lines.append(f"  NO SAMPLE HAS AN ANSWER{ended}{sent if s.sent_back else ''}")
        return "\n".join(lines + cost_lines(s))
    lines += [
        f"  accuracy            {s.accuracy}  (CiteME's matcher)",
        f"  strict accuracy     {s.strict_accuracy}",
    ]
    if s.accuracy_with_alternatives:
        lines.append(f"  with alternatives   {s.accuracy_with_alternatives}")
    if s.per_repeat:
        mean, sd = s.per_repeat["mean"], s.per_repeat["sd"]
        lines.append(f"  over {s.repeats} repeats      {100 * mean:.1f} ± {100 * sd:.1f} %")
    lines += [
        f"  found in search     {s.found_in_search}, median rank {number_text(s.best_rank_median)}",
        f"  accuracy if found   {s.accuracy_given_found}; "
        f"found but not selected: {s.found_not_selected}",
        f"  outcomes            {counts_text(s.outcomes)}; repaired replies: {s.repairs} of "
        f"{s.sent_back} sent back",
        f"  reads that worked   {s.reads}",
        f"  actions, mean       correct {number_text(s.actions_mean['correct'])}, "
        f"other {number_text(s.actions_mean['wrong'])}",
        f"  seconds per sample  {spread_text(s.seconds)}",
    ]
    lines += cost_lines(s)
    lines.append("  actions by step")
    lines += [f"    {k:2d}  {counts_text(c)}" for k, c in enumerate(s.actions_by_step, start=1)]
    if any(s.failures.values()):
        kinds = "; ".join(f"{kind}: {count}" for kind, count in s.failures.items())
        lines.append(f"  wrong answers       {kinds}")
    if s.by_cutoff:
        cut = s.by_cutoff
        lines.append(f"  source before {cut['year']}  {cut['before']}")
        lines.append(f"  source since {cut['year']}   {cut['since']}")
    lines.append("  by year of the source")
    lines += [f"    {year}  {rate}" for year, rate in s.by_year.items()]
    return "\n".join(lines)


def cost_lines(s: Scores) -> list[str]:
    """Calls, tokens and dollars; no lines without calls of a language model."""
    if not s.lm_calls:
        return []
    cost = "cost unknown" if s.usd is None else f"{s.usd:.4f} USD"
    lines = [
        f"  language model      {s.lm_calls} calls, {s.tokens['input']} tokens in, "
        f"{s.tokens['output']} out, {cost}; seconds per call p50 "
        f"{number_text(s.lm_seconds['p50'])}, p90 {number_text(s.lm_seconds['p90'])}"
    ]
    lines.append(f"  tokens per sample   {spread_text(s.tokens_per_sample)}")
    if s.usd is not None:
        lines.append(f"  USD per sample      {spread_text(s.usd_per_sample)}")
    return lines


def table(named: Mapping[str, Scores]) -> str:
    """One line per run: accuracy with interval, strict accuracy, found, actions, milliseconds."""
    lines = [
        f"{'agent':<18}{'correct':>9}{'accuracy % [95 % interval]':>28}{'strict %':>10}"
        f"{'found %':>9}{'actions':>9}{'ms':>8}"
    ]
    for name, s in named.items():
        correct, _, interval = str(s.accuracy).partition(" = ")
        strict, found = 100 * (s.strict_accuracy.rate or 0), s.found_in_search.rate
        actions = sum(sum(c.values()) for c in s.actions_by_step) / max(s.accuracy.n, 1)
        lines.append(
            f"{name:<18}{correct:>9}{interval.replace(' %', ''):>28}{strict:>10.1f}"
            f"{'-' if found is None else f'{100 * found:.1f}':>9}{actions:>9.1f}"
            f"{1000 * (s.seconds['p50'] or 0):>8.1f}"
        )
    return "\n".join(lines)


def side_by_side(named: Mapping[str, Scores]) -> str:
    """The outcomes of several runs and the causes of wrong answers, as counts and shares."""
    width = max(14, *(len(name) + 2 for name in named))
    lines = [" " * 34 + "".join(f"{name:>{width}}" for name in named)]
    for counts in ([s.outcomes for s in named.values()], [s.failures for s in named.values()]):
        for kind in dict.fromkeys(kind for one in counts for kind in one):
            cells = []
            for one in counts:
                count, total = one.get(kind, 0), sum(one.values())
                share = f" {100 * count / total:5.1f} %" if total else ""
                cells.append(f"{f'{count}{share}':>{width}}")
            lines.append(f"{kind.replace('_', ' '):<34}" + "".join(cells))
        lines.append("")
    return "\n".join(lines[:-1])


def spread_text(values: Spread) -> str:
    """Mean, median and 90 % quantile."""
    return ", ".join(f"{name} {number_text(values[name])}" for name in ("mean", "p50", "p90"))


def counts_text(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"


def number_text(value: float | None) -> str:
    return "none" if value is None else f"{value:.3g}"


def main(argv: list[str]) -> None:
    """Print the figures of each run; write the figure and the page if asked to."""
    args = parser().parse_args(argv)
    runs = []
    for path in args.runs:
        header, records = read(path)
        dataset = dataset_of(args, header, path)
        judging = {"repeats": header.repeats, "threshold": args.threshold}
        scores = score(
            records, dataset, **judging, usd_per_million=prices_of(args), cutoff=args.cutoff
        )
        if args.alternatives:
            wider = with_alternatives(dataset, args.alternatives)
            accepted = score(records, wider, **judging).accuracy
            scores = replace(scores, accuracy_with_alternatives=accepted)
        judged = (path.stem, header, dataset, records, scores, args.threshold, prices_of(args))
        runs.append(JudgedRun(*judged))
        if not args.json:
            print(text(header, scores, dataset))
            print(beside_published(header, dataset, scores), end="\n\n")
    if args.json:
        figures = {
            str(path): {
                "agent": run.header.agent.plain(),
                "data": run.dataset.name,
                **asdict(run.scores),
            }
            for path, run in zip(args.runs, runs, strict=True)
        }
        print(json.dumps(figures, indent=1))
    elif len(runs) > 1:
        print(side_by_side({run.name: run.scores for run in runs}))
    if args.picture:
        steps = {run.name: run.scores.actions_by_step_correct for run in runs}
        histogram(steps, args.picture, "Actions by step, correct answers")
        print(f"Wrote {args.picture}", file=sys.stderr)
    if args.html:
        write_page(args.html, runs_page(runs))


def parser() -> CiteParser:
    parser = CiteParser("score", __doc__, "runs/bm25.jsonl runs/rules.jsonl --html page.html")
    parser.add("runs", nargs="+", type=Path, metavar="RUN", help="result files")
    parser.data(default=None)
    parser.threshold()
    parser.prices()
    what = "plot the actions of correct answers by step"
    parser.add("--picture", type=Path, metavar="PNG", help=what)
    what = "also print the accuracy before and since this year of the source"
    parser.add("--cutoff", type=int, metavar="YEAR", help=what)
    what = "further accepted titles (columns id, title); also print the accuracy with them"
    parser.add("--alternatives", type=Path, metavar="CSV", help=what)
    parser.html()
    parser.json()
    return parser
