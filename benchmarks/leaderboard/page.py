"""The leaderboard as tables, one for each stream of a track, and its page in the docs."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from ... import HoldfastError
from ...files import whole_file
from ..results.collapse import has_collapsed
from ..results.deadline import at_response
from ..results.run_statistics import deviation, last_eighth
from ..results.tables import Column, Row
from ..results.text_table import formatted, points
from .entry import Entry, Result, check_form, read_entry
from .tiers import pairs, tiers
from .track import Key, Track

PAGE = Path(__file__).parents[2] / "docs" / "leaderboard.md"
SOURCE = "Source"
DEADLINE = 1.5  # of the source model's time on the same machine
_BEGIN, _END = "<!--tables of {}-->\n", "<!--end-->"


def _mean_text(row: Row) -> str:
    spread = f" ± {points(row['sd'], row['sd'])}" if row["sd"] is not None else ""
    return points(row["accuracy"], row["sd"]) + spread


COLUMNS = (
    Column("tier"),
    Column("method"),
    Column("accuracy", row_text=_mean_text),
    Column("last_eighth", "last eighth", text=points),
    Column("worst_seed", "worst seed", text=points),
    Column("collapsed"),
    Column("deadline_utility", "under a deadline", text=points),
    Column("step_ms", "ms a batch", text="{:,.0f}".format),
)


def read_entries(track: Track) -> dict[str, Entry]:
    """The entries of a track by method.

    Raises:
        HoldfastError: if one cannot be read, or differs from the track or from the others' streams.
    """
    entries: dict[str, Entry] = {}
    streams: dict[Key, tuple[str, int, int]] = {}
    for path in sorted(track.folder.glob("*.json")):
        entry = read_entry(path)
        check_form(entry, track)
        for run in entry.runs:
            stream = (run.stream_id, run.images, run.batch_size)
            if streams.setdefault(run.key, stream) != stream:
                raise HoldfastError(
                    f"{path} has the stream {stream} for {run.stream}, seed {run.seed}, but other "
                    f"entries have {streams[run.key]}. Add it again from runs of this version."
                )
        entries[entry.method] = entry
    return entries


def rows(entries: Mapping[str, Entry]) -> dict[str, list[Row]]:
    """The rows of each stream's table, the best method first; accuracies in [0,1]."""
    streams = dict.fromkeys(run.stream for entry in entries.values() for run in entry.runs)
    tables = {}
    for stream in streams:
        results = {
            name: [run for run in entry.runs if run.stream == stream]
            for name, entry in entries.items()
        }
        accuracies = {name: float(np.mean([r.accuracy for r in v])) for name, v in results.items()}
        source = {run.seed: run for run in results.get(SOURCE, ())}
        tables[stream] = [
            {"tier": tier, "method": name}
            | _numbers(results[name], source if name != SOURCE else {})
            | {"deadline_utility": _under_deadline(results[name], source)}
            for name, tier in tiers(accuracies, pairs(results)).items()
        ]
    return tables


def _numbers(runs: Sequence[Result], source: Mapping[int, Result]) -> Row:
    """The values of a row; `source`: the source model's runs by seed."""
    accuracies = [run.accuracy for run in runs]
    collapsed = [
        has_collapsed(
            last_eighth(run.accuracies), last_eighth(source[run.seed].accuracies), run.lasting
        )
        for run in runs
        if run.seed in source
    ]
    return {
        "accuracy": float(np.mean(accuracies)),
        "sd": deviation(accuracies),
        "last_eighth": float(np.mean([run.last_eighth for run in runs])),
        "worst_seed": min(accuracies),
        "collapsed": f"{sum(map(bool, collapsed))} of {len(runs)}" if collapsed else None,
        "step_ms": float(np.median([run.step_ms for run in runs])),
    }


def _under_deadline(runs: Sequence[Result], source: Mapping[int, Result]) -> float | None:
    """The mean continuous utility at `DEADLINE`, each step taking the method's median time.

    None where a time is missing, or the source model's is another machine's.
    """
    utilities = []
    for run in runs:
        reference = source.get(run.seed)
        if reference is None or run.environments != reference.environments:
            return None
        if run.ready_ms is None or reference.ready_ms is None:
            return None
        ready, ended = (np.full(len(run.sizes), ms) for ms in (run.ready_ms, run.step_ms))
        response = DEADLINE * reference.ready_ms
        utilities.append(at_response(run.accuracies, ready, ended, response).utility)
    return float(np.mean(utilities))


def text(track: Track, form: str = "text") -> Iterator[str]:
    """Each stream's title and table in one of the formats of `holdfast report`."""
    entries = read_entries(track)
    networks = ", ".join(dict.fromkeys(entry.backbone for entry in entries.values()))
    for stream, table in rows(entries).items():
        head = [column.head or column.name for column in COLUMNS]
        lines = [[column.of(row) for column in COLUMNS] for row in table]
        title = f"{stream} ({track.name}; network {networks}; seeds {_seeds(track)})"
        yield f"**{title}**" if form == "markdown" else title
        yield formatted([head, *lines], form)


def _seeds(track: Track) -> str:
    return ", ".join(map(str, dict.fromkeys(seed for _, seed in track.cells(track.methods[0]))))


def write_page(track: Track, page: Path = PAGE) -> Path:
    """Replace the tables of the track in the page.

    Raises:
        HoldfastError: if there is no page, as in an installed package.
    """
    if not page.exists():
        raise HoldfastError(f"There is no page {page}. Run this command in a clone of Holdfast.")
    content = page.read_text(encoding="utf-8")
    before, begin, rest = content.partition(_BEGIN.format(track.name))
    after = rest.partition(_END)[2]
    tables = "".join(f"{part}\n\n" for part in text(track, "markdown"))
    with whole_file(page) as partial:
        partial.write_text(f"{before}{begin}\n{tables}{_END}{after}", encoding="utf-8")
    return page
