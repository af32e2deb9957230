"""The imports run one way only, lazy ones too: which part of the package may import which."""

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

from common import PARTS, ROOT, own_modules
from conftest import LONGEST

# What each part may import besides itself and core/ (holdfast.files, ...).
ARROWS: dict[str, set[str]] = {
    "benchmarks": {"agents", "callbacks", "datamodules", "methods"},
    "methods": {"callbacks"},
    "callbacks": set(),
    "datamodules": set(),
    "agents": set(),
    "holdfast": set(),  # the modules of core/
}

# The same within benchmarks, whose folders and single modules are rooms. All may import `test`, one run
# from the command line; and nothing but a user's words leads to cli, which may import all.
ROOMS = {
    "bench": {"results"},
    "papers": {"results", "streams", "suites", "train"},
    "suites": {"results"},
    "train": {"results", "suites"},
    "corruptions": {"results", "suites"},
    "demo": {"suites"},
    "leaderboard": {"results", "suites"},
    "live_curve": set(),
    "report_command": {"papers", "results"},
}


def imported(tree: ast.AST, package: str) -> Iterator[str]:
    """All that a module imports, anywhere in it, as full names: `a.b` for `from a import b`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) + 1 - node.level]
            words = [*(above if node.level else []), *([node.module] if node.module else [])]
            yield from (".".join([*words, alias.name]) for alias in node.names)
        elif isinstance(node, ast.Constant) and str(node.value).startswith("holdfast."):
            yield str(node.value)  # for import_module, or a class path


def known(name: str, modules: dict[str, Path]) -> str:
    """The module of the package that a name is, or comes from; other names stay as they are."""
    own = name
    while own and own not in modules:
        own = own.rpartition(".")[0]
    return own or name


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports() -> dict[str, set[str]]:
    """What each module imports by name, lazily or for type checkers, too."""
    modules = own_modules()
    found = {}
    for name, path in modules.items():
        package = name if path.stem == "__init__" else name.rpartition(".")[0]
        found[name] = {known(n, modules) for n in imported(parsed(path), package)} - {name}
    return found


def own() -> set[tuple[str, str]]:
    """The pairs of our own modules of which the first imports the second."""
    return {(a, b) for a, names in imports().items() for b in names if b in imports()}


def part(module: str) -> str:
    """The part of the package that a module belongs to; `holdfast` for those of core/."""
    words = module.split(".")
    return words[1] if len(words) > 1 and words[1] in PARTS else "holdfast"


def room(module: str) -> str:
    """The folder or single module of benchmarks that a module lies in."""
    return module.split(".")[2]


def test_between_the_parts():
    allowed = {name: {name, "holdfast"} | more for name, more in ARROWS.items()}
    entry = "holdfast.__main__"  # leads to the command line, as the installed command does
    check({(a, b) for a, b in own() if a != entry and part(b) not in allowed[part(a)]})


def test_within_benchmarks():
    inside = {(a, b) for a, b in own() if part(a) == part(b) == "benchmarks" and b.count(".") > 1}
    outside = {(a, b) for a, b in inside if room(a) not in (room(b), "cli")}
    common = {"test", "presets", "common_options"}
    check({(a, b) for a, b in outside if room(b) not in common | ROOMS.get(room(a), set())})


def check(broken: set[tuple[str, str]]) -> None:
    assert not broken, "\n".join(f"{a} imports {b}" for a, b in sorted(broken))


def test_no_circles():
    """Whoever names a package, or something of its own __init__.py, imports that file."""
    left = {(a, b) for a, names in imports().items() for b in names}
    while True:
        begin, end = {a for a, _ in left}, {b for _, b in left}
        inside = {(a, b) for a, b in left if a in end and b in begin}
        if inside == left:
            break
        left = inside
    check(left)


def test_imports_of_our_own_are_relative():
    nodes = [(a, node) for a, path in own_modules().items() for node in ast.walk(parsed(path))]
    names = {(a, alias.name) for a, n in nodes if isinstance(n, ast.Import) for alias in n.names}
    names |= {(a, n.module or "") for a, n in nodes if isinstance(n, ast.ImportFrom) if not n.level}
    check({(a, b) for a, b in names if b.split(".")[0] == "holdfast"})


def closure(module: str) -> set[str]:
    """All that a module leads to, with the __init__.py of every package on the way."""
    found: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            above = name.rpartition(".")[0] if name in imports() else ""
            waiting.extend([*imports().get(name, ()), *([above] if above else [])])
    return found


def test_agents_lead_to_no_torch():
    names = set().union(*(closure(name) for name in imports() if part(name) == "agents"))
    assert not {"torch", "lightning", "torchvision"} & {name.split(".")[0] for name in names}


def test_methods_lead_to_no_picture():
    names = set().union(*(closure(name) for name in imports() if part(name) == "methods"))
    assert not {"cv2", "matplotlib", "requests"} & {name.split(".")[0] for name in names}


def test_tests_share_helpers_not_tests():
    files = (ROOT / "tests").rglob("*.py")
    names = {(path.stem, name) for path in files for name in imported(parsed(path), "")}
    check({(a, b) for a, b in names if b.startswith("test_")})


def test_modules_of_tests_have_names_of_their_own():
    """Their folders are on the path, so that another module of the same name would shadow them."""
    names = Counter(path.stem for path in (ROOT / "tests").rglob("*.py"))
    taken = names.keys() & {*sys.stdlib_module_names, *packages_distributions()}
    assert not taken | {name for name, count in names.items() if count > 1}
    assert names.keys() >= {*LONGEST}, "conftest.py names a file that is not there"
