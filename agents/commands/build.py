"""From command-line options to an agent and its search; DSPy is imported only where it is used."""

from argparse import Namespace
from typing import TYPE_CHECKING

from ... import HoldfastError
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
    from ..citeagent.agent import LMAgent
    from ..citeagent.program import CiteAgent, load_program

    program, digest = CiteAgent(args.commands, args.demonstration), None
    if args.program:
        program, digest = load_program(args.program, args.commands, args.demonstration)
    return LMAgent(program, lm, digest), provider_of(args, cassette)


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
