"""`holdfast cite optimize`: compile the agent's program on the train split (DSPy)."""

from ..episode import Episode
from .build import episode_settings, services, with_defaults
from .options import CiteParser, at_least_one, chosen_dataset


def main(argv: list[str]) -> None:
    """Compile the program, write it to --out and print a summary."""
    args = with_defaults(parser().parse_args(argv))
    dataset = chosen_dataset(args)
    print(dataset.describe())
    lm, provider = services(args)
    from ..citeagent.optimize import optimize
    from ..citeagent.program import CiteAgent

    program = CiteAgent(args.commands, args.demonstration, args.repairs)
    settings = episode_settings(args)
    start = lambda sample: Episode(sample, provider, **settings)  # noqa: E731
    print(optimize(program, dataset, lm, start, args.out, steps=args.steps))


def parser() -> CiteParser:
    parser = CiteParser("optimize", __doc__, "--model openai/gpt-4o --out program.json")
    parser.data(split="train")
    parser.out("compiled program (.json)")
    steps = "maximum example steps in the prompt (default: 2)"
    parser.add("--steps", type=at_least_one, default=2, metavar="N", help=steps)
    parser.agent()
    return parser
