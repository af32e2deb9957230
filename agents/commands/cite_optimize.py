"""`holdfast cite optimize`: compile the program on the train split (DSPy)."""

import argparse

from ..episode import Episode
from .build import episode_settings, services, with_defaults
from .options import (
    agent_options,
    at_least_one,
    chosen_dataset,
    command_parser,
    data_options,
    out_option,
)


def main(argv: list[str]) -> None:
    """Compile the program, write it to --out and say what it holds."""
    args = with_defaults(parser().parse_args(argv))
    dataset = chosen_dataset(args)
    print(dataset.describe())
    lm, provider = services(args)
    from ..citeagent.optimize import optimize
    from ..citeagent.program import CiteAgent

    program = CiteAgent(args.commands, args.demonstration, args.repairs)
    settings = episode_settings(args)
    said = optimize(
        program, dataset, lm, lambda s: Episode(s, provider, **settings), args.out, steps=args.steps
    )
    print(said)


def parser() -> argparse.ArgumentParser:
    parser = command_parser("optimize", __doc__, "--model openai/gpt-4o --out program.json")
    data_options(parser, split="train")
    out_option(parser, "compiled program (.json)")
    steps = "example steps to put in the prompt"
    parser.add_argument("--steps", type=at_least_one, default=2, metavar="N", help=steps)
    agent_options(parser)
    return parser
