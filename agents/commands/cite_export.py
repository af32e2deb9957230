"""`holdfast cite export`: write a run as a log of Inspect, for `inspect view`."""

from pathlib import Path

from ... import HoldfastError
from ..data import new_file
from ..results import read
from .options import CiteParser, dataset_of


def main(argv: list[str]) -> None:
    """Write the log; raises `HoldfastError` if Inspect is not installed."""
    args = parser().parse_args(argv)
    if args.out.suffix != ".eval":
        raise HoldfastError(
            f"--out {args.out} is not the name of an Inspect log. End it with .eval."
        )
    try:
        from inspect_ai.log import write_eval_log

        from ..inspect.export import log_of
    except ImportError as error:
        raise HoldfastError(
            f"Inspect is not installed ({error}). Run: pip install 'holdfast[inspect]'."
        ) from None
    header, records = read(args.run)
    log = log_of(header, records, dataset_of(args, header, args.run), args.threshold)
    with new_file(args.out) as partial:
        write_eval_log(log, str(partial), format="eval")
    print(f"{len(log.samples or ())} samples; wrote {args.out}")
    print(f"Next: inspect view --log-dir {args.out.parent}")


def parser() -> CiteParser:
    parser = CiteParser("export", __doc__, "runs/bm25.jsonl --out bm25.eval")
    parser.add("run", type=Path, metavar="RUN", help="result file of `holdfast cite run`")
    parser.out("log (.eval)")
    parser.data(default=None)
    parser.threshold()
    return parser
