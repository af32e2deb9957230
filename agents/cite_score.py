"""`holdfast cite score`: the scores of runs as text or JSON."""

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from . import cite_options as options
from .cite_options import say
from .data import Dataset
from .paper_settings import beside_paper
from .records import Header
from .score import Spread, score

Figures = dict[str, Any]  # from `score`


def add_options(parser: ArgumentParser) -> None:
    """Add the options of the command, and its action."""
    parser.set_defaults(action=_score)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="result files")
    options.add_run_data(parser)
    options.add_price(parser)
    options.add_json(parser)


def _score(args: Namespace) -> None:
    named = {}
    for path in args.runs:
        header, records, dataset = options.read_run(args, path)
        figures = score(records, dataset, repeats=header.repeats, prices=args.usd_per_million)
        named[str(path)] = {"agent": header.agent.plain(), "data": dataset.name, **figures}
        if not args.json:
            say(of_run(header, figures, dataset))
            say(f"  {beside_paper(header, dataset, figures, str(path))}\n")
    if args.json:
        print(json.dumps(named, indent=1, default=asdict))
    elif len(named) > 1:
        say(table({Path(name).stem: figures for name, figures in named.items()}))


def of_run(header: Header, figures: Figures, dataset: Dataset) -> str:
    """The full report of one run."""
    agent, provider = header.agent, header.provider
    corpus = f", corpus {provider['sha256'][:12]}" if "sha256" in provider else ""
    outcomes, back = figures["outcomes"], f"{figures['sent_back']} sent back"
    ended = f"{_counted(outcomes)}; repaired replies: {figures['repairs']} of {back}"
    lines = {"language model": f"{agent.model or 'none'}; search: {provider['name']}{corpus}"}
    if program := agent.program:
        data = program["dataset"]
        learnt = f"{program['optimizer']} on {data['name']}, {data['split']}, n = {data['n']}"
        lines["demonstration"] = f"optimised by {learnt}; program {program['sha256'][:12]}"
    if replay := (header.model_extra or {}).get("replay"):
        lines["replayed"] = f"from {replay['world']}, without requests; costs are the recorded ones"
    if figures["missing"]:
        whole = figures["n_expected"] * figures["repeats"]
        resume = "" if agent.name == "people" else "; run it again to resume"
        lines["UNFINISHED"] = f"{whole - figures['missing']} of {whole} answers{resume}"
    if figures["provider_errors"]:
        lines["not answered"] = f"{_counted(figures['provider_errors'])}; excluded from rates"
    if not {"correct", "wrong"} & set(outcomes):
        lines["NO SAMPLE HAS AN ANSWER"] = ended
        return _report(agent.name, dataset, lines | _costs(figures))
    lines["accuracy"] = f"{figures['accuracy']}  (CiteME's matcher)"
    lines["strict accuracy"] = str(figures["strict_accuracy"])
    if spread := figures["per_repeat"]:
        percent = f"{100 * spread['mean']:.1f} ± {100 * spread['sd']:.1f} %"
        lines[f"over {figures['repeats']} repeats"] = percent
    median, missed = _number(figures["best_rank_median"]), figures["found_not_selected"]
    lines["found in search"] = f"{figures['found_in_search']}, median rank {median}"
    lines["accuracy if found"] = f"{figures['accuracy_given_found']}; not selected: {missed}"
    lines["outcomes"] = ended
    lines["reads that worked"] = str(figures["reads"])
    means = (f"{kind} {_number(mean)}" for kind, mean in figures["actions_mean"].items())
    lines["actions, mean"] = ", ".join(means)
    lines |= {"seconds per sample": _spread_of(figures["seconds"])} | _costs(figures)
    for step, counts in enumerate(figures["actions_by_step"], start=1):
        lines[f"step {step}"] = _counted(counts)
    if any(figures["failures"].values()):
        lines["wrong answers"] = _counted(figures["failures"])
    for year, rate in figures["by_year"].items():
        lines[f"source of {year}"] = str(rate)
    return _report(agent.name, dataset, lines)


def _report(agent: str, dataset: Dataset, lines: Mapping[str, str]) -> str:
    """Labelled lines under the names of the agent and the data."""
    shown = [f"  {label:<20}  {text}" for label, text in lines.items()]
    return "\n".join([f"{agent} on {dataset.describe()}", *shown])


def _costs(figures: Figures) -> dict[str, str]:
    """Calls, tokens and dollars; no lines without calls of a language model."""
    if not figures["lm_calls"]:
        return {}
    tokens, usd, seconds = figures["tokens"], figures["usd"], figures["lm_seconds"]
    cost = "cost unknown" if usd is None else f"{usd:.4f} USD"
    lines = {
        "calls of the model": f"{figures['lm_calls']}, {tokens['input']} tokens in, "
        f"{tokens['output']} out, {cost}; seconds per call {_spread_of(seconds)}",
        "tokens per sample": _spread_of(figures["tokens_per_sample"]),
    }
    return lines | ({"USD per sample": _spread_of(figures["usd_per_sample"])} if usd else {})


def table(named: Mapping[str, Figures]) -> str:
    """One line per run: accuracy with interval, strict accuracy, found, actions, milliseconds."""
    import pandas as pd  # deferred: takes a second

    rows = {}
    for name, figures in named.items():
        correct, _, interval = str(figures["accuracy"]).partition(" = ")
        actions = sum(sum(counts.values()) for counts in figures["actions_by_step"])
        found_rate = figures["found_in_search"].rate
        rows[name] = {
            "correct": correct,
            "accuracy % [95 % interval]": interval.replace(" %", ""),
            "strict %": f"{100 * (figures['strict_accuracy'].rate or 0):.1f}",
            "found %": "-" if found_rate is None else f"{100 * found_rate:.1f}",
            "actions": f"{actions / max(figures['accuracy'].n, 1):.1f}",
            "ms": f"{1000 * (figures['seconds']['p50'] or 0):.1f}",
        }
    return pd.DataFrame(rows).T.to_string()


def _spread_of(values: Spread) -> str:
    """Mean, median and 90 % quantile."""
    return ", ".join(f"{name} {_number(values[name])}" for name in ("mean", "p50", "p90"))


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.3g}"
