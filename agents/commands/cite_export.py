"""`holdfast cite export`: a run as a log of Inspect, for `inspect view`."""

import argparse
from pathlib import Path

from ... import HoldfastError
from ..data import new_file
from ..results import read
from .options import command_parser, data_options, dataset_of, out_option, threshold_option


def main(argv: list[str]) -> None:
    """Write the log; raises `HoldfastError` if Inspect is not installed."""
    args = parser().parse_args(argv)
    if args.out.suffix != ".eval":
        raise HoldfastError(f"Inspect's logs end with .eval, not as --out {args.out}.")
    try:
        from inspect_ai.log import write_eval_log

        from ..inspect.export import log_of
    except ImportError as error:
        raise HoldfastError(
            f"Inspect is not installed ({error}): pip install 'holdfast[inspect]'."
        ) from None
    header, records = read(args.run)
    log = log_of(header, records, dataset_of(args, header, args.run), args.threshold)
    with new_file(args.out) as partial:
        write_eval_log(log, str(partial), format="eval")
    print(f"{len(log.samples or ())} samples; wrote {args.out}")
    print(f"Next: inspect view --log-dir {args.out.parent}")


def parser() -> argparse.ArgumentParser:
    parser = command_parser("export", __doc__, "runs/bm25.jsonl --out bm25.eval")
    parser.add_argument("run", type=Path, metavar="RUN")
    out_option(parser, "log (.eval)")
    data_options(parser, default=None)
    threshold_option(parser)
    return parser
