"""What public docstrings say: the shapes of tensors, and which errors are raised."""

import ast
import re
from collections.abc import Iterator
from functools import cache

from common import ROOT

PARTS = ("core", "methods", "datamodules", "callbacks")
SHAPE = re.compile(
    r"\[[A-Za-z0-9_*., +-]*\]|scalar|(any|one) (shape|length)|shaped like|state dict"
)
RAISES = re.compile(r"[Rr]aises?\b|HoldfastError")


@cache
def functions() -> list[tuple[str, str, ast.FunctionDef]]:
    """Public functions and methods with a docstring: place, that of class and module, and the function."""
    found = []
    for path in (path for part in PARTS for path in sorted((ROOT / part).rglob("*.py"))):
        tree = ast.parse(path.read_text())
        for owner, function in public(tree):
            if ast.get_docstring(function):
                around = [ast.get_docstring(node) or "" for node in (tree, owner)]
                place = f"{path.relative_to(ROOT)}:{function.lineno} {function.name}"
                found.append((place, " ".join(around), function))
    return found


def public(owner: ast.Module | ast.ClassDef) -> Iterator[tuple[ast.AST, ast.FunctionDef]]:
    for node in owner.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from public(node)
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield owner, node


def raised(function: ast.FunctionDef) -> bool:
    """Whether it raises HoldfastError by itself."""
    return any(
        isinstance(node, ast.Raise) and node.exc and "HoldfastError" in ast.unparse(node.exc)
        for node in ast.walk(function)
    )


def takes_tensors(function: ast.FunctionDef) -> bool:
    """Whether tensors or arrays are among its arguments or results."""
    types = [ast.unparse(function.args), ast.unparse(function.returns or ast.Constant(None))]
    return bool(re.search(r"\b(Tensor|Array)\b", " ".join(types)))


def test_docstrings_state_shapes():
    """Of the function itself, or of its class or module for all of theirs."""
    tensors = [found for found in functions() if takes_tensors(found[2])]
    assert len(tensors) > 200
    silent = [
        place
        for place, around, function in tensors
        if not SHAPE.search(f"{ast.get_docstring(function)} {around}")
    ]
    assert silent == []


def test_docstrings_state_errors():
    raising = [found for found in functions() if raised(found[2])]
    assert len(raising) > 60
    assert [p for p, _, f in raising if not RAISES.search(ast.get_docstring(f) or "")] == []
