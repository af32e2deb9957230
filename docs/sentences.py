"""Draw sentences at random from what users read (docs, errors, docstrings), to review their style.

python docs/sentences.py [SEED] [N] prints N sentences (default: seed 0, 200), each with its file.
"""

import ast
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PARTS = ("core", "agents", "benchmarks", "callbacks", "datamodules", "methods")
FENCED = re.compile(r"^```.*?^```|<!--.*?-->", re.MULTILINE | re.DOTALL)
END = re.compile(r"(?<=[.!?:])\s+(?=[A-Z`*\"(])")
SHORTEST = 4  # words


def prose(text: str) -> Iterator[str]:
    """The paragraphs of a Markdown text, list items and table cells included, code left out."""
    for block in re.split(r"\n\s*\n", FENCED.sub("", text)):
        if block.startswith(("    ", "#", "![")):
            continue
        for item in re.split(r"\n\s*[-*] |\n\|", block):
            yield from (cell for cell in item.split(" | ") if not set(cell) <= set("|-: "))


def written(tree: ast.AST) -> Iterator[str]:
    """Docstrings, and the texts of the errors that a module raises."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            yield from (ast.get_docstring(node) or "").split("\n\n")
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Error") and node.args:
            yield "".join(texts(node.args[0]))


def texts(node: ast.AST) -> Iterator[str]:
    """A text with "…" for what it formats."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.FormattedValue):
        yield "…"
    elif isinstance(node, ast.JoinedStr | ast.BinOp):
        for child in ast.iter_child_nodes(node):
            yield from texts(child)


def sentences() -> list[tuple[str, str]]:
    """All sentences, each with its file."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    modules = [path for part in PARTS for path in (ROOT / part).rglob("*.py")]
    found = []
    for path in sorted([*pages, *modules]):
        text = path.read_text(encoding="utf-8")
        blocks = prose(text) if path.suffix == ".md" else written(ast.parse(text))
        for block in blocks:
            for sentence in END.split(" ".join(block.split()).strip("|- ")):
                if len(sentence.split()) >= SHORTEST and not sentence.startswith(">>>"):
                    found.append((str(path.relative_to(ROOT)), sentence))
    return found


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:3]]
    seed, number = given + [0, 200][len(given) :]
    for place, sentence in random.Random(seed).sample(sentences(), number):
        print(f"{place}: {sentence}")
