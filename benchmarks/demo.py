"""`holdfast demo`: compare Tent, which collapses, with RDumb, which stays accurate; needs no downloads."""

import argparse

from .suites import suite


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = argparse.ArgumentParser(
        "holdfast demo", description=__doc__, epilog="example: holdfast demo --seeds 43 44 45"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="use a shorter stream and larger rates (two minutes)",
    )
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
