"""`holdfast cite run`: run an agent over a data set; the same command resumes the run."""

import argparse
import sys
from pathlib import Path

from ..baselines import BASELINES
from ..costs import Allowance
from ..results import read
from ..run import run
from ..schema import Record
from .build import PROMPTS, agent_and_provider, episode_settings, with_defaults
from .options import CiteParser, at_least_one, chosen_dataset, prices_of


def main(argv: list[str]) -> int:
    """Run the missing samples; the exit status is 1 if provider errors or crashes remain."""
    args = with_defaults(parser().parse_args(argv))
    dataset = chosen_dataset(args)
    agent, provider = agent_and_provider(args)
    prices = prices_of(args)
    limits = {"usd": args.sample_usd, "tokens": args.sample_tokens, "seconds": args.sample_seconds}
    print(dataset.describe())
    try:
        counts = run(
            dataset,
            agent,
            provider,
            args.out,
            workers=args.workers,
            repeats=args.repeats,
            sample_limits={name: limit for name, limit in limits.items() if limit is not None},
            run_limit=Allowance(args.max_usd, args.max_run_tokens, args.max_seconds, prices),
            prices=prices,
            progress=print_progress,
            **episode_settings(args),
        )
    except KeyboardInterrupt:
        there = len(read(args.out)[1]) if args.out.exists() else 0
        stopped = (
            f"\nStopped with {there} samples in {args.out}; rerun the same command for the others."
        )
        print(stopped, file=sys.stderr)
        return 130
    print(", ".join(f"{status} {count}" for status, count in sorted(counts.items())))
    if set(counts) == {"bad_format"}:
        print(advice(args))
    unanswered = counts.get("provider_error", 0) + counts.get("crash", 0)
    if unanswered:
        print(f"{unanswered} samples ended in errors; rerun the same command to repeat them.")
        return 1
    print(f"Next: holdfast cite score {args.out}")
    return 0


def parser() -> CiteParser:
    parser = CiteParser("run", __doc__, "--agent bm25 --out runs/bm25.jsonl")
    parser.data()
    parser.out()
    which = "agent to run (default: citeagent, which needs --model)"
    parser.add("--agent", choices=("citeagent", *BASELINES), default="citeagent", help=which)
    parallel = "number of samples to run in parallel (default: 4)"
    parser.add("--workers", type=at_least_one, default=4, metavar="N", help=parallel)
    answers = "answers per sample (default: 1)"
    parser.add("--repeats", type=at_least_one, default=1, metavar="N", help=answers)
    forms = (
        "form of the prompt and of replies: DSPy's fields, JSON, plain lines for small models, or the "
        "form and settings of CiteME's paper (default: dspy)"
    )
    parser.add("--prompt", choices=PROMPTS, default="dspy", help=forms)
    schema = "have the server enforce a JSON schema on replies (--prompt json or citeme)"
    parser.flag("--structured", schema)
    folder = "the folder prompt_templates of CiteME's repository (--prompt citeme)"
    parser.add("--prompts", type=Path, metavar="FOLDER", help=folder)
    parser.prices()
    group = "limits (those of the run include the costs already in its file)"
    add = parser.add_argument_group(group).add_argument
    add("--max-usd", type=float, metavar="X", help="maximum US dollars of the run")
    add("--max-run-tokens", type=int, metavar="N", help="maximum tokens of the run")
    add("--max-seconds", type=float, metavar="S", help="maximum seconds of this command")
    add("--sample-usd", type=float, metavar="X", help="maximum US dollars per sample")
    add("--sample-tokens", type=int, metavar="N", help="maximum tokens per sample")
    add("--sample-seconds", type=float, metavar="S", help="maximum seconds per sample")
    parser.agent()
    return parser


def print_progress(number: int, total: int, record: Record) -> None:
    """Print one line per finished sample; for a crash, the last line of its traceback."""
    lines = record.detail.strip().splitlines() or [""]
    why = lines[-1 if record.status == "crash" else 0][:200]
    line = f"[{number}/{total}] {record.sample}: {record.status} ({record.seconds:.1f} s)"
    print(f"{line} {why}".rstrip(), flush=True)


def advice(args: argparse.Namespace) -> str:
    """Suggestions for a model with no usable reply."""
    tips = ["--prompt plain, the shortest form"] if args.prompt != "plain" else []
    if not args.structured:
        tips.append("--prompt json --structured, if the server can enforce a schema")
    tips += ["more --repairs", "more --max-tokens if replies were cut off", "a larger model"]
    return (
        f"The model does not follow --prompt {args.prompt}: no reply was usable. Try "
        f"{'; '.join(tips)}. `holdfast cite show {args.out} SAMPLE` shows its replies."
    )
