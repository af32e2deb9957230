"""`holdfast cite export`: a run as a log of Inspect, for `inspect view`."""

import argparse
from pathlib import Path

from ... import HoldfastError
from ...files import whole_file, written
from ..results import read
from .options import data_options, dataset_of


def main(argv: list[str]) -> None:
    """Write the log; raises `HoldfastError` if Inspect is not installed."""
    args = parser().parse_args(argv)
    if args.out.suffix != ".eval":
        raise HoldfastError(f"{args.out} is no name of Inspect's logs: end it with .eval.")
    try:
        from inspect_ai.log import write_eval_log

        from ..inspect.export import log_of
    except ImportError as error:
        raise HoldfastError(
            f"Inspect is not installed ({error}): pip install 'holdfast[inspect]'."
        ) from None
    header, records = read(args.run)
    log = log_of(header, records, dataset_of(args, header, args.run), args.threshold)
    with written(args.out, "or give --out another file."):
        args.out.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(args.out) as partial:
            write_eval_log(log, str(partial), format="eval")
    print(f"{len(log.samples or ())} samples; wrote {args.out}")
    print(f"Next: inspect view --log-dir {args.out.parent}")


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = argparse.ArgumentParser(
        prog="holdfast cite export",
        description=__doc__,
        epilog="example: holdfast cite export runs/bm25.jsonl --out bm25.eval",
    )
    parser.add_argument("run", type=Path, metavar="RUN")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="log (.eval)")
    data_options(parser, default=None)
    parser.add_argument("--threshold", type=float, default=0.8, help="of CiteME's matcher (0.8)")
    return parser
