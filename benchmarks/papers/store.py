"""Write committed results as JSON with one row per line, so that diffs are readable."""

import json
from pathlib import Path
from typing import Any

from ...files import whole_file

COMPACT = ("rows", "points")  # keys of a table whose entries are written on one line each


def text_of(content: dict[str, Any]) -> str:
    """Results as the text of the file."""
    table = dict(content["table"])
    blocks = {name: table[name] for name in COMPACT if name in table}
    table |= {name: f"@{name}@" for name in blocks}
    text = json.dumps({**content, "table": table}, indent=1, ensure_ascii=False)
    for name, block in blocks.items():
        text = text.replace(f'"@{name}@"', compact(block))
    return text + "\n"


def compact(block: Any) -> str:
    """A list or mapping with one entry per line."""
    write = lambda value: json.dumps(value, ensure_ascii=False)  # noqa: E731
    if isinstance(block, dict):
        lines = [f"   {write(key)}: {write(value)}" for key, value in block.items()]
        return "{\n" + ",\n".join(lines) + "\n  }"
    return "[\n" + ",\n".join(f"   {write(row)}" for row in block) + "\n  ]"


def write(path: Path, content: dict[str, Any]) -> None:
    """Write results atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as partial:
        partial.write_text(text_of(content), encoding="utf-8")
