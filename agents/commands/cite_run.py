"""`holdfast cite run`: run an agent over a data set; the same command resumes."""

import argparse
import sys
from pathlib import Path

from ..baselines import BASELINES
from ..costs import Allowance
from ..results import read
from ..run import run
from ..schema import Record
from .build import PROMPTS, agent_and_provider, episode_settings, with_defaults
from .options import (
    agent_options,
    at_least_one,
    chosen_dataset,
    command_parser,
    data_options,
    out_option,
    price_option,
    prices_of,
)


def main(argv: list[str]) -> int:
    """Run what is not yet in the result file; 1 if services left samples without an answer."""
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
        stopped = f"\nStopped with {there} samples in {args.out}; the same command runs the rest."
        print(stopped, file=sys.stderr)
        return 130
    print(", ".join(f"{status} {count}" for status, count in sorted(counts.items())))
    if set(counts) == {"bad_format"}:
        print(advice(args))
    unanswered = counts.get("provider_error", 0) + counts.get("crash", 0)
    if unanswered:
        print(f"{unanswered} samples were not answered; the same command tries them again.")
        return 1
    print(f"Next: holdfast cite score {args.out}")
    return 0


def parser() -> argparse.ArgumentParser:
    parser = command_parser("run", __doc__, "--agent bm25 --out runs/bm25.jsonl")
    data_options(parser)
    out_option(parser)
    parser.add_argument("--agent", choices=("citeagent", *BASELINES), default="citeagent")
    parser.add_argument(
        "--workers", type=at_least_one, default=4, metavar="N", help="samples at once"
    )
    parser.add_argument("--repeats", type=at_least_one, default=1, metavar="N")
    parser.add_argument(
        "--prompt",
        choices=PROMPTS,
        default="dspy",
        help="ours as a DSPy program with replies in DSPy's fields, in JSON, or in plain lines for small "
        "models; or CiteME's, in its paper's settings (dspy)",
    )
    schema = "have the server hold replies to their JSON schema (--prompt json or citeme)"
    parser.add_argument("--structured", action="store_true", help=schema)
    parser.add_argument(
        "--prompts", type=Path, metavar="FOLDER", help="prompt_templates of CiteME's repository"
    )
    limits = parser.add_argument_group("limits (the run's include what its file has cost so far)")
    limits.add_argument("--max-usd", type=float, metavar="X", help="of the run")
    limits.add_argument("--max-run-tokens", type=int, metavar="N", help="of the run")
    limits.add_argument("--max-seconds", type=float, metavar="S", help="of this command")
    limits.add_argument("--sample-usd", type=float, metavar="X")
    limits.add_argument("--sample-tokens", type=int, metavar="N")
    limits.add_argument("--sample-seconds", type=float, metavar="S")
    price_option(limits)
    agent_options(parser)
    return parser


def print_progress(number: int, total: int, record: Record) -> None:
    """Print a line about a sample that ended; for a crash, the last line of its traceback."""
    lines = record.detail.strip().splitlines() or [""]
    why = lines[-1 if record.status == "crash" else 0][:200]
    line = f"[{number}/{total}] {record.sample}: {record.status} ({record.seconds:.1f} s)"
    print(f"{line} {why}".rstrip(), flush=True)


def advice(args: argparse.Namespace) -> str:
    """What to try where no reply could be used."""
    schema = "--prompt json --structured, where the server can hold replies to a schema"
    other = ["--prompt plain, the shortest form"] if args.prompt != "plain" else []
    other += [] if args.structured else [schema]
    other += ["more --repairs", "more --max-tokens if replies were cut off", "a larger model"]
    return (
        f"The model does not follow the form of --prompt {args.prompt}: no reply could be used. Try "
        f"{'; '.join(other)}. `holdfast cite show {args.out} SAMPLE` shows its replies."
    )
