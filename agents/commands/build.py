"""Create an agent and its search from command-line options; DSPy is imported only when needed."""

from argparse import Namespace
from typing import TYPE_CHECKING, Any

from ... import HoldfastError, in_range
from ...redaction import keep_secret
from ..cassette import Cassette
from ..limits import Retry
from ..protocol import Agent, SearchProvider
from ..search.open_search import PROVIDERS

if TYPE_CHECKING:
    from ..lm.metered import MeteredLM

# The options whose defaults depend on --prompt, with these defaults.
OURS: dict[str, Any] = {"read_chars": 12_000, "repairs": 1, "field": None}
PROMPTS = {"dspy": OURS, "json": OURS, "plain": OURS}
PROMPTS["citeme"] = {"read_chars": "all", "repairs": 0, "field": "Computer Science"}


def with_defaults(args: Namespace) -> Namespace:
    """Fill in the defaults of the options that depend on --prompt."""
    for name, value in PROMPTS[getattr(args, "prompt", "dspy")].items():
        if getattr(args, name) is None:
            setattr(args, name, value)
    in_range(0, repairs=args.repairs)
    return args


def episode_settings(args: Namespace) -> dict[str, Any]:
    """The arguments of `Episode` that the options specify."""
    read_budget = None if args.read_chars == "all" else args.read_chars
    budget = {"results": args.results, "max_actions": args.max_actions}
    return {**budget, "read_budget": read_budget}


def agent_and_provider(args: Namespace) -> tuple[Agent, SearchProvider]:
    """The agent and the search of `holdfast cite run`."""
    if args.agent == "citeagent":
        lm, provider = services(args)
        return lm_agent(args, lm), provider
    if args.search != "local":
        raise HoldfastError(
            f"The agent {args.agent} ranks a whole corpus. Use it with --search local."
        )
    from ..baselines import baseline

    return baseline(args.agent, str(args.corpus))


def lm_agent(args: Namespace, lm: "MeteredLM") -> Agent:
    """CiteAgent in the paper's form, or as a DSPy program with replies in the form of --prompt."""
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
    from ..citeagent.program import CiteAgent, LMAgent, load_program

    if args.prompts:
        raise HoldfastError("--prompts applies only to CiteME's form. Use it with --prompt citeme.")
    if args.structured and args.prompt != "json":
        raise HoldfastError("--structured is for replies in JSON. Use --prompt json or citeme.")
    program = CiteAgent(args.commands, args.demonstration, args.repairs)
    digest = load_program(program, args.program) if args.program else None
    return LMAgent(program, lm, digest, form=args.prompt, structured=args.structured)


def services(args: Namespace) -> "tuple[MeteredLM, SearchProvider]":
    """The language model and the search provider of the options, with one recording."""
    cassette = cassette_of(args)
    return language_model(args, cassette), PROVIDERS[args.search](**vars(args), cassette=cassette)


def cassette_of(args: Namespace) -> Cassette | None:
    """The recording to write or to replay, if any."""
    if args.record:
        return Cassette(args.record, "record")
    return Cassette(args.replay, "replay") if args.replay else None


def language_model(args: Namespace, cassette: Cassette | None) -> "MeteredLM":
    """The language model of the options; raises `HoldfastError` without --model."""
    if not args.model:
        raise HoldfastError(
            "--model is missing. Pass a language model (with --api-base for your own server), or an agent "
            "without one, such as --agent rules."
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
