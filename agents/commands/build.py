"""From command-line options to an agent and its search; DSPy is imported only where it is used."""

from argparse import Namespace
from typing import TYPE_CHECKING, Any, NamedTuple

from ... import HoldfastError, in_range
from ...redaction import keep_secret
from ..cassette import Cassette
from ..limits import Retry
from ..protocol import Agent, SearchProvider
from ..search.open_search import PROVIDERS

if TYPE_CHECKING:
    from ..lm.metered import MeteredLM


class Defaults(NamedTuple):
    """What a form of the agent has unless options say otherwise."""

    read_chars: int | str = 12_000
    repairs: int = 1
    field: str | None = None


PROMPTS = {"dspy": Defaults(), "json": Defaults(), "plain": Defaults()}
PROMPTS["citeme"] = Defaults("all", 0, "Computer Science")


def with_defaults(args: Namespace) -> Namespace:
    """The options, with those that depend on --prompt filled in."""
    for name, value in PROMPTS[getattr(args, "prompt", "dspy")]._asdict().items():
        if getattr(args, name) is None:
            setattr(args, name, value)
    in_range(0, repairs=args.repairs)
    return args


def episode_settings(args: Namespace) -> dict[str, Any]:
    """What an `Episode` takes from the options."""
    read_budget = None if args.read_chars == "all" else args.read_chars
    budget = {"results": args.results, "max_actions": args.max_actions}
    return {**budget, "read_budget": read_budget}


def agent_and_provider(args: Namespace) -> tuple[Agent, SearchProvider]:
    """What `holdfast cite run` was asked for."""
    if args.agent != "citeagent":
        if args.search != "local":
            raise HoldfastError(
                f"The agent {args.agent} ranks a whole corpus. Use it with --search local."
            )
        from ..baselines import baseline

        return baseline(args.agent, str(args.corpus))
    lm, provider = services(args)
    return lm_agent(args, lm), provider


def lm_agent(args: Namespace, lm: "MeteredLM") -> Agent:
    """CiteAgent as its paper has it, or as a DSPy program with replies in the form of --prompt."""
    if args.prompt == "citeme":
        from ..citeagent.citeme import CiteMEAgent

        if args.program:
            raise HoldfastError("--program is a DSPy program. Omit it, or use --prompt dspy.")
        return CiteMEAgent(
            lm,
            args.commands,
            args.demonstration,
            prompt_folder=args.prompts,
            repairs=args.repairs,
            structured=args.structured,
        )
    from ..citeagent.agent import LMAgent
    from ..citeagent.program import CiteAgent, load_program

    if args.prompts:
        raise HoldfastError("--prompts holds CiteME's prompts. Use it with --prompt citeme.")
    if args.structured and args.prompt != "json":
        raise HoldfastError("--structured is for replies in JSON. Use --prompt json or citeme.")
    program, digest = CiteAgent(args.commands, args.demonstration, args.repairs), None
    if args.program:
        digest = load_program(program, args.program)
    return LMAgent(program, lm, digest, form=args.prompt, structured=args.structured)


def services(args: Namespace) -> "tuple[MeteredLM, SearchProvider]":
    """The language model and the search provider that the options name, with one recording."""
    cassette = cassette_of(args)
    return language_model(args, cassette), PROVIDERS[args.search](**vars(args), cassette=cassette)


def cassette_of(args: Namespace) -> Cassette | None:
    """The recording to make or to replay, if any."""
    if args.record:
        return Cassette(args.record, "record")
    return Cassette(args.replay, "replay") if args.replay else None


def language_model(args: Namespace, cassette: Cassette | None) -> "MeteredLM":
    """The language model that the options name."""
    if not args.model:
        raise HoldfastError(
            "No language model is named. Pass --model (and --api-base for a custom server), or an "
            "agent without one, such as --agent rules."
        )
    from ..lm.providers import endpoint

    if args.api_base:
        keep_secret(args.api_base)
    return endpoint(
        args.model,
        api_base=args.api_base,
        temperature=args.temperature,
        max_tokens=args.max_tokens,
        timeout=args.lm_timeout,
        per_second=args.lm_per_second,
        retry=Retry(attempts=args.tries),
        cassette=cassette,
    )
