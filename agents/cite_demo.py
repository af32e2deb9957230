"""`holdfast cite demo`: run every agent without a language model on mini-cite."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from . import cite_options as options
from .baselines import BASELINES, baseline
from .cite_score import table
from .data import MINI_CITE_CORPUS, load
from .records import read
from .run import run
from .score import score


def add_options(parser: ArgumentParser) -> None:
    """Add the options of the command, and its action."""
    parser.set_defaults(action=_demo)
    options.add(parser, "--out", "folder of the result files", Path, Path("runs/cite-demo"))


def _demo(args: Namespace) -> None:
    dataset = load("mini-cite").select("test")
    print(
        f"{dataset.describe()}\n"
        "mini-cite is a small dataset of Holdfast: its scores are not CiteME scores.\n"
    )
    scores = {}
    for name in BASELINES:
        path = args.out / f"{name}.jsonl"
        path.unlink(missing_ok=True)
        run(dataset, *baseline(name, str(MINI_CITE_CORPUS)), path)
        scores[name] = score(read(path)[1], dataset)
    print(table(scores))
    print(f"\nNext: holdfast cite score {args.out / 'rules.jsonl'}")
