"""The help of `holdfast test`, read from the sources, as importing them takes seconds."""

import argparse
import ast
from pathlib import Path
from textwrap import shorten
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
# Options of our own, with what they do; the parser shows the same.
OPTIONS = {
    "out": "run folder (default: runs/METHOD-TIME)",
    "resume": "continue the run in --out from its last checkpoint, or start it if there is none",
    "save_every": "steps between two checkpoints (default: about a minute)",
    "progress": "show a progress bar",
    "cache": "store batches in FOLDER, so that all runs share them (SIZE as in 20GB; default: 10GB)",
    "channels_last": "faster convolutions for a custom network; networks loaded by name always use it",
    "threads": "CPU threads; a fixed number gives identical results on any number of cores",
    "compile": "torch.compile the backbone",
}
ALLOW = "modules in the current folder, separated by commas, that YAML files may import"
OTHERS = {
    "--config FILE": "options from YAML; options after it override them",
    "--print_config": "print all options of this run as YAML and exit",
    "--seed_everything N": "of the method's random numbers (default: 42)",
    "--trainer.NAME VALUE": "Lightning's (accelerator, devices, precision, ...): --trainer.help shows all",
}


class Found(NamedTuple):
    """A class as its source describes it."""

    bases: tuple[str, ...]
    summary: str
    abstract: bool


class Kind(NamedTuple):
    """Classes that an option takes by their names: those in a folder that descend from a base."""

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
# What asks for a list alone; with a class behind it, it is the parser's, and shows that class' options.
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
options of one of these; your own classes go by class path: mymethods.Mine (in YAML: --allow mymethods)."""


def classes(folder: str) -> dict[str, Found]:
    """All classes in the sources of a part."""
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / folder).rglob("*.py"))
    nodes = (node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef))
    return {node.name: found(node) for node in nodes}


def found(node: ast.ClassDef) -> Found:
    """A class's bases, its first sentence, and whether it is abstract."""
    bases = tuple(ast.unparse(base) for base in node.bases)
    summary = (ast.get_docstring(node) or "").partition("\n\n")[0]
    functions = (part for part in node.body if isinstance(part, ast.FunctionDef))
    marks = (ast.unparse(mark) for function in functions for mark in function.decorator_list)
    return Found(bases, summary, "ABC" in bases or "abstractmethod" in marks)


def exported(folder: str) -> set[str]:
    """The names that a part exports, which the command line knows."""
    tree = ast.parse((ROOT / folder / "__init__.py").read_text(encoding="utf-8"))
    return {
        name
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        for name in ast.literal_eval(node.value)
    }


def choices(kind: Kind) -> dict[str, str]:
    """The choices, with a sentence about each."""
    known = classes(kind.folder)

    def descends(name: str) -> bool:
        bases = known[name].bases if name in known else ()
        return kind.base in bases or any(map(descends, bases))

    names = sorted(exported(kind.folder) & known.keys(), key=str.lower)
    return {
        name: known[name].summary for name in names if descends(name) and not known[name].abstract
    }


def section(kind: Kind) -> str:
    """A kind's title and a line for each choice."""
    return f"{kind.title} ({kind.option}):\n{lines(choices(kind))}"


def lines(entries: dict[str, str]) -> str:
    """A name and its sentence on each line."""
    wide = max(map(len, entries)) + 2
    return "\n".join(
        f"  {name:{wide}}{shorten(text, 106 - wide, placeholder=' ...')}"
        for name, text in entries.items()
    )


def parser() -> argparse.ArgumentParser:
    """The options above with what they take, for shells to complete; the command itself has another."""
    parser = argparse.ArgumentParser(prog="holdfast test")
    for kind in KINDS[:3]:
        parser.add_argument(kind.option, choices=choices(kind), help=kind.title)
    parser.add_argument("--out", type=Path, help=OPTIONS["out"])
    parser.add_argument("--resume", action="store_true", help=OPTIONS["resume"])
    for name in sorted(OPTIONS.keys() - {"out", "resume"}):
        parser.add_argument(f"--{name}", help=OPTIONS[name])
    parser.add_argument("--config", type=Path, help="options from YAML")
    parser.add_argument("--allow", metavar="NAME", help=ALLOW)
    parser.add_argument("--model.backbone", help="a network's name")
    parser.add_argument("--model.help", choices=choices(KINDS[0]), help="the options of one")
    parser.add_argument("--data.help", choices=choices(KINDS[1]), help="the options of one")
    parser.add_argument("--data.images", help="how many the stream has")
    parser.add_argument("--trainer.devices", help="how many")
    parser.add_argument(
        "--trainer.strategy", choices=("sync", "streams"), help="of several devices"
    )
    return parser


def main(argv: list[str]) -> int:
    """Print the short help, or only the list that the words ask for."""
    if asked := [kind for word in argv for kind in LISTS.get(word, ())]:
        print("\n\n".join(map(section, asked)))
        return 0
    options = {f"--{name}": text for name, text in OPTIONS.items()}
    sections = [section(kind) for kind in KINDS]
    print("\n\n".join([START, *sections, f"options:\n{lines(options | OTHERS)}"]) + "\n" + END)
    return 0


def is_quick(argv: list[str]) -> bool:
    """Whether `main` has what these words ask for."""
    asks_all = any(word in ("-h", "--help") for word in argv)
    return asks_all or any(word in LISTS for word in argv[-1:])
