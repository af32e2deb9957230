"""Summary tables of a report: methods by settings, and each method in each setting."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .aggregate import Group, average
from .run_protocol import sentence
from .run_statistics import Difference
from .runs import grouped
from .text_table import Lines

WIDE = 6  # maximum number of settings as columns
BELOW = "↓"  # marks a mean below the source model's


def points(share: float | None) -> str:
    """A share as percentage points."""
    return "-" if share is None else f"{100 * share:.1f}"


def mean_text(group: Group) -> str:
    """Mean ± sd in percent, the number of runs if some are missing, and BELOW if below the source model."""
    text = points(group.accuracy)
    if group.accuracy_sd is not None:
        text += f" ± {points(group.accuracy_sd)}"
    if group.below_source:
        text += f" {BELOW}"
    return text if group.complete else f"{text} ({group.n} of {group.wanted})"


def gain_text(gain: Difference | None) -> str:
    """A difference in points with its interval."""
    if gain is None:
        return "-"
    text = f"{100 * gain.mean:+.1f}"
    if gain.low is None or gain.high is None:
        return text
    return f"{text} [{100 * gain.low:+.1f}, {100 * gain.high:+.1f}]"


def collapse_text(group: Group) -> str:
    """The number of collapsed runs, and the step of the first collapse."""
    if group.collapsed is None:
        return "-" if group.n and not group.adapts else "?"
    text, first = (
        f"{group.collapsed} of {len(group.values('collapsed'))}",
        group.first_collapse_step,
    )
    return text if first is None else f"{text}, step {first:,}"


def yes_no(value: bool | None) -> str:
    return "-" if value is None else "yes" if value else "no"


class Column(NamedTuple):
    """One property of a method in a setting, in the table and by its names in JSON and CSV."""

    header: str
    text: Callable[[Group], str]
    values: Callable[[Group], dict[str, Any]]
    rare: bool = False  # in the table only if it is known for a method


def value(
    name: str, text: Callable[[Any], str], header: str, rare: bool = False, of: str = ""
) -> Column:
    """The column of an attribute of the group, or of the mean of an attribute of its runs (`of`)."""
    own = lambda group: group.mean(of) if of else getattr(group, name)  # noqa: E731
    return Column(header, lambda group: text(own(group)), lambda group: {name: own(group)}, rare)


def gain(name: str, header: str) -> Column:
    """The column of a difference, with its interval."""

    def values(group: Group) -> dict[str, Any]:
        found = getattr(group, name) or (None, None, None, 0)
        return dict(zip((name, f"{name}_low", f"{name}_high"), found[:3], strict=True))

    return Column(header, lambda group: gain_text(getattr(group, name)), values, rare=True)


# Add a column here to report another property of methods.
COLUMNS = (
    Column("setting", lambda g: g.setting, lambda g: {"setting": g.setting}),
    Column("method", lambda g: g.label, lambda g: {"method": g.label}),
    Column(
        "accuracy",
        mean_text,
        lambda g: {
            "accuracy": g.accuracy,
            "sd": g.accuracy_sd,
            "runs": g.n,
            "runs_wanted": g.wanted,
        },
    ),
    value("worst", points, "worst run"),
    value("last_eighth", points, "last eighth", of="accuracy_last_eighth"),
    value("below_source", yes_no, "below source"),
    Column(
        "collapsed",
        collapse_text,
        lambda g: {
            "collapsed": g.collapsed,
            "collapse_rate": g.collapse_rate,
            "first_collapse_step": g.first_collapse_step,
        },
    ),
    gain("gain_over_source", "over Source [95 %]"),
    gain("gain_over_bnadapt", "over BNAdapt [95 %]"),
    value("negative_flips", points, "negative flips", True, of="negative_flips"),
    value(
        "time_in_sources", lambda x: "-" if x is None else f"{x:.2f}", "time × Source", rare=True
    ),
    value("never_updated", lambda n: str(n or "-"), "never updated", rare=True),
    value("images_used", points, "images used", True, of="images_used"),
    value(
        "adapting_share",
        lambda x: "-" if x is None else f"{x:.2%}",
        "adapts",
        True,
        "adapting_share",
    ),
    Column("", lambda g: "-", lambda g: {"protocol": g.protocol and str(g.protocol)}, rare=True),
)


def facts(group: Group) -> dict[str, Any]:
    """All columns for JSON."""
    return {key: found for column in COLUMNS for key, found in column.values(group).items()}


def matrix(groups: Sequence[Group]) -> Lines:
    """Methods as rows and settings as columns (transposed for many settings), with averages.

    Only a method with all settings has an average.
    """
    across = list(dict.fromkeys(group.setting for group in groups))
    lines = [["method", *across, *(["Average"] if len(across) > 1 else [])]]
    for label, same in by_method(groups).items():
        found = {group.setting: group for group in same}
        cells = [mean_text(found[name]) if name in found else "-" for name in across]
        if len(across) > 1:
            whole = average(same) if len(found) == len(across) else None
            marked = "" if all(group.complete for group in same) else " (runs missing)"
            cells.append("-" if whole is None else points(whole) + marked)
        lines.append([label, *cells])
    if len(across) <= WIDE:
        return lines
    lines[0][0] = "setting"
    return [list(line) for line in zip(*lines, strict=True)]


def by_method(groups: Sequence[Group]) -> dict[str, list[Group]]:
    """Groups by the label of the method, the source model first."""
    ordered = sorted(groups, key=lambda group: group.adapts or not group.n)
    return grouped(ordered, lambda group: group.label)


def protocols(groups: Sequence[Group]) -> str:
    """The protocols of a table's rows as a sentence; "" without rows."""
    found = sentence((g.setting, g.label, g.protocol) for g in groups if g.protocol)
    return found and f"{found}; accuracy"


def details(groups: Sequence[Group]) -> Lines:
    """One line per method and setting; the column of a single setting is omitted."""
    one = len({group.setting for group in groups}) == 1
    shown = [
        column
        for column in COLUMNS
        if not (one and column.header == "setting")
        and not (column.rare and all(column.text(group) == "-" for group in groups))
    ]
    return [[c.header for c in shown], *([c.text(group) for c in shown] for group in groups)]


def raw(groups: Sequence[Group]) -> Lines:
    """The details with plain numbers and names for CSV."""
    rows = [facts(group) for group in groups]
    lines = [["" if v is None else str(v) for v in row.values()] for row in rows]
    return [list(rows[0]), *lines]
