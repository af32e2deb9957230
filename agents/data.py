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

    @property
    def is_published(self) -> bool:
        """Whether the file has CiteME's numbers of rows, 130 and 119 test, as no hash is published."""
        return (self.rows, self.test_rows) == (PUBLISHED_ROWS, PUBLISHED_TEST_ROWS)

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
        several = sum(len(s.titles) > 1 for s in self.samples)
        undated = sum(s.date is None for s in self.samples)
        notes = [f"{several} with several accepted titles" if several else ""]
        notes += [f"{undated} without a year (no date cap)" if undated else ""]
        extra = "".join(f", {note}" for note in notes if note)
        size = f"n = {len(self.samples)}, split = {self.split}"
        return f"{self.name}: {size}{extra}, sha256 {self.sha256[:12]}"


def load(path: str | Path) -> Dataset:
    """Read a CiteME file, comma- or tab-separated; `mini-cite` is the bundled one.

    Format: https://github.com/bethgelab/CiteME.

    Raises:
        HoldfastError: if the file cannot be read, or has malformed rows, which the message lists by number
            (the header is row 1).
    """
    path = MINI_CITE if str(path) == "mini-cite" else Path(path)
    rows = read_table(path, COLUMNS, "CiteME's data")
    samples: dict[str, Sample] = {}
    problems = []
    for number, row in enumerate(rows, start=2):
        try:
            sample = sample_of(row)
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
    tests = sum(row["split"].strip().lower() == "test" for row in rows)
    return Dataset(path.stem, tuple(samples.values()), "all", digest, len(rows), tests)


def read_table(path: Path, columns: Sequence[str], what: str) -> list[dict[str, str]]:
    """The rows of a file separated by commas or tabs; `what` describes them in the error.

    Raises:
        HoldfastError: if the file cannot be read, has no rows, or lacks one of the columns.
    """
    problem, rows = "it has no rows", []
    csv.field_size_limit(10_000_000)
    try:
        text = path.read_bytes().decode("utf-8-sig")
        header = text.partition("\n")[0]
        delimiter = "\t" if header.count("\t") > header.count(",") else ","
        file = io.StringIO(text, newline="")
        table = csv.DictReader(file, delimiter=delimiter, strict=True, restval="")
        if missing := [c for c in columns if c not in (table.fieldnames or ())]:
            problem = f"it lacks the column(s) {', '.join(missing)}"
        else:
            rows = list(table)
    except UnicodeDecodeError as error:
        problem = f"it is not UTF-8 (byte {error.start})"
    except (OSError, csv.Error) as error:
        problem = reason(error)
    if not rows:
        raise HoldfastError(
            f"Cannot read {path} as {what} ({problem}). Pass a CSV or TSV with the columns "
            f"{', '.join(columns)}."
        )
    return rows


def sample_of(row: dict[str, str]) -> Sample:
    """The sample of a row; raises `ValueError` if it is malformed."""
    if None in row:
        raise ValueError("it has more fields than the header")
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
