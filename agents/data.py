"""CiteME's data file: excerpts with one citation masked by `[CITATION]`, and its titles."""

import csv
import hashlib
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from .. import HoldfastError
from ..files import reason, whole_file, written

MARKER = "[CITATION]"
TITLE_SEPARATOR = "[TITLE_SEPARATOR]"
ASSETS = Path(__file__).parent / "assets"
MINI_CITE = ASSETS / "mini-cite.csv"
MINI_CITE_CORPUS = ASSETS / "mini-cite-corpus.jsonl"
SPLITS = ("all", "train", "test")
COLUMNS = (
    *("id", "excerpt", "target_paper_title", "target_paper_url"),
    *("source_paper_title", "source_paper_url", "year", "split"),
)
PUBLISHED_ROWS, PUBLISHED_TEST_ROWS = 130, 119  # CiteME paper, section 2; n of its tables 4 and 5


@dataclass(frozen=True)
class Sample:
    """One excerpt; `date` is the source's year ("2023") or full date ("2023-05-17"), if known."""

    id: str
    excerpt: str
    titles: tuple[str, ...]
    target_url: str
    source_title: str
    source_url: str
    date: str | None
    split: str

    @property
    def year(self) -> int | None:
        return int(self.date[:4]) if self.date else None


@dataclass(frozen=True)
class Dataset:
    """The samples of one file (after `select`), with the number of rows and hash of the whole file."""

    name: str
    samples: tuple[Sample, ...]
    split: str
    sha256: str
    rows: int
    test_rows: int
    malformed: tuple[str, ...] = ()

    @property
    def is_published(self) -> bool:
        """Whether the file has CiteME's numbers of rows, 130 and 119 test, as no hash is published."""
        return (self.rows, self.test_rows) == (PUBLISHED_ROWS, PUBLISHED_TEST_ROWS)

    def select(self, split: str, limit: int | None = None) -> "Dataset":
        """The rows of `split` ("all", "train" or "test"), at most `limit`; raises `HoldfastError`."""
        if split not in SPLITS:
            raise HoldfastError(f"There is no split {split!r}. Choose one of {', '.join(SPLITS)}.")
        chosen = tuple(s for s in self.samples if split in ("all", s.split))[:limit]
        if not chosen:
            raise HoldfastError(f"{self.name} has no rows in the {split} split. Choose another.")
        return replace(self, samples=chosen, split=split)

    def describe(self) -> str:
        """One line: name, n, split, accepted titles, years, hash."""
        several = sum(len(s.titles) > 1 for s in self.samples)
        undated = sum(s.date is None for s in self.samples)
        notes = [f"{several} with several accepted titles" if several else ""]
        notes += [f"{undated} without a year (no date cap)" if undated else ""]
        notes += [f"{len(self.malformed)} malformed rows excluded" if self.malformed else ""]
        extra = "".join(f", {note}" for note in notes if note)
        size = f"n = {len(self.samples)}, split = {self.split}"
        return f"{self.name}: {size}{extra}, sha256 {self.sha256[:12]}"


def load(path: str | Path, *, skip_malformed: bool = False) -> Dataset:
    """Read a CiteME file, comma- or tab-separated; `mini-cite` is the bundled one.

    Format: https://github.com/bethgelab/CiteME.

    Raises:
        HoldfastError: if the file cannot be read or, unless `skip_malformed`, has malformed rows; the
            message lists them by number (the header is row 1).
    """
    path = MINI_CITE if str(path) == "mini-cite" else Path(path)
    try:
        raw = path.read_bytes()
        text = raw.decode("utf-8-sig")
    except OSError as error:
        raise HoldfastError(
            f"Cannot read {path} ({reason(error)}). Pass the path of CiteME's DATASET.csv or CiteME.tsv, "
            "or `mini-cite`."
        ) from None
    except UnicodeDecodeError as error:
        raise HoldfastError(
            f"{path} is not UTF-8 (byte {error.start}). Save it as UTF-8."
        ) from None
    samples, problems, splits = parsed(text, path)
    if problems and not skip_malformed:
        raise HoldfastError(
            f"{path} has {len(problems)} malformed row(s): {'; '.join(problems)}. Fix them, or "
            "skip them with --skip-malformed."
        )
    digest = hashlib.sha256(raw).hexdigest()
    counts = len(splits), splits.count("test")
    return Dataset(path.stem, tuple(samples), "all", digest, *counts, tuple(problems))


def write(path: Path, samples: Iterable[Sample]) -> None:
    """Write samples in CiteME's columns, atomically."""
    with new_file(path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(COLUMNS)
        for s in samples:
            target = (s.excerpt, TITLE_SEPARATOR.join(s.titles), s.target_url)
            rows.writerow((s.id, *target, s.source_title, s.source_url, s.date or "", s.split))


@contextmanager
def new_file(path: Path, option: str = "--out") -> Iterator[Path]:
    """Yield a temporary path, which replaces `path` on success; creates the folder."""
    with written(path, f"or pass {option} another file."):
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as partial:
            yield partial


def parsed(text: str, path: Path) -> tuple[list[Sample], list[str], list[str]]:
    """The samples of a file, the problems of its malformed rows, and the split of each row."""
    header = text.partition("\n")[0]
    delimiter = "\t" if header.count("\t") > header.count(",") else ","
    csv.field_size_limit(10_000_000)
    rows = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    samples: dict[str, Sample] = {}
    problems: list[str] = []
    splits: list[str] = []
    number = 1
    try:
        if missing := [c for c in COLUMNS if c not in (rows.fieldnames or ())]:
            raise HoldfastError(
                f"{path} lacks the column(s) {', '.join(missing)}. CiteME's columns are "
                f"{', '.join(COLUMNS)}."
            )
        number = 2
        for row in rows:
            splits.append((row["split"] or "").strip().lower())
            try:
                sample = sample_of(row)
                if sample.id in samples:
                    raise ValueError(f"the id {sample.id} is used twice")
                samples[sample.id] = sample
            except ValueError as error:
                problems.append(f"row {number} ({error})")
            number += 1
    except csv.Error as error:
        raise HoldfastError(f"{path}, row {number}: {error}. Fix the quoting.") from None
    if not splits:
        raise HoldfastError(f"{path} has a header and no rows. Pass a file with excerpts.")
    return list(samples.values()), problems, splits


def sample_of(row: dict[str, str]) -> Sample:
    """The sample of a row; raises `ValueError` if it is malformed."""
    if None in row.values() or None in row:
        raise ValueError("the number of fields differs from the header's")
    cells = [row[name].strip() for name in COLUMNS]
    name, excerpt, target, target_url, source, source_url, year, split = cells
    if not name:
        raise ValueError("no id")
    if excerpt.count(MARKER) != 1:
        raise ValueError(f"{excerpt.count(MARKER)} markers {MARKER} instead of one")
    titles = accepted_titles(target)
    if not titles:
        raise ValueError("no target title")
    if split.lower() not in SPLITS[1:]:
        raise ValueError(f"split {split!r} instead of train or test")
    date = parsed_date(year)
    return Sample(name, excerpt, titles, target_url, source, source_url, date, split.lower())


def accepted_titles(cell: str) -> tuple[str, ...]:
    return tuple(t.strip() for t in cell.split(TITLE_SEPARATOR) if t.strip())


def parsed_date(cell: str) -> str | None:
    """A year or date as "YYYY" or "YYYY-MM-DD", or None; spreadsheets turn years into "2023.0"."""
    if cell.lower() in ("", "nan", "none", "null"):
        return None
    found = re.fullmatch(r"((?:19|20)\d\d)(?:\.0|(-\d\d-\d\d))?", cell)
    if not found:
        raise ValueError(f"year {cell!r}")
    return found[1] + (found[2] or "")


def with_alternatives(dataset: Dataset, path: Path) -> Dataset:
    """The dataset with further accepted titles from a CSV (`id`, `title`).

    For example those that CiteGuard's annotators accepted.

    Raises:
        HoldfastError: if the file cannot be read, or has no id of the dataset.
    """
    further: dict[str, tuple[str, ...]] = {}
    for row in read_table(path, ("id", "title"), "alternatives"):
        name = row["id"].strip()
        further[name] = further.get(name, ()) + accepted_titles(row["title"])
    if not further.keys() & {sample.id for sample in dataset.samples}:
        raise HoldfastError(f"{path} has no id of {dataset.name}. Use its ids in the column id.")
    wider = (replace(s, titles=s.titles + further.get(s.id, ())) for s in dataset.samples)
    return replace(dataset, samples=tuple(wider))


def read_table(path: Path, columns: Sequence[str], what: str) -> list[dict[str, str]]:
    """The rows of a CSV with at least these columns; `what` describes them in the error.

    Raises:
        HoldfastError: if the file cannot be read, has no rows, or a row lacks a column.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, ValueError, csv.Error) as error:
        problem = reason(error)
    else:
        problem = "it has no rows" if not rows else ""
        for number, row in enumerate(rows, start=2):
            if missing := [c for c in columns if not isinstance(row.get(c), str)]:
                problem = problem or f"row {number} lacks {', '.join(missing)}"
    if problem:
        raise HoldfastError(
            f"Cannot read {path} as {what} ({problem}). Pass a CSV with the columns "
            f"{', '.join(columns)}."
        )
    return rows
