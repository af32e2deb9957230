"""`holdfast cite filter`: remove samples that a model answers from memory in at least one try."""

from pathlib import Path

from ... import HoldfastError
from ..commands.options import CiteParser, dataset_of
from ..data import Dataset, Sample, load, write
from ..results import Key, read
from ..schema import RETRIED, Record
from ..score import judge

Records = dict[Key, Record]


def known_by_heart(
    records: Records, dataset: Dataset, tries: int, threshold: float
) -> list[Sample]:
    """The samples with a correct answer among `tries` answers, by CiteME's matcher.

    Raises:
        HoldfastError: if a sample has fewer answers, none of them correct.
    """
    known = []
    for sample in dataset.samples:
        answers = [
            record
            for (name, _), record in records.items()
            if name == sample.id and record.status not in RETRIED
        ]
        if any(judge(record, sample, threshold).official for record in answers):
            known.append(sample)
        elif len(answers) < tries:
            raise HoldfastError(
                f"{sample.id} has {len(answers)} of {tries} answers. Finish the run, or pass a smaller "
                "--tries."
            )
    return known


def main(argv: list[str]) -> None:
    """Write the samples that no run answers from memory, and list the excluded ones."""
    args = parser().parse_args(argv)
    known: dict[str, str] = {}
    for path in args.runs:
        header, records = read(path)
        if header.agent.commands != "none":
            raise HoldfastError(
                f"{path} is not a run from memory. Make one with `holdfast cite run --commands none "
                "--repeats 5`."
            )
        dataset = dataset_of(args, header, path)
        tries = args.tries or header.repeats
        for sample in known_by_heart(records, dataset, tries, args.threshold):
            known.setdefault(sample.id, header.agent.model_or_name)
    whole = load(args.data or "mini-cite", skip_malformed=args.skip_malformed)
    asked = {sample.id for sample in dataset.samples}
    left = [s for s in whole.samples if s.id in asked and s.id not in known]
    write(args.out, left)
    for name in sorted(known):
        print(f"excluded {name}: answered from memory by {known[name]}")
    print(f"{len(left)} of {len(asked)} samples remain, {len(known)} excluded; wrote {args.out}")
    print("CiteME excluded 124 of 254 (section 2), by five tries of GPT-4o.")


def parser() -> CiteParser:
    parser = CiteParser("filter", __doc__, "runs/none.jsonl --out hard.csv")
    made = "result files of --commands none"
    parser.add("runs", nargs="+", type=Path, metavar="RUN", help=made)
    columns = "in CiteME's columns"
    parser.add("--out", type=Path, required=True, metavar="CSV", help=columns)
    parser.add(
        "--tries", type=int, metavar="N", help="answers required per sample (the run's repeats)"
    )
    parser.threshold()
    parser.data(default=None)
    return parser
