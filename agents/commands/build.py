"""From command-line options to an agent and its search; DSPy is imported only where it is used."""

from argparse import Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ... import HoldfastError, in_range
from ...redaction import keep_secret
from ..cassette import Cassette
from ..limits import Retry
from ..protocol import Agent, SearchProvider
from ..search.providers import PROVIDERS

if TYPE_CHECKING:
    from ..lm.metered import MeteredLM


def agent_and_provider(args: Namespace) -> tuple[Agent, SearchProvider]:
    """What `holdfast cite run` was asked for."""
    if args.agent != "citeagent":
        if args.search != "local":
            raise HoldfastError(
                f"the agent {args.agent} ranks a whole corpus: use it with --search local."
            )
        from ..baselines import baseline

        return baseline(args.agent, str(args.corpus))
    cassette = cassette_of(args)
    lm = language_model(args, cassette)
    return PROMPTS[args.prompt].agent(args, lm), provider_of(args, cassette)


def dspy_agent(args: Namespace, lm: "MeteredLM") -> Agent:
    """CiteAgent as a DSPy program, compiled or not, with replies in the form that --prompt names."""
    from ..citeagent.agent import LMAgent
    from ..citeagent.program import CiteAgent, load_program

    if args.prompts:
        raise HoldfastError("--prompts holds CiteME's prompts: use it with --prompt citeme.")
    if args.structured and args.prompt != "json":
        raise HoldfastError("--structured is for replies in JSON: use --prompt json, or citeme.")
    form = {"form": args.prompt, "structured": args.structured}
    if args.program:
        program, digest = load_program(
            args.program, args.commands, args.demonstration, args.repairs
        )
        return LMAgent(program, lm, digest, **form)
    return LMAgent(CiteAgent(args.commands, args.demonstration, args.repairs), lm, **form)


def citeme_agent(args: Namespace, lm: "MeteredLM") -> Agent:
    """CiteAgent as its paper has it."""
    from ..citeagent.citeme import CiteMEAgent

    if args.program:
        raise HoldfastError("--program is a DSPy program: leave it out, or use --prompt dspy.")
    return CiteMEAgent(
        lm,
        args.commands,
        args.demonstration,
        prompt_folder=args.prompts,
        repairs=args.repairs,
        structured=args.structured,
    )


class Prompt(NamedTuple):
    """A form of the agent, and the settings it has unless options say otherwise."""

    agent: "Callable[[Namespace, MeteredLM], Agent]"
    read_chars: int | str
    repairs: int
    field: str | None


PROMPTS = {
    "dspy": Prompt(dspy_agent, 12_000, 1, None),
    "json": Prompt(dspy_agent, 12_000, 1, None),
    "plain": Prompt(dspy_agent, 12_000, 1, None),
    "citeme": Prompt(citeme_agent, "all", 0, "Computer Science"),
}


def with_defaults(args: Namespace) -> Namespace:
    """The options, with those that depend on --prompt filled in."""
    defaults = PROMPTS[getattr(args, "prompt", "dspy")]
    for name in ("read_chars", "repairs", "field"):
        if getattr(args, name) is None:
            setattr(args, name, getattr(defaults, name))
    in_range(0, repairs=args.repairs)
    return args


def cassette_of(args: Namespace) -> Cassette | None:
    """The recording to make or to replay, if any."""
    if args.record:
        return Cassette(args.record, "record")
    return Cassette(args.replay, "replay") if args.replay else None


def language_model(args: Namespace, cassette: Cassette | None) -> "MeteredLM":
    """The language model that the options name."""
    if not args.model:
        raise HoldfastError(
            "there is no language model: name one with --model (and --api-base for a server of "
            "your own), or an agent without one, such as --agent rules."
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


def provider_of(args: Namespace, cassette: Cassette | None) -> SearchProvider:
    """The search provider that the options name."""
    return PROVIDERS[args.search](args, cassette)
