"""`holdfast demo`: compare Tent, which collapses, with RDumb, which stays accurate; needs no downloads."""

from ..command_parser import Parser
from .suites import suite


def parser() -> Parser:
    """The options of the command."""
    parser = Parser("demo", __doc__, "--seeds 43 44 45")
    parser.flag("--quick", "use a shorter stream and larger learning rates (about two minutes)")
    suite.add_options(parser)
    return parser


def main(argv: list[str]) -> int:
    """Run the suite `demo` (benchmarks/configs/suites/demo.yaml)."""
    args = parser().parse_args(argv)
    words = ["holdfast", "demo", *(["--quick"] if args.quick else [])]
    args.command = suite.repeating(*words, seeds=args.seeds)
    config = suite.load("demo", args, "quick" if args.quick else "long")
    status = suite.run_and_report(config, args)
    print(f"To see the curves of every run: tensorboard --logdir {config['out']}")
    return status
