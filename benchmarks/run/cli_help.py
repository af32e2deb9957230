"""The help of `holdfast test`, read from the source files, as importing them takes seconds."""

import argparse
import ast
from pathlib import Path
from textwrap import shorten
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
# Holdfast's own options, also shown by the parser.
OPTIONS = {
    "out": "run folder (default: runs/METHOD-TIME)",
    "resume": "continue the run in --out from its last checkpoint, if any, otherwise start it",
    "save_every": "steps between two checkpoints (default: about a minute)",
    "progress": "show a progress bar",
    "channels_last": "use faster convolutions for a custom network (always on for networks loaded by name)",
    "threads": "CPU threads; a fixed number gives identical results on any number of cores",
    "compile": "compile the backbone with torch.compile",
}
ALLOW = "comma-separated modules in the current folder that YAML files may import"
OTHERS = {
    "--config FILE": "read options from YAML; later options override them",
    "--print_config": "print all options of this run as YAML and exit",
    "--seed_everything N": "seed of the method's random numbers (default: 42)",
    "--trainer.NAME VALUE": "Lightning's options (accelerator, devices, ...): see --trainer.help",
}


class Found(NamedTuple):
    """Facts about a class, read from its source."""

    bases: tuple[str, ...]
    summary: str
    abstract: bool


class Kind(NamedTuple):
    """The classes that an option accepts by name: the subclasses of a base in a folder."""

    title: str
    option: str
    folder: str
    base: str


KINDS = (
    Kind("methods", "--model", "methods", "TTAMethod"),
    Kind("streams", "--data", "datamodules", "Stream"),
    Kind("sources of images", "--data.source", "datamodules", "ImageSource"),
    Kind("estimators", "--trainer.callbacks+=NAME", "callbacks", "AccuracyEstimator"),
    Kind("observers", "--trainer.callbacks+=NAME", "callbacks", "PeriodicObserver"),
    Kind("resets and restores", "--trainer.callbacks+=NAME", "callbacks", "Recovery"),
)
# Without a class name, these options print only lists; with one, the parser prints the class's options.
LISTS = {
    "--model.help": KINDS[:1],
    "--data.help": KINDS[1:2],
    "--data.source.help": KINDS[2:3],
    "--trainer.callbacks.help": KINDS[3:],
}
START = """usage: holdfast test --model METHOD --model.backbone NAME --data STREAM --data.source SOURCE ...

Run one method on one stream. For example:

  holdfast test --model RDumb --model.backbone glyphs --model.optimizer.lr 0.001 \\
      --data CCC --data.source Glyphs --data.difficulty 20 --data.images 64000 \\
      --trainer.callbacks+=SoftmaxScore --out runs/mine"""
END = """
--model.help NAME, --data.help NAME, --data.source.help NAME and --trainer.callbacks.help NAME show the
options of one class. Pass your own classes by class path: mymethods.Mine (in YAML: --allow mymethods)."""


def classes(folder: str) -> dict[str, Found]:
    """All classes in the source files of a folder, by name."""
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / folder).rglob("*.py"))
    nodes = (node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef))
    return {node.name: found(node) for node in nodes}


def found(node: ast.ClassDef) -> Found:
    """The bases and first sentence of a class, and whether it is abstract."""
    bases = tuple(ast.unparse(base) for base in node.bases)
    summary = (ast.get_docstring(node) or "").partition("\n\n")[0]
    functions = (part for part in node.body if isinstance(part, ast.FunctionDef))
    marks = (ast.unparse(mark) for function in functions for mark in function.decorator_list)
    return Found(bases, summary, "ABC" in bases or "abstractmethod" in marks)


def exported(folder: str) -> set[str]:
    """The names that a package exports, which the command line accepts."""
    tree = ast.parse((ROOT / folder / "__init__.py").read_text(encoding="utf-8"))
    return {
        name
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        for name in ast.literal_eval(node.value)
    }


def choices(kind: Kind) -> dict[str, str]:
    """The choices, each with a sentence."""
    known = classes(kind.folder)

    def descends(name: str) -> bool:
        bases = known[name].bases if name in known else ()
        return kind.base in bases or any(map(descends, bases))

    names = sorted(exported(kind.folder) & known.keys(), key=str.lower)
    return {
        name: known[name].summary for name in names if descends(name) and not known[name].abstract
    }


def section(kind: Kind) -> str:
    """The title of a kind, and one line per choice."""
    return f"{kind.title} ({kind.option}):\n{lines(choices(kind))}"


def lines(entries: dict[str, str]) -> str:
    """One line per name with its sentence."""
    wide = max(map(len, entries)) + 2
    return "\n".join(
        f"  {name:{wide}}{shorten(text, 106 - wide, placeholder=' ...')}"
        for name, text in entries.items()
    )


def parser() -> argparse.ArgumentParser:
    """A parser of the options above for shell completion; the command itself has a different one."""
    parser = argparse.ArgumentParser(prog="holdfast test")
    for kind in KINDS[:3]:
        parser.add_argument(kind.option, choices=choices(kind), help=kind.title)
    parser.add_argument("--out", type=Path, help=OPTIONS["out"])
    parser.add_argument("--resume", action="store_true", help=OPTIONS["resume"])
    for name in sorted(OPTIONS.keys() - {"out", "resume"}):
        parser.add_argument(f"--{name}", help=OPTIONS[name])
    parser.add_argument("--config", type=Path, help="YAML file with options")
    parser.add_argument("--allow", metavar="NAME", help=ALLOW)
    parser.add_argument("--model.backbone", help="name of a network")
    parser.add_argument("--model.help", choices=choices(KINDS[0]), help="options of a method")
    parser.add_argument("--data.help", choices=choices(KINDS[1]), help="options of a stream")
    parser.add_argument("--data.images", help="number of images in the stream")
    parser.add_argument("--trainer.devices", help="number of devices")
    parser.add_argument(
        "--trainer.strategy", choices=("sync", "streams"), help="strategy for several devices"
    )
    return parser


def main(argv: list[str]) -> int:
    """Print the short help, or only the lists that the arguments request."""
    if asked := [kind for word in argv for kind in LISTS.get(word, ())]:
        print("\n\n".join(map(section, asked)))
        return 0
    options = {f"--{name}": text for name, text in OPTIONS.items()}
    sections = [section(kind) for kind in KINDS]
    print("\n\n".join([START, *sections, f"options:\n{lines(options | OTHERS)}"]) + "\n" + END)
    return 0


def is_quick(argv: list[str]) -> bool:
    """Whether `main` can print the help that these arguments request."""
    asks_all = any(word in ("-h", "--help") for word in argv)
    return asks_all or any(word in LISTS for word in argv[-1:])
