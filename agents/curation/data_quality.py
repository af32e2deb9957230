"""`holdfast cite data`: describe a dataset, with CiteME's tables 1 and 7 and figure 2 for comparison."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from ... import HoldfastError
from ..commands.options import CiteParser, chosen_dataset
from ..data import ASSETS, Dataset, read_table


def published() -> dict[str, Any]:
    """CiteME's tables 1, 6 and 7."""
    return json.loads((ASSETS / "benchmarks.json").read_text(encoding="utf-8"))


def labelled(path: Path) -> dict[str, Counter[str]]:
    """The numbers of excerpts by set and label, from a CSV with `dataset` and `label`.

    Raises:
        HoldfastError: if the file cannot be read, or a label is not one of the paper's four.
    """
    allowed = published()["quality"]["labels"]
    counts: dict[str, Counter[str]] = {}
    for number, row in enumerate(read_table(path, ("dataset", "label"), "labels"), start=2):
        label = row["label"].strip().lower()
        if label not in allowed:
            raise HoldfastError(
                f"{path}, row {number} has the label {row['label']!r}. Use one of {', '.join(allowed)}."
            )
        counts.setdefault(row["dataset"], Counter())[label] += 1
    return counts


def quality_lines(counts: dict[str, Counter[str]]) -> list[str]:
    """Table 1: percentages of labels by set, with n; the paper's, then those of `counts`."""
    table = published()["quality"]
    lines = [f"{'excerpts, %':<28}{'n':>5}" + "".join(f"{name:>16}" for name in table["labels"])]
    rows = [(f"{name} (CiteME)", table["n"], p) for name, p in table["percent"].items()]
    columns = list(zip(*table["percent"].values(), strict=True))
    mean = [sum(column) / len(column) for column in columns]
    rows.append(("mean of these (CiteME)", table["n"] * len(table["percent"]), mean))
    for name, labels in counts.items():
        n = labels.total()
        rows.append((name, n, [100 * labels[label] / n for label in table["labels"]]))
    return lines + [
        f"{name:<28}{n:>5}" + "".join(f"{p:>16.1f}" for p in ps) for name, n, ps in rows
    ]


def comparison_lines(dataset: Dataset, papers: int) -> list[str]:
    """Table 7: papers to choose from, full text, years; the paper's sets, then this one."""
    years = [sample.year for sample in dataset.samples if sample.year]
    span = f"{min(years)}-{max(years)}" if years else "unknown"
    rows = [
        (s["name"], s["papers"], "yes" if s["full_text"] else "no", s["years"])
        for s in published()["sets"]
    ]
    rows.append((f"{dataset.name} (here)", f"{papers:,}", "yes", span))
    names = ("dataset", "papers to choose from", "full text", "years of excerpts")
    return [f"{a:<24}{b:>22}{c:>12}{d:>20}" for a, b, c, d in [names, *rows]]


def years_lines(dataset: Dataset, width: int = 40) -> list[str]:
    """Figure 2: excerpts by year of the source, with one bar for all years before 2011."""
    counts = Counter(
        "unknown" if not s.year else "before 2011" if s.year < 2011 else str(s.year)
        for s in dataset.samples
    )
    known = sorted(name for name in counts if name.isdigit())
    span = [str(y) for y in range(int(known[0]), int(known[-1]) + 1)] if known else []
    order = [name for name in ("before 2011", *span, "unknown") if name in counts or name in span]
    most, n = max(counts.values()), len(dataset.samples)
    return [
        f"{name:<12}{counts[name]:>5} {100 * counts[name] / n:5.1f} % "
        + "#" * round(width * counts[name] / most)
        for name in order
    ]


def main(argv: list[str]) -> None:
    """Print years, labels and size; JSON with --json."""
    args = parser().parse_args(argv)
    dataset = chosen_dataset(args)
    labels = labelled(args.labels) if args.labels else {}
    papers = sum(bool(line.strip()) for line in args.corpus.open(encoding="utf-8"))
    if args.json:
        years = [sample.year for sample in dataset.samples]
        shown = {"n": len(years), "years": years, "papers": papers, "labels": labels}
        print(json.dumps({**shown, "published": published()}, indent=1))
        return
    print(dataset.describe())
    print("\nyear of the source (CiteME, figure 2)", *years_lines(dataset), sep="\n")
    print("\nquality (CiteME, table 1)", *quality_lines(labels), sep="\n")
    print("\nbenchmarks (CiteME, table 7)", *comparison_lines(dataset, papers), sep="\n")


def parser() -> CiteParser:
    parser = CiteParser("data", __doc__, "--data DATASET.csv")
    parser.data(split="all")
    parser.corpus()
    own = "labels of excerpts (columns dataset, label)"
    parser.add("--labels", type=Path, metavar="CSV", help=own)
    parser.json()
    return parser
