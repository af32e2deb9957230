"""`holdfast cite show`: a sample's trajectory as text."""

import textwrap
from argparse import ArgumentParser, Namespace
from pathlib import Path

from .. import HoldfastError
from . import cite_options as options
from .cite_options import say
from .data import Sample
from .limits import tokens_of, usd_of
from .records import Record
from .score import judge, judged
from .trajectory import KINDS, Turn, turns

_WIDTH = 100
_SEEN = 600  # maximum characters printed of a text shown to the agent


def add_options(parser: ArgumentParser) -> None:
    """Add the options of the command, and its action."""
    parser.set_defaults(action=_show)
    parser.add_argument("run", type=Path, help="result file of `holdfast cite run`")
    parser.add_argument("sample", nargs="?", help="its id; without one, all samples are listed")
    options.add(parser, "--repeat", "number of the answer, from 0", options.natural, 0)
    parser.add_argument("--full", action="store_true", help="show all hits and complete texts")
    options.add_run_data(parser)


def _show(args: Namespace) -> None:
    _, records, dataset = options.read_run(args, args.run)
    rows = judged(records, dataset)
    if args.sample is None:
        say(rows[["sample", "repeat", "outcome"]].to_string(index=False))
        return
    samples = {s.id: s for s in dataset.samples}
    record = records.get((args.sample, args.repeat))
    if record is None or args.sample not in samples:
        raise HoldfastError(
            f"{args.run} has no sample {args.sample!r}, repeat {args.repeat}. List its {len(rows)} answers "
            f"with `holdfast cite show {args.run}`."
        )
    say(of_sample(record, samples[args.sample], args.full))


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
        *_labelled("excerpt", sample.excerpt),
        *_labelled("source", f"{sample.source_title} ({sample.date or 'no date'})"),
    ]
    for title in sample.titles:
        lines += _labelled("target", title)
    for turn in turns(record, sample):
        lines += ["", *_turn_lines(turn, full)]
    lines += ["", *_labelled("answer", record.selection.title if record.selection else "none")]
    kind, detail = row["failure"], record.detail.strip()
    if reason := f"{kind}: {KINDS[kind]}." if kind else detail:
        lines += _labelled("", reason)
    return "\n".join(lines)


def _turn_lines(turn: Turn, full: bool) -> list[str]:
    """One turn as lines of text."""
    number = f"{turn.step:2d}"
    lines = _labelled(number, turn.reason or "(no reason given)") if turn.replies else []
    if turn.action:
        taken = f"{turn.action.upper()} {turn.argument}  ({turn.seconds:.1f} s)"
        lines += _labelled("" if lines else number, taken)
    else:
        for reply in turn.replies:
            lines += _labelled("", f"unusable reply: {_shortened(reply, full)}")
    if turn.error:
        lines += _labelled("", f"error: {turn.error}")
    for rank, (hit, is_target) in enumerate(turn.hits, start=1):
        mark = "  <== the target" if is_target else ""
        if full or rank <= 5 or mark:
            lines += _labelled("", f"{rank:2d}. {hit.title} [{hit.id}]{mark}")
    if turn.action == "read" and turn.seen and not turn.error:
        lines += _labelled("", f"| {_shortened(turn.seen, full)}")
    return lines


def _labelled(label: str, words: str) -> list[str]:
    """Words wrapped after a label in the margin."""
    body = [line for part in words.split("\n") for line in textwrap.wrap(part, _WIDTH - 10) or [""]]
    return [f"{label if k == 0 else '':<8}  {line}".rstrip() for k, line in enumerate(body)]


def _shortened(words: str, full: bool) -> str:
    """The text, truncated to 600 characters with the number of omitted ones unless `full`."""
    if full or len(words) <= _SEEN:
        return words
    return f"{words[:_SEEN]} ... ({len(words) - _SEEN:,} more characters: --full)"
