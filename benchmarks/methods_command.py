"""`holdfast methods`: list the methods with their ideas and papers."""

import argparse
import ast
import json
from pathlib import Path

METHODS = Path(__file__).parent.parent / "methods"


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("holdfast methods", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the names and ideas as JSON")
    return parser


def main(argv: list[str]) -> None:
    if parser().parse_args(argv).json:
        print(json.dumps(ideas(), indent=1))
        return
    for name, idea in ideas().items():
        print(f"{name:12} {idea}")
    print("\nholdfast test --model.help NAME lists the arguments of a method.")


def ideas() -> dict[str, str]:
    """The first sentence of each method's docstring, read from the source since torch imports slowly."""
    sentences = {}
    for line in ast.parse((METHODS / "__init__.py").read_text(encoding="utf-8")).body:
        file = METHODS / f"{getattr(line, 'module', '')}.py"
        if not isinstance(line, ast.ImportFrom) or line.module == "base" or not file.exists():
            continue
        exported = {alias.name for alias in line.names}
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and node.name in exported:
                first = (ast.get_docstring(node) or "").partition("\n\n")[0]
                sentences[node.name] = " ".join(first.split())
    return dict(sorted(sentences.items(), key=lambda pair: pair[0].lower()))
