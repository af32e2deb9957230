"""CiteME's data file: excerpts with one `[CITATION]` left out, and the titles that fill it."""

import csv
import hashlib
import io
import re
from collections.abc import Iterable
from dataclasses import dataclass
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
    "id",
    "excerpt",
    "target_paper_title",
    "target_paper_url",
    "source_paper_title",
    "source_paper_url",
    "year",
    "split",
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
    """The rows of one file: `samples` after `select`, `rows` and `sha256` of the whole file."""

    name: str
    samples: tuple[Sample, ...]
    split: str
    sha256: str
    rows: int
    test_rows: int
    malformed: tuple[str, ...] = ()

    @property
    def is_published(self) -> bool:
        """Whether these look like CiteME's own 130 rows (119 of them test), known by their number.

        The published file may not be bundled, so no hash of it is known here.
        """
        return (self.rows, self.test_rows) == (PUBLISHED_ROWS, PUBLISHED_TEST_ROWS)

    def select(self, split: str, limit: int | None = None) -> "Dataset":
        """The rows of `split` ("all", "train" or "test"), at most `limit` of them."""
        if split not in SPLITS:
            raise HoldfastError(f"there is no split {split!r}: choose one of {', '.join(SPLITS)}.")
        chosen = tuple(s for s in self.samples if split in ("all", s.split))[:limit]
        if not chosen:
            raise HoldfastError(f"{self.name} has no rows in the {split} split: choose another.")
        return Dataset(
            self.name, chosen, split, self.sha256, self.rows, self.test_rows, self.malformed
        )

    def describe(self) -> str:
        """One line: name, n, split, accepted titles, years, hash."""
        several = sum(len(s.titles) > 1 for s in self.samples)
        undated = sum(s.date is None for s in self.samples)
        notes = [f"{several} with several accepted titles" if several else ""]
        notes += [f"{undated} without a year (no date cap)" if undated else ""]
        notes += [f"{len(self.malformed)} malformed rows left out" if self.malformed else ""]
        extra = "".join(f", {note}" for note in notes if note)
        size = f"n = {len(self.samples)}, split = {self.split}"
        return f"{self.name}: {size}{extra}, sha256 {self.sha256[:12]}"


def load(path: str | Path, *, skip_malformed: bool = False) -> Dataset:
    """Read a CiteME file, comma- or tab-separated (`mini-cite` names the bundled one).

    Raises `HoldfastError` naming every malformed row by its number (the header is row 1), unless
    `skip_malformed`. Format: https://github.com/bethgelab/CiteME.
    """
    path = MINI_CITE if str(path) == "mini-cite" else Path(path)
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise HoldfastError(
            f"cannot read {path} ({reason(error)}): give the path of CiteME's DATASET.csv or "
            "CiteME.tsv, or `mini-cite`."
        ) from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise HoldfastError(
            f"{path} is not UTF-8 (byte {error.start}): save it as UTF-8."
        ) from None
    samples, problems, splits = parsed(text, path)
    if problems and not skip_malformed:
        raise HoldfastError(
            f"{path} has {len(problems)} malformed row(s): {'; '.join(problems)}: mend them, or "
            "leave them out with --skip-malformed."
        )
    digest = hashlib.sha256(raw).hexdigest()
    return Dataset(
        path.stem, tuple(samples), "all", digest, len(splits), splits.count("test"), tuple(problems)
    )


def write(path: Path, samples: Iterable[Sample]) -> None:
    """Write samples in CiteME's columns, whole or not at all."""
    with written(path, "or give --out another file."):
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(COLUMNS)
            for s in samples:
                titles = TITLE_SEPARATOR.join(s.titles)
                target = (s.excerpt, titles, s.target_url)
                rows.writerow((s.id, *target, s.source_title, s.source_url, s.date or "", s.split))


def parsed(text: str, path: Path) -> tuple[list[Sample], list[str], list[str]]:
    header = text.partition("\n")[0]
    delimiter = "\t" if header.count("\t") > header.count(",") else ","
    csv.field_size_limit(10_000_000)
    rows = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        missing = [c for c in COLUMNS if c not in (rows.fieldnames or ())]
    except csv.Error as error:
        raise HoldfastError(f"{path}, row 1: {error}: mend the quoting.") from None
    if missing:
        raise HoldfastError(
            f"{path} lacks the column(s) {', '.join(missing)}; CiteME's columns are "
            f"{', '.join(COLUMNS)}."
        )
    samples: list[Sample] = []
    problems: list[str] = []
    splits: list[str] = []
    seen: set[str] = set()
    number = 1
    try:
        for number, row in enumerate(rows, start=2):
            splits.append((row["split"] or "").strip().lower())
            wrong = malformation(row, seen)
            if wrong:
                problems.append(f"row {number} ({wrong})")
                continue
            samples.append(sample_of(row))
            seen.add(row["id"].strip())
    except csv.Error as error:
        raise HoldfastError(f"{path}, row {number + 1}: {error}: mend the quoting.") from None
    if not splits:
        raise HoldfastError(f"{path} has a header and no rows: give a file with excerpts.")
    return samples, problems, splits


def malformation(row: dict[str, str], seen: set[str]) -> str | None:
    if None in row.values() or None in row:
        return "the number of fields differs from the header's"
    if not row["id"].strip():
        return "no id"
    if row["id"].strip() in seen:
        return f"the id {row['id'].strip()} is used twice"
    if row["excerpt"].count(MARKER) != 1:
        return f"{row['excerpt'].count(MARKER)} markers {MARKER} instead of one"
    if not accepted_titles(row["target_paper_title"]):
        return "no target title"
    if row["split"].strip().lower() not in SPLITS[1:]:
        return f"split {row['split']!r} instead of train or test"
    try:
        parsed_date(row["year"])
    except ValueError:
        return f"year {row['year']!r}"
    return None


def accepted_titles(cell: str) -> tuple[str, ...]:
    return tuple(t.strip() for t in cell.split(TITLE_SEPARATOR) if t.strip())


def parsed_date(cell: str) -> str | None:
    """As "YYYY" or "YYYY-MM-DD" or None; spreadsheets turn years into "2023.0"."""
    cell = cell.strip()
    if cell.lower() in ("", "nan", "none", "null"):
        return None
    found = re.fullmatch(r"((?:19|20)\d\d)(?:\.0|(-\d\d-\d\d))?", cell)
    if not found:
        raise ValueError(cell)
    return found[1] + (found[2] or "")


def sample_of(row: dict[str, str]) -> Sample:
    cell = {name: row[name].strip() for name in COLUMNS}
    return Sample(
        id=cell["id"],
        excerpt=cell["excerpt"],
        titles=accepted_titles(cell["target_paper_title"]),
        target_url=cell["target_paper_url"],
        source_title=cell["source_paper_title"],
        source_url=cell["source_paper_url"],
        date=parsed_date(cell["year"]),
        split=cell["split"].lower(),
    )
