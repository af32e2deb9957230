"""Scores as text and pictures: tables with intervals, CiteME's figures beside them, histograms."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..files import whole_file, written
from .data import Dataset

ACTIONS = ("search_relevance", "search_citation_count", "read", "select", "guess")
COLOURS = ("#4477aa", "#66ccee", "#ccbb44", "#228833", "#aa3377")  # Paul Tol's bright scheme


def text(header: Mapping[str, Any], scores: Mapping[str, Any], dataset: Dataset) -> str:
    """The full report of one run."""
    s = scores
    agent, provider = header["agent"], header["provider"]
    lines = [
        f"{agent['name']} on {dataset.describe()}",
        f"  language model: {agent.get('model') or 'none'}; search: {provider['name']}"
        + (f", corpus {provider['sha256'][:12]}" if "sha256" in provider else ""),
    ]
    if s["missing"]:
        whole = s["n_expected"] * s["repeats"]
        lines.append(
            f"  UNFINISHED: {whole - s['missing']} of {whole} answers; run it again to resume"
        )
    if s["provider_errors"]:
        lines.append(f"  not answered, apart from the rates: {counts_text(s['provider_errors'])}")
    lines += [
        f"  accuracy            {percent(s['accuracy'])}  (CiteME's matcher)",
        f"  strict accuracy     {percent(s['strict_accuracy'])}",
    ]
    if s["per_repeat"]:
        mean, sd = s["per_repeat"]["mean"], s["per_repeat"]["sd"]
        lines.append(f"  over {s['repeats']} repeats      {100 * mean:.1f} ± {100 * sd:.1f} %")
    lines += [
        f"  found in search     {percent(s['found_in_search'])}, "
        f"median rank {number_text(s['best_rank_median'])}",
        f"  accuracy if found   {percent(s['accuracy_given_found'])}; "
        f"found but not selected: {s['found_not_selected']}",
        f"  outcomes            {counts_text(s['outcomes'])}; repaired replies: {s['repairs']}",
        f"  reads that worked   {percent(s['reads'])}",
        f"  actions, mean       correct {number_text(s['actions_mean']['correct'])}, "
        f"other {number_text(s['actions_mean']['wrong'])}",
        f"  seconds per sample  p50 {number_text(s['seconds']['p50'])}, "
        f"p90 {number_text(s['seconds']['p90'])}",
    ]
    if s["lm_calls"]:
        cost = "cost unknown" if s["usd"] is None else f"{s['usd']:.4f} USD"
        lines.append(
            f"  language model      {s['lm_calls']} calls, {s['tokens']['input']} tokens in, "
            f"{s['tokens']['output']} out, {cost}; seconds per call p50 "
            f"{number_text(s['lm_seconds']['p50'])}, p90 {number_text(s['lm_seconds']['p90'])}"
        )
    lines.append("  actions by step")
    lines += [f"    {k:2d}  {counts_text(c)}" for k, c in enumerate(s["actions_by_step"], start=1)]
    lines.append("  by year of the source")
    lines += [f"    {year}  {percent(rate)}" for year, rate in s["by_year"].items()]
    return "\n".join(lines)


def percent(rate: Mapping[str, Any]) -> str:
    """As "k/n = p % [low, high]" with Wilson's 95 % interval, or "none" for n = 0."""
    if not rate["n"]:
        return "none"
    return (
        f"{rate['k']}/{rate['n']} = {100 * rate['rate']:.1f} % "
        f"[{100 * rate['low']:.1f}, {100 * rate['high']:.1f}]"
    )


def table(named: Mapping[str, Mapping[str, Any]]) -> str:
    """One line per run: accuracy with interval, strict accuracy, found, seconds."""
    lines = [
        f"{'agent':<18}{'correct':>9}{'accuracy % [95 % interval]':>28}{'strict %':>10}"
        f"{'found %':>9}{'actions':>9}{'ms':>8}"
    ]
    for name, s in named.items():
        rate = s["accuracy"]
        found = s["found_in_search"]["rate"]
        actions = sum(sum(c.values()) for c in s["actions_by_step"]) / max(rate["n"], 1)
        interval = f"{100 * rate['rate']:.1f} [{100 * rate['low']:.1f}, {100 * rate['high']:.1f}]"
        correct = f"{rate['k']}/{rate['n']}"
        lines.append(
            f"{name:<18}{correct:>9}{interval:>28}{100 * s['strict_accuracy']['rate']:>10.1f}"
            f"{'-' if found is None else f'{100 * found:.1f}':>9}{actions:>9.1f}"
            f"{1000 * s['seconds']['p50']:>8.1f}"
        )
    return "\n".join(lines)


def histogram(by_step: Mapping[str, Sequence[Mapping[str, int]]], path: Path, title: str) -> None:
    """Draw for each named run how many samples took which action at which step (CiteME fig. 5)."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(
        1, len(by_step), figsize=(max(4.0, 2.6 * len(by_step)), 3.2), sharey=True, squeeze=False
    )
    used = [a for a in ACTIONS if any(a in c for steps in by_step.values() for c in steps)]
    for axis, (name, steps) in zip(axes[0], by_step.items(), strict=True):
        bottom = [0] * len(steps)
        for action, colour in zip(ACTIONS, COLOURS, strict=True):
            heights = [counts.get(action, 0) for counts in steps]
            if action in used:
                label = action.replace("_", " ")
                axis.bar(
                    range(1, len(steps) + 1), heights, bottom=bottom, color=colour, label=label
                )
                bottom = [b + h for b, h in zip(bottom, heights, strict=True)]
        axis.set_title(name, fontsize=9)
        axis.set_xlabel("step")
        axis.set_xticks(range(1, max(len(steps), 1) + 1))
        axis.spines[["top", "right"]].set_visible(False)
    axes[0][0].set_ylabel("samples")
    figure.suptitle(title, fontsize=10)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=len(used) or 1, frameon=False)
    figure.tight_layout(rect=(0, 0.08, 1, 1))
    with written(path, "or give the picture another place."):
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as partial:
            figure.savefig(partial, dpi=150, format=path.suffix[1:] or "png")
    plt.close(figure)


def counts_text(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"


def number_text(value: float | None) -> str:
    return "none" if value is None else f"{value:.3g}"
