"""CiteME's data file: excerpts with one citation masked by `[CITATION]`, and its titles."""

import csv
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError

from .. import HoldfastError
from ..files import reason, whole_file, written

MARKER = "[CITATION]"
TITLE_SEPARATOR = "[TITLE_SEPARATOR]"
ASSETS = Path(__file__).parent / "assets"
_MINI_CITE = ASSETS / "mini-cite.csv"
MINI_CITE_CORPUS = ASSETS / "mini-cite-corpus.jsonl"
SPLITS = ("all", "train", "test")
_TARGET = ("target_paper_title", "target_paper_url")
_SOURCE = ("source_paper_title", "source_paper_url")
COLUMNS = ("id", "excerpt", *_TARGET, *_SOURCE, "year", "split")
# What a column has that is missing: CiteGuard's CiteMulti has no URLs and no splits, CiteME no context.
_OPTIONAL = {"target_paper_url": "", "source_paper_url": "", "split": "test", "context": ""}
PUBLISHED_TEST_ROWS = 119  # n of tables 4 and 5 in CiteME's paper
# Of DATASET.csv, from croissant_metadata.json in the authors' repository.
PUBLISHED_SHA256 = "30a1f945f1ed0ad6192934fd914a70053397428f347e931901496a00194f1959"


@dataclass(frozen=True)
class Sample:
    """One excerpt; `date` is the source's year ("2023") or full date ("2023-05-17"), if known.

    `context` is the source's text around the excerpt, which an agent may ask for.
    """

    id: str
    excerpt: str
    titles: tuple[str, ...]
    target_url: str
    source_title: str
    source_url: str
    date: str | None
    split: str
    context: str = ""

    @property
    def year(self) -> int | None:
        return int(self.date[:4]) if self.date else None


@dataclass(frozen=True)
class Dataset:
    """The samples of one file (after `select`), and the hash of the whole file."""

    name: str
    samples: tuple[Sample, ...]
    split: str
    sha256: str

    @property
    def is_published(self) -> bool:
        """Whether the file is CiteME's DATASET.csv, by its published hash."""
        return self.sha256 == PUBLISHED_SHA256

    def select(self, split: str, limit: int | None = None) -> "Dataset":
        """The rows of `split` ("all", "train" or "test"), at most `limit`; raises `HoldfastError`."""
        chosen = tuple(s for s in self.samples if split in ("all", s.split))[:limit]
        if not chosen:
            raise HoldfastError(
                f"{self.name} has no rows in the {split} split. Choose one of {', '.join(SPLITS)}."
            )
        return replace(self, samples=chosen, split=split)

    def describe(self) -> str:
        """One line: name, n, split, accepted titles, years, hash."""
        with_titles = sum(len(s.titles) > 1 for s in self.samples)
        undated = sum(s.date is None for s in self.samples)
        facts = [f"{self.name}: n = {len(self.samples)}", f"split = {self.split}"]
        facts += [f"{with_titles} with several accepted titles"] if with_titles else []
        facts += [f"{undated} without a year (no date cap)"] if undated else []
        return ", ".join([*facts, f"sha256 {self.sha256[:12]}"])


def load(path: str | Path) -> Dataset:
    """Read a file of CiteME or CiteMulti, comma- or tab-separated; `mini-cite` is the bundled one.

    Formats: https://github.com/bethgelab/CiteME and https://github.com/KathCYM/CiteGuard, and a column
    `context`. Files without the column `split` are a test split. Raises `HoldfastError` if the file cannot
    be read, or has malformed rows, which the message lists by number (the header is row 1).
    """
    path = _MINI_CITE if str(path) == "mini-cite" else Path(path)
    samples: dict[str, Sample] = {}
    problems = []
    required = [name for name in COLUMNS if name not in _OPTIONAL]
    for number, row in enumerate(read_table(path, required, "CiteME's data"), start=2):
        try:
            sample = _sample_of({**_OPTIONAL, **row})
            if sample.id in samples:
                raise ValueError(f"the id {sample.id} is used twice")
            samples[sample.id] = sample
        except ValueError as error:
            problems.append(f"row {number} ({error})")
    if problems:
        raise HoldfastError(
            f"{path} has {len(problems)} malformed row(s): {'; '.join(problems)}. Fix or remove them."
        )
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Dataset(path.stem, tuple(samples.values()), "all", digest)


def read_table(path: Path, columns: Sequence[str], what: str) -> list[dict[str, str]]:
    """The rows of a file separated by commas or tabs; `what` describes them in the error.

    Raises `HoldfastError` if the file cannot be read, has no rows, or lacks one of the columns.
    """
    with reading(path, what, f"a CSV or TSV in UTF-8 with the columns {', '.join(columns)}"):
        with path.open(encoding="utf-8-sig", newline="") as file:
            header = file.readline()
            file.seek(0)
            delimiter = "\t" if header.count("\t") > header.count(",") else ","
            rows = list(csv.DictReader(file, delimiter=delimiter, restval=""))
        if not rows:
            raise ValueError("it has no rows")
        if missing := [name for name in columns if name not in rows[0]]:
            raise ValueError(f"it lacks the column(s) {', '.join(missing)}")
    return rows


def _sample_of(row: dict[str, str]) -> Sample:
    """The sample of a row; raises `ValueError` if it is malformed."""
    if None in row:
        raise ValueError("it has more fields than the header")
    cells = [row[name].strip() for name in COLUMNS]
    name, excerpt, target, target_url, source, source_url, year, split = cells
    titles = tuple(t.strip() for t in target.split(TITLE_SEPARATOR) if t.strip())
    # Spreadsheets turn years into "2023.0".
    date = re.fullmatch(r"((?:19|20)\d\d(?:-\d\d-\d\d)?)(?:\.0)?", year)
    is_dated = year.lower() not in ("", "nan", "none", "null")
    problems = {
        "no id": not name,
        f"{excerpt.count(MARKER)} markers {MARKER} instead of one": excerpt.count(MARKER) != 1,
        "no target title": not titles,
        f"split {split!r} instead of train or test": split.lower() not in SPLITS[1:],
        f"year {year!r}": is_dated and not date,
    }
    for problem, is_present in problems.items():
        if is_present:
            raise ValueError(problem)
    known_date = date[1] if date else None
    context = row["context"].strip()
    return Sample(
        name, excerpt, titles, target_url, source, source_url, known_date, split.lower(), context
    )


def write_samples(path: Path, samples: Iterable[Sample]) -> None:
    """Write samples in CiteME's columns, atomically."""
    with new_file(path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(COLUMNS)
        for s in samples:
            target = (s.excerpt, TITLE_SEPARATOR.join(s.titles), s.target_url)
            rows.writerow((s.id, *target, s.source_title, s.source_url, s.date or "", s.split))


_UNREADABLE = (OSError, ValueError, LookupError, TypeError, AttributeError, SyntaxError, csv.Error)


@contextmanager
def reading(source: str | Path, what: str, wanted: str) -> Iterator[None]:
    """Report what fails while `source` is read as `what`; the message says to pass `wanted` instead."""
    try:
        yield
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        why = f"{'.'.join(map(str, first['loc']))}: {first['msg']}".removeprefix(": ")
    except _UNREADABLE as error:
        why = reason(error)
    else:
        return
    raise HoldfastError(f"Cannot read {source} as {what} ({why}). Pass {wanted}.")


@contextmanager
def new_file(path: Path, option: str = "--out") -> Iterator[Path]:
    """Yield a temporary path, which replaces `path` on success; creates the folder."""
    with written(path, f"or pass {option} another file."):
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as partial:
            yield partial
