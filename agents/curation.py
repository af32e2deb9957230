"""CiteME's analyses of a dataset: `holdfast cite curate`.

The years and the quality of its excerpts (table 1, figure 2), samples that models answer from
memory (section 2), answers of people (section 2), and topics (appendix D).
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from .. import HoldfastError
from .data import ASSETS, Dataset, Sample, read_table
from .episode import Stop
from .matching import THRESHOLD, official_match
from .records import RETRIED, Action, Record
from .score import proportion
from .search.provider import ProviderError

if TYPE_CHECKING:
    import dspy


def published() -> dict[str, Any]:
    """CiteME's tables 1, 6 and 7."""
    return json.loads((ASSETS / "benchmarks.json").read_text(encoding="utf-8"))


# ---- size and quality ----


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


def quality(counts: Mapping[str, Counter[str]]) -> pd.DataFrame:
    """Table 1: percentages of labels by set, with n; the paper's, their mean, and those of `counts`."""
    table = published()["quality"]
    theirs = pd.DataFrame(table["percent"], index=table["labels"]).T.add_suffix(" (CiteME)", axis=0)
    ours = pd.DataFrame(counts, index=table["labels"]).T.fillna(0)
    n = ours.sum(axis=1)
    shown = pd.concat(
        [theirs, theirs.mean().to_frame("mean of these (CiteME)").T, 100 * ours.div(n, axis=0)]
    )
    size = [table["n"]] * len(theirs) + [table["n"] * len(theirs), *n.astype(int)]
    shown.insert(0, "n", size)
    return shown


def years(dataset: Dataset, width: int = 40) -> str:
    """Figure 2: excerpts by year of the source, with one bar for all years before 2011."""
    counts = Counter(
        "unknown" if not s.year else "before 2011" if s.year < 2011 else str(s.year)
        for s in dataset.samples
    )
    known = sorted(int(name) for name in counts if name.isdigit())
    span = map(str, range(known[0], known[-1] + 1)) if known else ()
    order = [name for name in ("before 2011", *span, "unknown") if name.isdigit() or name in counts]
    most, n = max(counts.values()), len(dataset.samples)
    return "\n".join(
        f"{name:<12}{counts[name]:>5} {100 * counts[name] / n:5.1f} % "
        + "#" * round(width * counts[name] / most)
        for name in order
    )


# ---- answers from memory ----


def known_by_heart(rows: pd.DataFrame, dataset: Dataset, tries: int) -> list[str]:
    """The samples with a correct answer among `tries` answers, by CiteME's matcher.

    Args:
        rows: the answers, from `score.judged`.
        dataset: the samples.
        tries: answers required per sample.

    Raises:
        HoldfastError: if a sample has fewer answers, none of them correct.
    """
    rows = rows.assign(is_answer=~rows.outcome.isin(RETRIED))
    counts = rows.groupby("sample")[["official", "is_answer"]].sum()
    samples = counts.reindex([sample.id for sample in dataset.samples], fill_value=0)
    for name, some in samples[samples.official == 0].iterrows():
        if some.is_answer < tries:
            raise HoldfastError(
                f"{name} has {some.is_answer} of {tries} answers. Finish the run, or pass a smaller "
                "--tries."
            )
    return list(samples.index[samples.official > 0])


# ---- people ----

ANSWERS = ("sample", "annotator", "title", "seconds")


def answers(path: Path, dataset: Dataset) -> list[dict[str, str]]:
    """The rows of a CSV with `sample`, `annotator`, `title` ("" for none) and `seconds`.

    Raises:
        HoldfastError: if it is not such a file, or a row has an unknown sample, is repeated, or has no
            valid time.
    """
    rows = read_table(path, ANSWERS, "answers")
    known, seen = {s.id for s in dataset.samples}, set()
    for number, row in enumerate(rows, start=2):
        name, annotator = key = row["sample"], row["annotator"]
        problem = ""
        if name not in known:
            problem = f"there is no sample {name!r} in {dataset.name}, {dataset.split}"
        elif key in seen:
            problem = f"{annotator} answers {name} twice"
        elif not re.fullmatch(r"\d{1,9}(\.\d*)?", row["seconds"].strip()):
            problem = f"seconds are {row['seconds']!r}"
        if problem:
            raise HoldfastError(f"{path}, row {number}: {problem}. Correct or remove the row.")
        seen.add(key)
    return rows


def as_records(rows: Iterable[dict[str, str]]) -> list[Record]:
    """Each answer as a record; the repeats of a sample are its annotators, in order."""
    repeats: Counter[str] = Counter()
    records = []
    for row in rows:
        name, title = row["sample"], row["title"].strip()
        values = {"detail": f"by {row['annotator']}", "seconds": float(row["seconds"])}
        action = [Action(kind="action", step=1, action="guess")] if title else []
        records.append(Record.guessed(name, title, repeat=repeats[name], events=action, **values))
        repeats[name] += 1
    return records


def agreement(
    rows: Sequence[dict[str, str]], samples: Iterable[Sample], threshold: float = THRESHOLD
) -> dict[str, Any]:
    """Rates over all pairs of answers to a sample: same title, same verdict, at least one correct."""
    pairs = same = verdict = either = 0
    for sample in samples:
        titles = [row["title"].strip() for row in rows if row["sample"] == sample.id]
        for a, b in combinations(titles, 2):
            right = [bool(t) and official_match(t, sample.titles, threshold) for t in (a, b)]
            pairs += 1
            same += all(right) or bool(a and b and official_match(a, [b], threshold))
            verdict += right[0] == right[1]
            either += any(right)
    return {
        "pairs": pairs,
        "same_title": proportion(same, pairs),
        "same_verdict": proportion(verdict, pairs),
        "at_least_one_right": proportion(either, pairs),
    }


# ---- topics ----

# Holdfast's prompt; the paper does not print its own.
ASK = (
    "Name three general topics that describe the paper with the title below, from the broadest to the "
    "narrowest, separated by commas, and nothing else.\n\n"
)
TOO_BROAD = ("machine learning", "deep learning", "deep networks", "artificial intelligence")


def tags_of(title: str, lm: "dspy.LM") -> list[str]:
    """At most three tags of a paper, fewer if the model's reply has fewer.

    Raises:
        HoldfastError: if the model gives no reply.
    """
    from .lm import asking

    try:
        with asking():
            reply = lm(ASK + title)[0]
    except (ProviderError, Stop) as error:
        raise HoldfastError(
            f"No tags for {title!r} ({error}). Fix the cause and rerun the same command to continue."
        ) from None
    words = re.split(r"[,;\n]", re.sub(r"^\s*tags?\s*:", "", reply, flags=re.IGNORECASE))
    tags = [re.sub(r"^\s*(?:\d+[.)]|[-*•])\s*", "", word).strip(" .*\"'") for word in words]
    return [tag for tag in tags if tag][:3]


def most_frequent(tags: Iterable[list[str]], n: int = 10) -> list[tuple[str, int]]:
    """The `n` most frequent tags with their number of papers, without those in `TOO_BROAD`."""
    names: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for several in tags:
        for tag in dict.fromkeys(several):
            key = tag.lower()
            if key not in TOO_BROAD:
                names.setdefault(key, tag)
                counts[key] += 1
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [(names[key], count) for key, count in ordered[:n]]
