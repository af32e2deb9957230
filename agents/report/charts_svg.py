"""Small charts for a page (stacked bars, histograms, points), which the template draws as SVG."""

from collections.abc import Mapping, Sequence
from typing import Any

# Paul Tol's bright scheme, distinguishable for colour-blind readers.
COLOURS = ("#4477aa", "#66ccee", "#ccbb44", "#228833", "#aa3377", "#ee6677", "#bbbbbb", "#222255")
WIDTH, HEIGHT, MARGIN = 340, 170, 34
DEEP, BASE = HEIGHT - 2 * MARGIN, HEIGHT - MARGIN
Chart = dict[str, Any]


def chart(title: str, top: str, across: str, **shapes: Any) -> Chart:
    empty: Chart = {"bars": [], "points": [], "legend": []}
    return {**empty, "title": title, "top": top, "across": across, **shapes}


def bar(x: float, y: float, width: float, height: float, colour: str, label: str) -> Chart:
    return {"x": x, "y": y, "width": width, "height": height, "colour": colour, "label": label}


def stacked(columns: Sequence[Mapping[str, int]], kinds: Sequence[str], title: str) -> Chart:
    """Stacked bars, one per mapping from kind to count, for actions by step."""
    top = max((sum(column.values()) for column in columns), default=0) or 1
    width = (WIDTH - 2 * MARGIN) / max(len(columns), 8)
    bars = []
    for k, column in enumerate(columns):
        y = float(BASE)
        for kind, colour in zip(kinds, COLOURS, strict=False):
            if count := column.get(kind, 0):
                height = DEEP * count / top
                y -= height
                label = f"step {k + 1}: {kind} {count}"
                bars.append(bar(MARGIN + k * width, y, width * 0.85, height, colour, label))
    colours = zip(kinds, COLOURS, strict=False)
    legend = [(kind, colour) for kind, colour in colours if any(c.get(kind) for c in columns)]
    return chart(title, str(top), f"steps 1 to {len(columns)}", bars=bars, legend=legend)


def histogram(values: Sequence[float], title: str, unit: str, bins: int = 12) -> Chart:
    """A histogram from 0 to the largest value."""
    top = max(values, default=0.0) or 1.0
    counts = [0] * bins
    for value in values:
        counts[min(int(value / top * bins), bins - 1)] += 1
    most, width = max(counts) or 1, (WIDTH - 2 * MARGIN) / bins
    bars = []
    for k, count in enumerate(counts):
        height = DEEP * count / most
        label = f"{k * top / bins:.3g} to {(k + 1) * top / bins:.3g} {unit}: {count}"
        bars.append(bar(MARGIN + k * width, BASE - height, width * 0.9, height, COLOURS[0], label))
    return chart(title, str(most), f"0 to {top:.3g} {unit}", bars=bars)


def points(named: Mapping[str, tuple[float, float, float, float]], title: str, unit: str) -> Chart:
    """Accuracies in [0, 1] with intervals against a cost: name to (cost, low, accuracy, high)."""
    top = max((cost for cost, *_ in named.values()), default=0.0) or 1.0
    found = []
    for k, (name, (cost, *rates)) in enumerate(named.items()):
        low, y, high = (BASE - DEEP * rate for rate in rates)
        label = f"{name}: {100 * rates[1]:.1f} % at {cost:.4g} {unit}"
        place = {"x": MARGIN + (WIDTH - 3 * MARGIN) * cost / top, "low": low, "y": y, "high": high}
        found.append({**place, "colour": COLOURS[k % len(COLOURS)], "label": label, "name": name})
    return chart(title, "100 %", f"0 to {top:.3g} {unit}", points=found)
