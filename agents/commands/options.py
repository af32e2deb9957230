"""Options shared by several commands, and the data and prices that they specify."""

import argparse
from pathlib import Path
from typing import get_args

from ... import HoldfastError
from ...command_parser import Parser
from ..citeagent.actions import Commands
from ..costs import Prices
from ..data import MINI_CITE_CORPUS, SPLITS, Dataset, load
from ..matching import THRESHOLD
from ..schema import Header
from ..search.open_search import PROVIDERS


class CiteParser(Parser):
    """The parser of a command of `holdfast cite`, with methods that add the shared options."""

    def __init__(self, name: str, about: str | None, example: str) -> None:
        super().__init__(f"cite {name}", " ".join((about or "").split()), example)

    def data(self, default: str | None = "mini-cite", split: str = "test") -> None:
        """Add the options of the data, by default `default` or the data of the run."""
        fallback, split_text = (default, split) if default else ("the run's",) * 2
        which = f"CiteME's CSV or TSV, or mini-cite (default: {fallback})"
        self.add("--data", default=default, metavar="FILE", help=which)
        chosen, which = split if default else None, f"(default: {split_text})"
        self.add("--split", choices=SPLITS, default=chosen, help=which)
        self.add("--limit", type=at_least_one, metavar="N", help="use only the first N samples")
        self.flag("--skip-malformed", "skip malformed rows instead of stopping")

    def out(self, what: str = "result file (.jsonl)") -> None:
        self.add("--out", type=Path, required=True, metavar="FILE", help=what)

    def json(self) -> None:
        self.flag("--json", "print figures as JSON")

    def html(self) -> None:
        self.add("--html", type=Path, metavar="FILE", help="write a self-contained page")

    def threshold(self) -> None:
        what = f"threshold of CiteME's matcher, from 0 to 1 (default: {THRESHOLD})"
        self.add("--threshold", type=float, default=THRESHOLD, help=what)

    def prices(self) -> None:
        what = "prices per million input and output tokens, in US dollars"
        pair = ("IN", "OUT")
        self.add("--usd-per-million", nargs=2, type=float, metavar=pair, help=what)

    def corpus(self) -> None:
        what = "papers to search (default: those of mini-cite)"
        self.add("--corpus", type=Path, default=MINI_CITE_CORPUS, metavar="JSONL", help=what)

    def model(self) -> None:
        """Add the options of the language model and of requests to it."""
        lm = self.add_argument_group(
            "language model (hosted providers: API key in the environment)"
        )
        add = lm.add_argument
        add("--model", metavar="NAME", help="as DSPy names it, such as openai/gpt-4o")
        add("--api-base", metavar="URL", help="an OpenAI-compatible server, ending in /v1")
        add("--temperature", type=float, default=0.95, help="default: 0.95, as in CiteME")
        most = "maximum tokens per reply (default: 2048)"
        add("--max-tokens", type=at_least_one, default=2048, metavar="N", help=most)
        late = "timeout per request in seconds (default: 120)"
        add("--lm-timeout", type=float, default=120.0, metavar="S", help=late)
        add("--lm-per-second", type=float, metavar="R", help="maximum requests per second")
        tries = "maximum tries per request (default: 6)"
        add("--tries", type=at_least_one, default=6, metavar="N", help=tries)

    def recording(self) -> None:
        """Add the options that record the answers of services, or replay them."""
        add = self.add_mutually_exclusive_group().add_argument
        add("--record", type=Path, metavar="FILE", help="record all answers of services")
        add("--replay", type=Path, metavar="FILE", help="use recorded answers, without network")

    def agent(self) -> None:
        """Add the options that `build.py` reads: language model, program, search, limits, recordings."""
        self.model()
        add = self.add_argument_group("program").add_argument
        what = "the agent's actions (default: search+read)"
        add("--commands", choices=get_args(Commands), default="search+read", help=what)
        add("--demonstration", action="store_true", help="show the model a worked example")
        add("--program", type=Path, metavar="JSON", help="compiled by `holdfast cite optimize`")
        what = "hits per search (default: 10)"
        add("--results", type=at_least_one, default=10, metavar="N", help=what)
        what = "maximum actions per sample (default: 15)"
        add("--max-actions", type=at_least_one, default=15, metavar="N", help=what)
        what = "characters shown per read, or all (default: 12000; all with --prompt citeme)"
        add("--read-chars", type=characters, metavar="N", help=what)
        what = "send an unusable reply back up to N times (default: 1; 0 with --prompt citeme)"
        add("--repairs", type=int, metavar="N", help=what)
        add = self.add_argument_group("search and reading").add_argument
        add("--search", choices=PROVIDERS, default="local", help="(default: local)")
        self.corpus()
        add("--field", metavar="NAME", help='field of study, such as "Computer Science"')
        add("--s2-api", metavar="URL", help="Semantic Scholar's Graph API or a mirror")
        what = "maximum searches, and PDF downloads, per second (default: 1)"
        add("--s2-per-second", type=float, default=1.0, metavar="R", help=what)
        add("--allow-private", action="store_true", help="allow PDFs from private networks")
        add("--cache", type=Path, metavar="FOLDER", help="folder for cached texts of papers")
        self.recording()


def at_least_one(text: str) -> int:
    """A whole number above 0, for argparse."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def characters(text: str) -> int | str:
    """A whole number above 0, or "all", for argparse."""
    return text if text == "all" else at_least_one(text)


def prices_of(args: argparse.Namespace) -> Prices | None:
    """The prices of tokens that the options give, if any."""
    return tuple(args.usd_per_million) if args.usd_per_million else None


def new_name(path: Path) -> Path:
    """The path; raises `HoldfastError` if it exists."""
    if path.exists():
        raise HoldfastError(f"{path} exists. Delete it, or pass --out another name.")
    return path


def chosen_dataset(args: argparse.Namespace) -> Dataset:
    """The data that the options specify."""
    return load(args.data, skip_malformed=args.skip_malformed).select(args.split, args.limit)


def dataset_of(args: argparse.Namespace, header: Header, path: Path) -> Dataset:
    """The data of a run, which needs --data unless it is mini-cite.

    Raises:
        HoldfastError: if the data is not found, or differs from the run's.
    """
    named = header.dataset
    if args.data is None and named.name != "mini-cite":
        raise HoldfastError(f"{path} is a run on {named.name}. Pass that file with --data.")
    data = load(args.data or "mini-cite", skip_malformed=args.skip_malformed)
    split = args.split or named.split
    dataset = data.select(split, args.limit or (header.n if split == named.split else None))
    if dataset.sha256 != named.sha256:
        raise HoldfastError(
            f"{path} was made with another version of the data (sha256 {named.sha256[:12]}). "
            "Pass that file with --data."
        )
    return dataset
