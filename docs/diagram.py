"""Write docs/architecture.svg: the way of a batch from its source to the reports.

python docs/diagram.py. The colours follow the light or dark scheme of the reader's system.
"""

from pathlib import Path

FILE = Path(__file__).with_name("architecture.svg")
WIDTH, HEIGHT = 600, 424
STYLE = """
text { font: 15px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: #1f2933; }
.title { font-weight: 700; font-size: 19px; }
.code { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #00695c; }
.box { fill: #eef6f5; stroke: #00897b; stroke-width: 1.5; }
.trainer { fill: none; stroke: #7b8794; stroke-width: 1.5; stroke-dasharray: 6 5; }
.arrow { fill: none; stroke: #52606d; stroke-width: 2; }
.head { fill: #52606d; }
@media (prefers-color-scheme: dark) {
text { fill: #e4e7eb; }
.code { fill: #4db6ac; }
.box { fill: #1d2b2a; stroke: #4db6ac; }
.trainer { stroke: #9aa5b1; }
.arrow { stroke: #cbd2d9; }
.head { fill: #cbd2d9; }
}"""
# A line that begins with a backtick is code.
CALLBACKS = [
    "`Callback",
    "estimators: accuracy, no labels",
    "alarms, resets",
    "record: a row for each batch",
]
METHOD = ["`LightningModule", "Tent, RDumb, yours:", "predict, then adapt", "a network"]
# Left, top, width, height, title, lines.
BOXES = [
    (14, 28, 152, 92, "Source", ["clean images:", "glyphs, folders"]),
    (196, 28, 206, 92, "Stream", ["`LightningDataModule", "CCC, CIN-C, yours"]),
    (432, 28, 154, 92, "Batch", ["images, labels,", "index, segment"]),
    (14, 180, 320, 138, "Callbacks", CALLBACKS),
    (388, 180, 198, 138, "Method", METHOD),
    (14, 360, 152, 50, "Run folder", []),
    (196, 360, 94, 50, "Report", []),
    (302, 360, 100, 50, "Papers", []),
    (414, 360, 172, 50, "Leaderboard", []),
]
# From, to: x and y; the last arrow has a head at both ends.
ARROWS = [
    ((166, 74), (196, 74)),
    ((402, 74), (432, 74)),
    ((509, 120), (509, 180)),
    ((90, 318), (90, 360)),
    ((166, 385), (196, 385)),
    ((388, 249), (334, 249)),
]
TRAINER = "M182 12 H598 V332 H2 V166 H182 Z"
HEAD = 8  # length of an arrow's head


def box(left: int, top: int, width: int, height: int, title: str, lines: list[str]) -> str:
    """A box with its title and lines."""
    parts = [f'<rect class="box" x="{left}" y="{top}" width="{width}" height="{height}" rx="8"/>']
    first = top + (29 if lines else 31)
    texts = [("title", title), *(("code" if x[0] == "`" else "line", x.lstrip("`")) for x in lines)]
    for number, (kind, text) in enumerate(texts):
        y = first + 23 * number + 2 * bool(number)
        parts.append(f'<text class="{kind}" x="{left + 13}" y="{y}">{text}</text>')
    return "\n".join(parts)


def head(x: int, y: int, right: int, down: int) -> str:
    """The head of an arrow that ends at (x, y) in this direction."""
    back_x, back_y = x - HEAD * right, y - HEAD * down
    aside_x, aside_y = HEAD * down * 5 // 8, HEAD * right * 5 // 8
    corners = [(x, y), (back_x + aside_x, back_y + aside_y), (back_x - aside_x, back_y - aside_y)]
    return f'<polygon class="head" points="{" ".join(f"{a},{b}" for a, b in corners)}"/>'


def arrow(start: tuple[int, int], end: tuple[int, int], both: bool) -> str:
    """A straight line, across or down, with its heads."""
    right, down = ((b > a) - (b < a) for a, b in zip(start, end, strict=True))
    parts = [f'<path class="arrow" d="M{start[0]} {start[1]} L{end[0]} {end[1]}"/>']
    parts += [head(*end, right, down)] + [head(*start, -right, -down)] * both
    return "\n".join(parts)


def picture() -> str:
    """The diagram as SVG."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        "<title>From a source of images to the leaderboard</title>",
        f"<style>{STYLE}\n</style>",
        f'<path class="trainer" d="{TRAINER}"/>',
        '<text class="code" x="196" y="156">Trainer.test(method, stream)</text>',
        *(box(*b) for b in BOXES),
        *(arrow(*a, both=a is ARROWS[-1]) for a in ARROWS),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    FILE.write_text(picture(), encoding="utf-8")
