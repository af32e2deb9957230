"""Scores of runs, their comparison, and one sample's trajectory, as text."""

import textwrap
from collections.abc import Mapping
from typing import Any

import pandas as pd

from .data import Dataset, Sample
from .limits import tokens_of, usd_of
from .records import Header, Record
from .score import Spread, judge
from .trajectory import KINDS, Turn, turns

WIDTH = 100
SEEN = 600  # maximum characters printed of a text shown to the agent
Figures = dict[str, Any]  # from `score`


def of_run(header: Header, figures: Figures, dataset: Dataset) -> str:
    """The full report of one run."""
    agent, provider = header.agent, header.provider
    corpus = f", corpus {provider['sha256'][:12]}" if "sha256" in provider else ""
    outcomes, back = figures["outcomes"], f"{figures['sent_back']} sent back"
    ended = f"{counted(outcomes)}; repaired replies: {figures['repairs']} of {back}"
    lines = {"language model": f"{agent.model or 'none'}; search: {provider['name']}{corpus}"}
    if figures["missing"]:
        whole = figures["n_expected"] * figures["repeats"]
        resume = "" if agent.name == "people" else "; run it again to resume"
        lines["UNFINISHED"] = f"{whole - figures['missing']} of {whole} answers{resume}"
    if figures["provider_errors"]:
        lines["not answered"] = f"{counted(figures['provider_errors'])}; excluded from rates"
    if not {"correct", "wrong"} & set(outcomes):
        lines["NO SAMPLE HAS AN ANSWER"] = ended
        return report(agent.name, dataset, lines | costs(figures))
    lines["accuracy"] = f"{figures['accuracy']}  (CiteME's matcher)"
    lines["strict accuracy"] = str(figures["strict_accuracy"])
    if spread := figures["per_repeat"]:
        percent = f"{100 * spread['mean']:.1f} ± {100 * spread['sd']:.1f} %"
        lines[f"over {figures['repeats']} repeats"] = percent
    median, missed = number(figures["best_rank_median"]), figures["found_not_selected"]
    lines["found in search"] = f"{figures['found_in_search']}, median rank {median}"
    lines["accuracy if found"] = f"{figures['accuracy_given_found']}; not selected: {missed}"
    lines["outcomes"] = ended
    lines["reads that worked"] = str(figures["reads"])
    means = (f"{kind} {number(mean)}" for kind, mean in figures["actions_mean"].items())
    lines["actions, mean"] = ", ".join(means)
    lines |= {"seconds per sample": spread_of(figures["seconds"])} | costs(figures)
    for step, counts in enumerate(figures["actions_by_step"], start=1):
        lines[f"step {step}"] = counted(counts)
    if any(figures["failures"].values()):
        lines["wrong answers"] = counted(figures["failures"])
    for year, rate in figures["by_year"].items():
        lines[f"source of {year}"] = str(rate)
    return report(agent.name, dataset, lines)


def report(agent: str, dataset: Dataset, lines: Mapping[str, str]) -> str:
    """Labelled lines under the names of the agent and the data."""
    shown = [f"  {label:<20}  {text}" for label, text in lines.items()]
    return "\n".join([f"{agent} on {dataset.describe()}", *shown])


def costs(figures: Figures) -> dict[str, str]:
    """Calls, tokens and dollars; no lines without calls of a language model."""
    if not figures["lm_calls"]:
        return {}
    tokens, usd, seconds = figures["tokens"], figures["usd"], figures["lm_seconds"]
    cost = "cost unknown" if usd is None else f"{usd:.4f} USD"
    lines = {
        "calls of the model": f"{figures['lm_calls']}, {tokens['input']} tokens in, "
        f"{tokens['output']} out, {cost}; seconds per call {spread_of(seconds)}",
        "tokens per sample": spread_of(figures["tokens_per_sample"]),
    }
    return lines | ({"USD per sample": spread_of(figures["usd_per_sample"])} if usd else {})


def table(named: Mapping[str, Figures]) -> str:
    """One line per run: accuracy with interval, strict accuracy, found, actions, milliseconds."""
    rows = {}
    for name, figures in named.items():
        correct, _, interval = str(figures["accuracy"]).partition(" = ")
        actions = sum(sum(counts.values()) for counts in figures["actions_by_step"])
        found = figures["found_in_search"].rate
        rows[name] = {
            "correct": correct,
            "accuracy % [95 % interval]": interval.replace(" %", ""),
            "strict %": f"{100 * (figures['strict_accuracy'].rate or 0):.1f}",
            "found %": "-" if found is None else f"{100 * found:.1f}",
            "actions": f"{actions / max(figures['accuracy'].n, 1):.1f}",
            "ms": f"{1000 * (figures['seconds']['p50'] or 0):.1f}",
        }
    return pd.DataFrame(rows).T.to_string()


def of_comparison(figures: Figures) -> str:
    """A comparison by `compare` in four lines."""
    low, high = figures["interval"]
    return (
        f"{figures['pairs']} pairs, split = {figures['split']}, CiteME's matcher\n"
        f"correct in both {figures['both']}, only A {figures['only_a']}, only B {figures['only_b']}, "
        f"neither {figures['neither']}\n"
        f"A {over_repeats(figures['a'])}, B {over_repeats(figures['b'])}\n"
        f"A - B = {100 * figures['difference']:+.1f} points [{100 * low:+.1f}, {100 * high:+.1f}], "
        f"{figures['test']} p = {figures['p']:.4f}"
    )


def over_repeats(run: Figures) -> str:
    """A run's accuracy in percent, over repeats if there are several."""
    if run["repeats"] == 1:
        return f"{100 * run['mean']:.1f} %"
    return f"{100 * run['mean']:.1f} ± {100 * run['sd']:.1f} % over {run['repeats']} repeats"


def spread_of(values: Spread) -> str:
    """Mean, median and 90 % quantile."""
    return ", ".join(f"{name} {number(values[name])}" for name in ("mean", "p50", "p90"))


def counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"


def number(value: float | None) -> str:
    return "none" if value is None else f"{value:.3g}"


def of_sample(record: Record, sample: Sample, full: bool = False) -> str:
    """A sample's trajectory; `full` shows all hits and complete texts."""
    row = judge(record, sample)
    usd, calls, tokens = usd_of(record.calls, None), record.calls, tokens_of(record.calls)
    facts = [row["outcome"], f"{len(row['actions'])} actions", f"{record.seconds:.1f} s"]
    if calls:
        facts += [f"{len(calls)} calls", f"{tokens['input']:,} + {tokens['output']:,} tokens"]
    facts += [f"{usd:.4f} USD"] if usd is not None else []
    facts += [f"{row['repairs']} repaired"] if row["repairs"] else []
    repeat = f", repeat {record.repeat}" if record.repeat else ""
    lines = [
        f"{sample.id}{repeat}: {', '.join(facts)}",
        *labelled("excerpt", sample.excerpt),
        *labelled("source", f"{sample.source_title} ({sample.date or 'no date'})"),
    ]
    for title in sample.titles:
        lines += labelled("target", title)
    for turn in turns(record, sample):
        lines += ["", *of_turn(turn, full)]
    lines += ["", *labelled("answer", record.selection.title if record.selection else "none")]
    kind, detail = row["failure"], record.detail.strip()
    if reason := f"{kind}: {KINDS[kind]}." if kind else detail:
        lines += labelled("", reason)
    return "\n".join(lines)


def of_turn(turn: Turn, full: bool) -> list[str]:
    """One turn as lines of text."""
    number = f"{turn.step:2d}"
    lines = labelled(number, turn.reason or "(no reason given)") if turn.replies else []
    if turn.action:
        taken = f"{turn.action.upper()} {turn.argument}  ({turn.seconds:.1f} s)"
        lines += labelled("" if lines else number, taken)
    else:
        for reply in turn.replies:
            lines += labelled("", f"unusable reply: {shortened(reply, full)}")
    if turn.error:
        lines += labelled("", f"error: {turn.error}")
    for rank, (hit, is_target) in enumerate(turn.hits, start=1):
        mark = "  <== the target" if is_target else ""
        if full or rank <= 5 or mark:
            lines += labelled("", f"{rank:2d}. {hit.title} [{hit.id}]{mark}")
    if turn.action == "read" and turn.seen and not turn.error:
        lines += labelled("", f"| {shortened(turn.seen, full)}")
    return lines


def labelled(label: str, words: str) -> list[str]:
    """Words wrapped after a label in the margin."""
    body = [line for part in words.split("\n") for line in textwrap.wrap(part, WIDTH - 10) or [""]]
    return [f"{label if k == 0 else '':<8}  {line}".rstrip() for k, line in enumerate(body)]


def shortened(words: str, full: bool) -> str:
    """The text, truncated to 600 characters with the number of omitted ones unless `full`."""
    if full or len(words) <= SEEN:
        return words
    return f"{words[:SEEN]} ... ({len(words) - SEEN:,} more characters: --full)"
