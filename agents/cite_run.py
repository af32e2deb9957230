"""The commands of `holdfast cite` that run agents: run, demo and optimize."""

import sys
import time
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from .. import HoldfastError, in_range
from .baselines import BASELINES, baseline
from .cite_results import dataset_in, say
from .data import MINI_CITE_CORPUS, load
from .episode import Agent, Episode
from .records import Record
from .result_file import read
from .search import PROVIDERS
from .search.provider import SearchProvider

if TYPE_CHECKING:
    import dspy

# The options whose defaults depend on --prompt, with these defaults.
OURS: dict[str, Any] = {"read_chars": 12_000, "repairs": 1, "field": None}
PROMPTS = {
    "dspy": OURS,
    "json": OURS,
    "citeme": {"read_chars": "all", "repairs": 0, "field": "Computer Science"},
}


def run_agent(args: Namespace) -> int:
    """Run an agent over a data set; the same command resumes the run."""
    from .limits import Allowance
    from .run import run

    with_defaults(args)
    dataset = dataset_in(args)
    agent, provider = agent_and_provider(args)
    limits = {"usd": args.sample_usd, "tokens": args.sample_tokens, "seconds": args.sample_seconds}
    say(dataset.describe())
    try:
        counts = run(
            dataset,
            agent,
            provider,
            args.out,
            workers=args.workers,
            repeats=args.repeats,
            sample_limits={name: limit for name, limit in limits.items() if limit is not None},
            run_limit=Allowance(
                args.max_usd, args.max_run_tokens, args.max_seconds, args.usd_per_million
            ),
            prices=args.usd_per_million,
            progress=print_progress,
            **episode_settings(args),
        )
    except KeyboardInterrupt:
        there = len(read(args.out)[1]) if args.out.exists() else 0
        stopped = f"Stopped with {there} samples in {args.out}"
        print(f"\n{stopped}; rerun the same command for the others.", file=sys.stderr)
        return 130
    print(", ".join(f"{status} {count}" for status, count in sorted(counts.items())))
    if set(counts) == {"bad_format"}:
        print(
            f"The model does not follow --prompt {args.prompt}: no reply was usable. Try another --prompt, "
            "more --repairs, more --max-tokens if replies were cut off, or a larger model. `holdfast cite "
            f"show {args.out} SAMPLE` shows its replies."
        )
    if unanswered := counts.get("provider_error", 0) + counts.get("crash", 0):
        print(f"{unanswered} samples ended in errors; rerun the same command to repeat them.")
        return 1
    print(f"Next: holdfast cite score {args.out}")
    return 0


def print_progress(number: int, total: int, record: Record) -> None:
    """Print one line per finished sample; for a crash, the last line of its traceback."""
    lines = record.detail.strip().splitlines() or [""]
    why = lines[-1 if record.status == "crash" else 0][:200]
    line = f"[{number}/{total}] {record.sample}: {record.status} ({record.seconds:.1f} s)"
    say(f"{line} {why}".rstrip())


def with_defaults(args: Namespace) -> None:
    """Fill in the defaults of the options that depend on --prompt."""
    for name, value in PROMPTS[args.prompt].items():
        if getattr(args, name) is None:
            setattr(args, name, value)
    in_range(0, repairs=args.repairs)


def episode_settings(args: Namespace) -> dict[str, Any]:
    """The arguments of `Episode` that the options specify."""
    read_budget = None if args.read_chars == "all" else args.read_chars
    budget = {"results": args.results, "max_actions": args.max_actions}
    return {**budget, "read_budget": read_budget}


def agent_and_provider(args: Namespace) -> tuple[Agent, SearchProvider]:
    """The agent and its search; raises `HoldfastError` for options that do not go together."""
    if args.agent != "citeagent":
        if args.search != "local":
            raise HoldfastError(
                f"The agent {args.agent} ranks a whole corpus. Use it with --search local."
            )
        return baseline(args.agent, str(args.corpus))
    if args.prompts and args.prompt != "citeme":
        raise HoldfastError("--prompts applies only to CiteME's form. Use it with --prompt citeme.")
    if args.program and args.prompt == "citeme":
        raise HoldfastError("--program is a DSPy program. Omit it, or use --prompt dspy.")
    lm = language_model(args)
    provider = PROVIDERS[args.search](**vars(args))
    if args.prompt == "citeme":
        from .citeme import CiteMEAgent

        form = {"prompt_folder": args.prompts, "repairs": args.repairs}
        return CiteMEAgent(lm, args.commands, args.demonstration, **form), provider
    from .program import CiteAgent, LMAgent, load_program

    program = CiteAgent(args.commands, args.demonstration, args.repairs)
    digest = load_program(program, args.program) if args.program else None
    return LMAgent(program, lm, digest, args.prompt), provider


def language_model(args: Namespace) -> "dspy.LM":
    """The language model of the options; raises `HoldfastError` without --model."""
    if not args.model:
        raise HoldfastError(
            "--model is missing. Pass a language model (with --api-base for your own server), or an agent "
            "without one, such as --agent rules."
        )
    from .lm import language_model

    return language_model(
        args.model,
        api_base=args.api_base,
        temperature=args.temperature,
        max_tokens=args.max_tokens,
        timeout=args.lm_timeout,
        tries=args.tries,
        cache=args.cache,
    )


def demo(args: Namespace) -> None:
    """Run every agent without a language model on mini-cite, offline."""
    from .compare import compare
    from .run import run
    from .score import score
    from .summary import table

    start = time.monotonic()
    dataset = load("mini-cite").select("test")
    print(dataset.describe())
    print(
        "mini-cite is a small dataset of Holdfast: its scores are not CiteME scores. Without a language"
    )
    print("model or network, agents search a file of papers by BM25, TF-IDF or at random.\n")
    scores, records = {}, {}
    for name in BASELINES:
        agent, search = baseline(name, str(MINI_CITE_CORPUS))
        path = args.out / f"{name}.jsonl"
        path.unlink(missing_ok=True)
        run(dataset, agent, search, path)
        records[name] = read(path)[1]
        scores[name] = score(records[name], dataset)
    print(table(scores))
    paired = compare(records["rules"], records["bm25"], dataset)
    print(
        f"\nrules against bm25, paired: {paired['only_a']} right only by the first, "
        f"{paired['only_b']} only by the second, exact McNemar p = {paired['p']:.3f}\n"
    )
    print(f"Wrote the result files to {args.out}; {time.monotonic() - start:.1f} s in all.")
    print(f"Next: holdfast cite score {args.out / 'rules.jsonl'}")


def compile_program(args: Namespace) -> None:
    """Compile the agent's program on the train split (DSPy)."""
    with_defaults(args)
    dataset = dataset_in(args)
    print(dataset.describe())
    lm, provider = language_model(args), PROVIDERS[args.search](**vars(args))
    from .optimize import optimize
    from .program import CiteAgent

    program = CiteAgent(args.commands, args.demonstration, args.repairs)
    settings = episode_settings(args)
    start = lambda sample: Episode(sample, provider, **settings)  # noqa: E731
    print(optimize(program, dataset, lm, start, args.out, steps=args.steps))
