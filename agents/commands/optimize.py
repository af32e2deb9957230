"""`holdfast cite optimize`: compile the program on the train split (DSPy)."""

import argparse
from pathlib import Path

from ..data import Sample
from ..episode import Episode
from .build import cassette_of, language_model, provider_of, with_defaults
from .options import agent_options, at_least_one, chosen_dataset, data_options


def main(argv: list[str]) -> None:
    """Compile the program, write it to --out and say what it holds."""
    args = with_defaults(parser().parse_args(argv))
    dataset = chosen_dataset(args)
    print(dataset.describe())
    cassette = cassette_of(args)
    lm, provider = language_model(args, cassette), provider_of(args, cassette)
    from ..citeagent.optimize import optimize
    from ..citeagent.program import CiteAgent

    def episode(sample: Sample) -> Episode:
        return Episode(
            sample,
            provider,
            results=args.results,
            max_actions=args.max_actions,
            read_budget=None if args.read_chars == "all" else args.read_chars,
        )

    program = CiteAgent(args.commands, args.demonstration, args.repairs)
    print(optimize(program, dataset, lm, episode, args.out, steps=args.steps))


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = argparse.ArgumentParser(
        prog="holdfast cite optimize",
        description=__doc__,
        epilog="example: holdfast cite optimize --model openai/gpt-4o --out program.json",
    )
    data_options(parser, split="train")
    parser.add_argument("--out", type=Path, required=True, metavar="JSON", help="compiled program")
    parser.add_argument(
        "--steps",
        type=at_least_one,
        default=2,
        metavar="N",
        help="example steps to put in the prompt",
    )
    agent_options(parser)
    return parser
