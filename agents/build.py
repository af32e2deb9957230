"""From command-line options to an agent and its search; DSPy is imported only where it is used."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from .. import HoldfastError
from .cassette import Cassette
from .data import Dataset
from .episode import Agent
from .limits import RateLimiter, Retry
from .search import SearchProvider

if TYPE_CHECKING:
    from .lm import MeteredLM


def agent_and_provider(args: Namespace) -> tuple[Agent, SearchProvider]:
    """Return what `holdfast cite run` was asked for."""
    if args.agent != "citeagent":
        if args.search != "local":
            raise HoldfastError(
                f"The agent {args.agent} ranks a whole corpus; use it with --search local."
            )
        from .baselines import baseline

        return baseline(args.agent, str(args.corpus))
    tape = _cassette(args)
    lm = _language_model(args, tape)
    from .program import CiteAgent, LMAgent, load_program

    if args.program:
        program, digest = load_program(args.program, args.commands, args.demonstration)
        return LMAgent(program, lm, digest), _provider(args, tape)
    return LMAgent(CiteAgent(args.commands, args.demonstration), lm), _provider(args, tape)


def optimize_program(args: Namespace, dataset: Dataset) -> str:
    """Compile the program on `dataset`, write it to `args.out` and return a line about it."""
    tape = _cassette(args)
    lm = _language_model(args, tape)
    from .episode import Episode
    from .optimize import optimize
    from .program import CiteAgent

    provider = _provider(args, tape)

    def episode(sample):  # type: ignore[no-untyped-def]
        return Episode(
            sample,
            provider,
            results=args.results,
            max_actions=args.max_actions,
            read_budget=args.read_chars,
        )

    program = CiteAgent(args.commands, args.demonstration)
    return optimize(program, dataset, lm, episode, args.out, steps=args.steps)


def _cassette(args: Namespace) -> Cassette | None:
    if args.record:
        return Cassette(args.record, "record")
    return Cassette(args.replay, "replay") if args.replay else None


def _language_model(args: Namespace, tape: Cassette | None) -> MeteredLM:
    if not args.model:
        raise HoldfastError(
            "Name a language model with --model (and --api-base for a server of your own), or an "
            "agent without one, such as --agent rules."
        )
    from .lm import endpoint

    return endpoint(
        args.model,
        api_base=args.api_base,
        temperature=args.temperature,
        max_tokens=args.max_tokens,
        timeout=args.lm_timeout,
        per_second=args.lm_per_second,
        retry=Retry(attempts=args.tries),
        cassette=tape,
    )


def _provider(args: Namespace, tape: Cassette | None) -> SearchProvider:
    if args.search == "local":
        from .local_search import LocalSearch

        return LocalSearch(args.corpus)
    from .fetch import Fetcher
    from .semantic_scholar import API, KEYS, SemanticScholar

    if not args.s2_api and not args.replay and not any(os.environ.get(k) for k in KEYS):
        print(
            f"No {KEYS[0]} in the environment: searches share a public pool, which is often full.",
            file=sys.stderr,
        )
    return SemanticScholar(
        args.s2_api or API,
        per_second=args.s2_per_second,
        retry=Retry(attempts=args.tries),
        fetcher=Fetcher(
            allow_private=args.allow_private,
            limiter=RateLimiter(args.s2_per_second),
            cassette=tape,
        ),
        cassette=tape,
        cache=args.cache or _cache_folder(),
    )


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "holdfast" / "papers"
