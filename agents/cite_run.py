"""`holdfast cite run`: run an agent over a data set."""

import contextlib
import re
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path
from typing import get_args

from .. import HoldfastError
from . import cite_options as options
from .actions import Commands
from .baselines import BASELINES, baseline
from .cite_options import say
from .episode import READ_CHARS, Agent, Budget
from .records import Record
from .run import run
from .search import PROVIDERS
from .search.provider import SearchProvider
from .search.recorded import RecordedSearch
from .world import World

_PROMPTS = ("dspy", "json", "citeme")


def add_options(parser: ArgumentParser) -> None:
    """Add the options of the command, and its action."""
    parser.set_defaults(action=_run)
    options.add_data(parser)
    options.add_out(parser, "result file (.jsonl)")
    agents = ("citeagent", *BASELINES)
    options.add(parser, "--agent", "citeagent needs --model", default="citeagent", choices=agents)
    options.add(parser, "--workers", "parallel samples", options.positive, 4)
    options.add(parser, "--repeats", "answers per sample", options.positive, 1)
    options.add_limits(parser, "Those of the run include the costs that are already in its file.")
    options.add_model(parser)
    program = parser.add_argument_group("program")
    forms = "prompt and replies: DSPy's fields, JSON, or as in CiteME's paper"
    options.add(program, "--prompt", forms, default="dspy", choices=_PROMPTS)
    clone = "clone of CiteME's repository, whose prompts are used (--prompt citeme)"
    options.add(program, "--prompts", clone, Path, metavar="CLONE")
    actions = get_args(Commands)
    options.add(
        program, "--commands", "actions of the agent", default="search+read", choices=actions
    )
    options.add(program, "--program", "an optimised prompt, from `holdfast cite optimise`", Path)
    example = "show the model a worked example"
    program.add_argument("--demonstration", action="store_true", help=example)
    shown = "characters shown per read (default: 12000; all with --prompt citeme)"
    options.add(program, "--read-chars", shown, options.positive)
    search = options.add_search(parser, PROVIDERS)
    cap = "leave out papers after the excerpt's date, after an earlier date given here, or none"
    search.add_argument(
        "--date-cap",
        nargs="?",
        type=date_cap,
        const="excerpt",
        default="excerpt",
        metavar="{excerpt,none,DATE}",
        help=f"{cap} (default: excerpt)",
    )
    worlds = search.add_mutually_exclusive_group()
    record = (
        "record all searches, texts and replies in a file; what it contains is not requested again"
    )
    options.add(worlds, "--world", record, Path)
    options.add(worlds, "--replay", "answer all requests from such a file, offline", Path)


def date_cap(text: str) -> str:
    """ "excerpt", "none", a year, or a date, for argparse."""
    if text in ("excerpt", "none") or re.fullmatch(r"(19|20)\d\d(-\d\d-\d\d)?", text):
        return text
    raise ArgumentTypeError(f"{text!r} is not excerpt, none, a year, or a date as 2024-06-30")


def _run(args: Namespace) -> int:
    dataset = options.read_dataset(args)
    with contextlib.ExitStack() as stack:
        world = None
        if args.world or args.replay:
            world = World(args.world or args.replay, is_replay=bool(args.replay))
            stack.callback(world.close)
        agent, provider = _agent_and_provider(args, world)
        say(dataset.describe())
        read_chars = args.read_chars or (None if args.prompt == "citeme" else READ_CHARS)
        try:
            counts = run(
                dataset,
                agent,
                provider,
                args.out,
                budget=Budget(args.results, args.max_actions, read_chars, args.date_cap),
                workers=args.workers,
                repeats=args.repeats,
                run_limit=options.read_limits(args),
                world=world,
                progress=_print_progress,
            )
        except KeyboardInterrupt:
            print("\nStopped. Rerun the same command to continue.", file=sys.stderr)
            return 130
    print(", ".join(f"{status} {count}" for status, count in sorted(counts.items())))
    if args.replay:
        print(f"Replayed from {args.replay}: no request was sent, and nothing was spent.")
    if set(counts) == {"bad_format"}:
        print(
            f"The model does not follow --prompt {args.prompt}: no reply was usable. Try another --prompt, "
            "more --max-tokens if replies were cut off, or a larger model. `holdfast cite show "
            f"{args.out} SAMPLE` shows its replies."
        )
    if unanswered := counts.get("provider_error", 0) + counts.get("crash", 0):
        print(f"{unanswered} samples ended in errors; rerun the same command to repeat them.")
        return 1
    print(f"Next: holdfast cite score {args.out}")
    return 0


def _agent_and_provider(args: Namespace, world: World | None) -> tuple[Agent, SearchProvider]:
    """The agent and its search; raises `HoldfastError` for options that do not go together."""
    if args.agent != "citeagent":
        if args.search != "local":
            raise HoldfastError(
                f"The agent {args.agent} ranks a whole corpus. Use it with --search local."
            )
        if world:
            raise HoldfastError(
                f"The agent {args.agent} sends no requests. Omit --world and --replay."
            )
        return baseline(args.agent, str(args.corpus))
    if args.prompts and args.prompt != "citeme":
        raise HoldfastError("--prompts applies only to CiteME's form. Use it with --prompt citeme.")
    if args.commands == "citeguard" and args.prompt == "citeme":
        raise HoldfastError(
            "CiteGuard's actions have no form in CiteME's paper. Use --prompt dspy or json."
        )
    if args.program and (args.prompt == "citeme" or args.demonstration):
        raise HoldfastError(
            "--program brings its examples. Omit --demonstration, and use the --prompt of the program, "
            "dspy or json."
        )
    lm = options.open_model(args, world)
    provider = None if args.replay else PROVIDERS[args.search](**vars(args))
    search = RecordedSearch(provider, world) if world else provider
    assert search is not None
    if args.prompt == "citeme":
        from .citeme import CiteMEAgent  # deferred, as CiteAgent: imports dspy

        return CiteMEAgent(lm, args.commands, args.demonstration, args.prompts), search
    from .program import CiteAgent

    agent = CiteAgent(lm, args.commands, args.demonstration, args.prompt)
    if args.program:
        agent.load_program(args.program)
    return agent, search


def _print_progress(number: int, total: int, record: Record) -> None:
    """Print one line per finished sample; for a crash, the last line of its traceback."""
    lines = record.detail.strip().splitlines() or [""]
    why = lines[-1 if record.status == "crash" else 0][:200]
    line = f"[{number}/{total}] {record.sample}: {record.status} ({record.seconds:.1f} s)"
    say(f"{line} {why}".rstrip())
