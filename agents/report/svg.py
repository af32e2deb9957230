"""Small drawings as inline SVG: bars that stack, histograms, points; the same bytes every time."""

from collections.abc import Mapping, Sequence
from html import escape

# Paul Tol's bright scheme: told apart by colour-blind eyes.
COLOURS = ("#4477aa", "#66ccee", "#ccbb44", "#228833", "#aa3377", "#ee6677", "#bbbbbb", "#222255")
WIDTH, HEIGHT, MARGIN = 340, 170, 34


def stacked(columns: Sequence[Mapping[str, int]], kinds: Sequence[str], title: str) -> str:
    """One column per mapping from kind to count, for actions by step."""
    top = max((sum(column.values()) for column in columns), default=0) or 1
    width = (WIDTH - 2 * MARGIN) / max(len(columns), 8)
    shapes = []
    for k, column in enumerate(columns):
        base = 0
        for kind, colour in zip(kinds, COLOURS, strict=False):
            count = column.get(kind, 0)
            height = (HEIGHT - 2 * MARGIN) * count / top
            if count:
                y = HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * base / top - height
                label = f"step {k + 1}: {kind} {count}"
                shapes.append(bar(MARGIN + k * width, y, width * 0.85, height, colour, label))
            base += count
    used = [kind for kind in kinds if any(column.get(kind) for column in columns)]
    colours = dict(zip(kinds, COLOURS, strict=False))
    legend = "".join(
        f'<tspan fill="{colours[kind]}">&#9632;</tspan> {escape(kind.replace("_", " "))}  '
        for kind in used
    )
    shapes.append(f'<text x="{MARGIN}" y="{HEIGHT - 4}" font-size="9">{legend}</text>')
    return drawing(shapes, title, str(top), f"steps 1 to {len(columns)}")


def histogram(values: Sequence[float], title: str, unit: str, bins: int = 12) -> str:
    """How many samples fall where, between 0 and the largest value."""
    top = max(values, default=0.0) or 1.0
    counts = [0] * bins
    for value in values:
        counts[min(int(value / top * bins), bins - 1)] += 1
    most = max(counts) or 1
    width = (WIDTH - 2 * MARGIN) / bins
    shapes = []
    for k, count in enumerate(counts):
        height = (HEIGHT - 2 * MARGIN) * count / most
        y = HEIGHT - MARGIN - height
        label = f"{k * top / bins:.3g} to {(k + 1) * top / bins:.3g} {unit}: {count}"
        shapes.append(bar(MARGIN + k * width, y, width * 0.9, height, COLOURS[0], label))
    return drawing(shapes, title, str(most), f"0 to {top:.3g} {unit}")


def points(named: Mapping[str, tuple[float, float, float, float]], title: str, unit: str) -> str:
    """Accuracies with their intervals against a cost: name to (cost, low, accuracy, high)."""
    top = max((cost for cost, *_ in named.values()), default=0.0) or 1.0
    shapes = []
    for (name, (cost, low, accuracy, high)), k in zip(
        named.items(), range(len(named)), strict=True
    ):
        colour = COLOURS[k % len(COLOURS)]
        x = MARGIN + (WIDTH - 3 * MARGIN) * cost / top
        ys = [HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * v for v in (low, accuracy, high)]
        shapes += [
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{ys[0]:.1f}" y2="{ys[2]:.1f}" stroke="{colour}"/>',
            f'<circle cx="{x:.1f}" cy="{ys[1]:.1f}" r="3.5" fill="{colour}">'
            f"<title>{escape(name)}: {100 * accuracy:.1f} % at {cost:.4g} {unit}</title></circle>",
            f'<text x="{x + 5:.1f}" y="{ys[1] + 3:.1f}" font-size="9">{escape(name)}</text>',
        ]
    return drawing(shapes, title, "100 %", f"0 to {top:.3g} {unit}")


def bar(x: float, y: float, width: float, height: float, colour: str, label: str) -> str:
    """A rectangle that tells what it is when pointed at."""
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}">'
        f"<title>{escape(label)}</title></rect>"
    )


def drawing(shapes: Sequence[str], title: str, top: str, across: str) -> str:
    """The shapes with a title, a base line, the largest value and what the width stands for."""
    base = HEIGHT - MARGIN
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">'
        f'<text x="{MARGIN}" y="12" font-size="11">{escape(title)}</text>'
        f'<line x1="{MARGIN}" x2="{WIDTH - MARGIN}" y1="{base}" y2="{base}" stroke="currentColor"/>'
        f'<text x="{MARGIN - 4}" y="{MARGIN + 4}" font-size="9" text-anchor="end">{escape(top)}</text>'
        f'<text x="{WIDTH - MARGIN}" y="{base + 12}" font-size="9" text-anchor="end">'
        f"{escape(across)}</text>{''.join(shapes)}</svg>"
    )
