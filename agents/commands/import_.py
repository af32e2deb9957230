"""`holdfast cite import`: result files of CiteME's code and of CiteGuard's, logs of Inspect, as runs."""

import argparse
from pathlib import Path
from typing import Any

from ... import HoldfastError
from .. import authors_results
from ..data import Dataset
from ..results import ResultFile
from ..score import judge
from .options import chosen_dataset, data_options


def main(argv: list[str]) -> None:
    """Write the run, and say where its own verdicts differ from CiteME's matcher."""
    args = parser().parse_args(argv)
    dataset = chosen_dataset(args)
    if args.out.exists():
        raise HoldfastError(f"{args.out} exists: remove it, or give --out another name.")
    take = from_inspect if args.results.suffix == ".eval" else from_authors
    header, records, said = take(args.results, dataset)
    if not records:
        raise HoldfastError(
            f"{args.results} has no sample of {dataset.name}, {dataset.split}: give its --data."
        )
    with ResultFile(args.out, header) as file:
        for record in records:
            file.append(record)
    print(f"{said}; wrote {args.out}")
    if differing := judged_otherwise(args.results, dataset, records):
        print(f"judged otherwise than there: {', '.join(differing)}")
    print(f"Next: holdfast cite score {args.out}")


Run = tuple[dict[str, Any], list[dict[str, Any]], str]


def from_authors(path: Path, dataset: Dataset) -> Run:
    """The run of a result file of CiteME's code, and what to say of it."""
    metadata, results = authors_results.contents(path)
    inside = [r for r in results if str(r["id"]) in {sample.id for sample in dataset.samples}]
    split = metadata.get("dataset_split")
    said = f"{len(inside)} of {len(results)} results are of {dataset.describe()}; theirs are of the split "
    header = authors_results.header(metadata, dataset, len(dataset.samples))
    return header, [authors_results.record(result) for result in inside], f"{said}{split!r}"


def from_inspect(path: Path, dataset: Dataset) -> Run:
    """The run of a log of Inspect, and what to say of it."""
    try:
        from ..inspect.reading import run_of
    except ImportError as error:
        raise HoldfastError(
            f"Inspect is not installed ({error}): pip install 'holdfast[inspect]'."
        ) from None
    header, records = run_of(path, dataset)
    return header, records, f"{len(records)} answers are of {dataset.describe()}"


def judged_otherwise(path: Path, dataset: Dataset, records: list[dict[str, Any]]) -> list[str]:
    """Samples of which a result file of CiteME's code states another verdict than its matcher's."""
    if path.suffix == ".eval":
        return []
    theirs = {str(r["id"]): bool(r.get("is_correct")) for r in authors_results.contents(path)[1]}
    samples = {sample.id: sample for sample in dataset.samples}
    return [
        record["sample"]
        for record in records
        if judge(record, samples[record["sample"]])["official"] != theirs[record["sample"]]
    ]


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = argparse.ArgumentParser(
        prog="holdfast cite import",
        description=__doc__,
        epilog="example: holdfast cite import RESULTS.json --out runs/theirs.jsonl",
    )
    parser.add_argument(
        "results", type=Path, metavar="FILE", help="JSON of theirs, or a log (.eval)"
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="result file (.jsonl)"
    )
    data_options(parser)
    return parser
