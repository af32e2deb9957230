"""`holdfast cite import`: a result file of CiteME's code, or of CiteGuard's, as a run to be scored."""

import argparse
from pathlib import Path

from ... import HoldfastError
from .. import authors_results
from ..results import ResultFile
from ..score import judge
from .options import chosen_dataset, data_options


def main(argv: list[str]) -> None:
    """Write the run, and say where its own verdicts differ from CiteME's matcher."""
    args = parser().parse_args(argv)
    dataset = chosen_dataset(args)
    metadata, results = authors_results.contents(args.results)
    samples = {sample.id: sample for sample in dataset.samples}
    inside = [result for result in results if str(result["id"]) in samples]
    if not inside:
        raise HoldfastError(
            f"{args.results} has no sample of {dataset.name}, {dataset.split}: give its --data."
        )
    if args.out.exists():
        raise HoldfastError(f"{args.out} exists: remove it, or give --out another name.")
    differing = []
    with ResultFile(args.out, authors_results.header(metadata, dataset, len(samples))) as file:
        for result in inside:
            record = authors_results.record(result)
            file.append(record)
            right = judge(record, samples[record["sample"]])["official"]
            if right != bool(result.get("is_correct")):
                differing.append(record["sample"])
    theirs = metadata.get("dataset_split")
    print(
        f"{len(inside)} of {len(results)} results are of {dataset.describe()}; theirs are of the split "
        f"{theirs!r}; wrote {args.out}"
    )
    if differing:
        print(f"judged otherwise than there: {', '.join(differing)}")
    print(f"Next: holdfast cite score {args.out}")


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = argparse.ArgumentParser(prog="holdfast cite import", description=__doc__)
    parser.add_argument("results", type=Path, metavar="JSON", help="with metadata and results")
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="result file (.jsonl)"
    )
    data_options(parser)
    return parser
