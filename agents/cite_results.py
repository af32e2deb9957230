"""The commands of `holdfast cite` about results: score, compare, show and import."""

import json
from argparse import Namespace
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .. import HoldfastError, printable
from .data import Dataset, load
from .records import Header, Key, Record
from .result_file import ResultFile, read


def say(text: str) -> None:
    """Print a text in which control characters, such as a model's, are not executed."""
    print(printable(text), flush=True)


def dataset_in(args: Namespace) -> Dataset:
    """The data that the options specify."""
    return load(args.data).select(args.split, args.limit)


def dataset_of(args: Namespace, header: Header, path: Path) -> Dataset:
    """The data of a run, which needs --data unless it is mini-cite.

    Raises:
        HoldfastError: if the data is not found, or differs from the run's.
    """
    named = header.dataset
    if args.data is None and named.name != "mini-cite":
        raise HoldfastError(f"{path} is a run on {named.name}. Pass that file with --data.")
    data = load(args.data or "mini-cite")
    split = args.split or named.split
    dataset = data.select(split, args.limit or (header.n if split == named.split else None))
    if dataset.sha256 != named.sha256:
        raise HoldfastError(
            f"{path} was made with another version of the data (sha256 {named.sha256[:12]}). "
            "Pass that file with --data."
        )
    return dataset


def opened(args: Namespace, path: Path) -> tuple[Header, dict[Key, Record], Dataset]:
    """A run's header, records and data."""
    header, records = read(path)
    return header, records, dataset_of(args, header, path)


def score_runs(args: Namespace) -> None:
    """Score result files."""
    from .citeme_tables import beside_paper
    from .score import score
    from .summary import of_run, table

    named = {}
    for path in args.runs:
        header, records, dataset = opened(args, path)
        figures = score(
            records,
            dataset,
            repeats=header.repeats,
            threshold=args.threshold,
            prices=args.usd_per_million,
        )
        named[str(path)] = {"agent": header.agent.plain(), "data": dataset.name, **figures}
        if not args.json:
            say(of_run(header, figures, dataset))
            say(f"  {beside_paper(header, dataset, figures, str(path))}\n")
    if args.json:
        print(json.dumps(named, indent=1, default=asdict))
    elif len(named) > 1:
        say(table({Path(name).stem: figures for name, figures in named.items()}))


def compare_runs(args: Namespace) -> None:
    """Compare two runs on the same samples, paired."""
    from .compare import compare
    from .summary import of_comparison

    header_a, a, dataset = opened(args, args.a)
    header_b, b = read(args.b)
    if header_a.dataset.sha256 != header_b.dataset.sha256:
        raise HoldfastError("The two runs are on different data. Compare runs on the same file.")
    figures = compare(a, b, dataset, strict=args.strict)
    text = f"A {args.a}\nB {args.b}\n{of_comparison(figures)}"
    say(json.dumps(figures, indent=1) if args.json else text)


def show_sample(args: Namespace) -> None:
    """Show the agent's replies, actions and their results on one sample."""
    from .summary import of_sample

    _, records, dataset = opened(args, args.run)
    samples = {s.id: s for s in dataset.samples}
    record = records.get((args.sample, args.repeat))
    if record is None or args.sample not in samples:
        there = ", ".join(sorted({sample for sample, _ in records if sample in samples})[:20])
        raise HoldfastError(
            f"{args.run} has no sample {args.sample!r}, repeat {args.repeat}. Choose one of {there}."
        )
    say(of_sample(record, samples[args.sample], args.full))


def import_results(args: Namespace) -> None:
    """Convert results of CiteME's or CiteGuard's code to a run, judged anew."""
    from .authors_logs import imported
    from .score import judge

    dataset = dataset_in(args)
    found = imported(args.results, dataset)
    if not found.records:
        raise HoldfastError(
            f"{args.results} has no sample of {dataset.name}, {dataset.split}. Pass its --data."
        )
    write_run(args.out, found.settings, found.records)
    say(
        f"{len(found.records)} of {found.results} results are samples of {dataset.describe()}; the file is "
        f"for the split {found.split!r}; wrote {args.out}"
    )
    samples = {s.id: s for s in dataset.samples}
    ours = {r.sample: judge(r, samples[r.sample])["official"] for r in found.records}
    if differing := [name for name, right in ours.items() if right != found.verdicts[name]]:
        say(f"verdicts that differ from the file's: {', '.join(differing)}")
    print(f"Next: holdfast cite score {args.out}")


def write_run(path: Path, settings: dict[str, Any], records: list[Record]) -> None:
    """Write a result file; raises `HoldfastError` if it exists."""
    if path.exists():
        raise HoldfastError(f"{path} exists. Delete it, or pass --out another name.")
    with ResultFile(path, settings) as file:
        for record in records:
            file.append(record)
