"""A sample's trajectory as text, for the terminal."""

import textwrap
from typing import Any

from ..costs import tokens_of, usd_of
from ..data import Sample
from ..schema import Record
from ..score import judge
from ..trajectory import KINDS, Turn, failure, turns

WIDTH = 100
READING = ("read", "find_in_text", "ask_for_more_context")
SEEN = 600  # maximum characters printed of a text shown to the agent


def story(record: Record, sample: Sample) -> dict[str, Any]:
    """The parts of a displayed record: the sample, its status and reason, the turns, the answer."""
    row = judge(record, sample)
    tokens, usd = tokens_of(row.calls), usd_of(row.calls, None)
    parts = [row.outcome, f"{len(row.actions)} actions", f"{record.seconds:.1f} s"]
    if row.calls:
        parts.append(f"{len(row.calls)} calls")
        parts.append(f"{tokens['input']:,} + {tokens['output']:,} tokens")
    parts += [f"{usd:.4f} USD"] if usd is not None else []
    parts += [f"{row.repairs} repaired"] if row.repairs else []
    verdict = record.detail.strip()
    if row.outcome == "wrong" and row.searched:
        kind = failure(record, sample)
        verdict = f"{kind}: {KINDS[kind]}."
    return {
        "sample": sample,
        "headline": ", ".join(parts),
        "turns": turns(record, sample),
        "answer": record.selection.title if record.selection else "none",
        "verdict": verdict,
    }


def text(record: Record, sample: Sample, full: bool = False) -> str:
    """The whole trajectory; `full` shows all hits and complete texts."""
    shown = story(record, sample)
    repeat = f", repeat {record.repeat}" if record.repeat else ""
    lines = [
        f"{sample.id}{repeat}: {shown['headline']}",
        *labelled("excerpt", sample.excerpt),
        *labelled("source", f"{sample.source_title} ({sample.date or 'no date'})"),
    ]
    for title in sample.titles:
        lines += labelled("target", title)
    for turn in shown["turns"]:
        lines += ["", *of_turn(turn, full)]
    lines += ["", *labelled("answer", shown["answer"])]
    return "\n".join(lines + (labelled("", shown["verdict"]) if shown["verdict"] else []))


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
    if turn.action in READING and turn.seen and not turn.error:
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
