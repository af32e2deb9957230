"""`holdfast cite show`: show the agent's replies, actions and their results on one sample."""

from pathlib import Path

from ... import HoldfastError
from ..report.runs_page import trajectory_page, write_page
from ..report.show import text
from ..results import read
from .options import CiteParser, dataset_of


def main(argv: list[str]) -> None:
    """Print a sample's trajectory, or write it as a page."""
    args = parser().parse_args(argv)
    header, records = read(args.run)
    samples = {s.id: s for s in dataset_of(args, header, args.run).samples}
    record = records.get((args.sample, args.repeat))
    if record is None or args.sample not in samples:
        there = ", ".join(sorted({sample for sample, _ in records if sample in samples})[:20])
        raise HoldfastError(
            f"{args.run} has no sample {args.sample!r}, repeat {args.repeat}. Choose one of {there}."
        )
    if args.html:
        write_page(args.html, trajectory_page(header, record, samples[args.sample]))
        return
    print(text(record, samples[args.sample], args.full))


def parser() -> CiteParser:
    parser = CiteParser("show", __doc__, "runs/bm25.jsonl 3")
    parser.add("run", type=Path, metavar="RUN", help="result file of `holdfast cite run`")
    parser.add("sample", metavar="SAMPLE", help="its id")
    parser.add(
        "--repeat",
        type=int,
        default=0,
        metavar="K",
        help="number of the repeat, from 0 (default: 0)",
    )
    parser.flag("--full", "show all hits and complete texts")
    parser.html()
    parser.data(default=None)
    return parser
