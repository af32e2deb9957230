"""Committed results grow, or are renewed in part: runs that are made later join those that are there."""

from collections.abc import Sequence
from typing import Any

from .... import HoldfastError
from .experiment import Experiment
from .table import COLUMNS, Table

Results = dict[str, Any]
# Fields of a table in JSON that follow from its rows, or are a sentence about some of them.
OF_ROWS = {"rows", "unit", "axis", "log", "summary", "averaged", "pooled", "notes"}
# Lists in the provenance, and what separates their items.
LISTS = {"commit": ", ", "threads": "; ", "processor": "; "}
# Of a row: where the names of its panel and curve are, and how many names come before its value.
PANEL, CURVE, NAMES = COLUMNS.index("panel"), COLUMNS.index("curve"), len(COLUMNS) - 1


def joined(experiment: Experiment, results: Results, order: Sequence[str] = ()) -> Results:
    """Results that lack runs, with the rows of the committed ones that they have no number for.

    order: curves that come first, such as the methods of a suite, where the committed ones lack one.

    Raises:
        HoldfastError: if the committed ones are of other images or weights.
    """
    before = experiment.committed.get(results["scale"], {})
    if not results["missing"] or not before or experiment.unreliable(before):
        return results
    tables = results["table"], before["table"]
    if experiment.counts or not tables[0].keys() | tables[1].keys() <= OF_ROWS:
        return results
    facts, others = results["provenance"], before["provenance"]
    origin = facts | {key: _union(facts[key], others[key], by) for key, by in LISTS.items()}
    for key in ("weights", "images"):
        some, more = sorted((facts.get(key), others.get(key)), key=lambda found: len(found or ()))
        # Runs of some of a table's networks may be renewed alone.
        if some != more and not (isinstance(some, list) and {*some} <= {*more}):
            raise HoldfastError(
                f"{experiment.name}: the committed results are of other {key} ({others.get(key)}, not "
                f"{facts.get(key)}), so --keep cannot add these to them. Delete "
                f"{experiment.path(results['scale'])} to begin anew."
            )
        origin |= {key: more} if more else {}
    rows = _rows(tables[0]["rows"], tables[1]["rows"], order)
    notes = [*dict.fromkeys(note for table in tables for note in table.get("notes", ()))]
    table = tables[0] | {"rows": rows} | ({"notes": notes} if notes else {})
    if experiment.remarks:
        table["notes"] = experiment.remarks(Table.read({"table": table}))
    # What a suite has had added since then is not among those that were made.
    made = [*dict.fromkeys([*before.get("made", ()), *results["made"]])]
    missing = [name for name in results["missing"] if name not in made] if before["missing"] else []
    return {
        **results,
        "provenance": origin,
        "missing": missing,
        "made": made if missing else [],
        "table": table,
    }


def _rows(new: list[Any], old: list[Any], order: Sequence[str]) -> list[Any]:
    """New rows and the old ones of other names, in the old order; by `order` if a curve is new."""
    known = {tuple(row[:NAMES]) for row in new}
    kept = [row for row in old if tuple(row[:NAMES]) not in known]
    panels = [*dict.fromkeys(row[PANEL] for row in [*old, *new])]
    curves = [*dict.fromkeys(row[CURVE] for row in old)]
    if not {row[CURVE] for row in new} <= {*curves}:
        curves = [*dict.fromkeys(order)]
    ranks = {curve: rank for rank, curve in enumerate(curves)}
    return sorted(
        [*new, *kept],
        key=lambda row: (panels.index(row[PANEL]), ranks.get(row[CURVE], len(ranks))),
    )


def _union(one: str, other: str, separator: str) -> str:
    return separator.join(sorted({*one.split(separator), *other.split(separator)}))
