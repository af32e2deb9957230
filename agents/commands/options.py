"""Options that several commands share, and what they name: data, models, programs, search."""

import argparse
from pathlib import Path
from typing import Any, get_args

from ... import HoldfastError
from ...command_parser import Parser
from ..citeagent.actions import Commands
from ..data import MINI_CITE_CORPUS, SPLITS, Dataset, load
from ..matching import THRESHOLD
from ..schema import Header
from ..search.open_search import PROVIDERS


def command_parser(name: str, about: str | None, example: str) -> Parser:
    """A parser for `holdfast cite NAME`, whose description is wrapped; `example` are the words after it."""
    return Parser(f"cite {name}", " ".join((about or "").split()), example)


def data_options(
    parser: argparse.ArgumentParser, default: str | None = "mini-cite", split: str | None = "test"
) -> None:
    """Add the options that name the data; without `default` they are those of the run judged."""
    fallback = default or "the one the run names"
    which = f"CiteME's CSV or TSV, or mini-cite ({fallback})"
    parser.add_argument("--data", default=default, metavar="FILE", help=which)
    split = split if default else None
    parser.add_argument("--split", choices=SPLITS, default=split, help=f"({split or fallback})")
    parser.add_argument("--limit", type=at_least_one, metavar="N", help="only the first N samples")
    parser.add_argument(
        "--skip-malformed", action="store_true", help="leave malformed rows out instead of stopping"
    )


def out_option(parser: argparse.ArgumentParser, what: str = "result file (.jsonl)") -> None:
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help=what)


def json_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print figures as JSON")


def threshold_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--threshold", type=float, default=THRESHOLD, help="of CiteME's matcher (0.8)"
    )


def price_option(parser: Any) -> None:
    parser.add_argument(
        "--usd-per-million", nargs=2, type=float, metavar=("IN", "OUT"), help="price of tokens"
    )


def agent_options(parser: argparse.ArgumentParser) -> None:
    """Add what `build.py` reads: language model, program, search, limits, recordings."""
    model_options(parser)
    program = parser.add_argument_group("program")
    program.add_argument("--commands", choices=get_args(Commands), default="search+read")
    program.add_argument("--demonstration", action="store_true", help="show one trajectory of ours")
    program.add_argument("--program", type=Path, metavar="JSON", help="compiled by optimize")
    program.add_argument("--results", type=at_least_one, default=10, metavar="N", help="per search")
    program.add_argument("--max-actions", type=at_least_one, default=15, metavar="N")
    program.add_argument(
        "--read-chars", type=characters, metavar="N", help="of a paper, per read, or all (12000)"
    )
    program.add_argument(
        "--repairs", type=int, metavar="N", help="how often an unusable reply is sent back (1)"
    )
    search = parser.add_argument_group("search and reading")
    search.add_argument("--search", choices=PROVIDERS, default="local")
    corpus_option(search)
    search.add_argument("--field", metavar="NAME", help='of study, such as "Computer Science"')
    search.add_argument("--s2-api", metavar="URL", help="Semantic Scholar's Graph API or a mirror")
    search.add_argument(
        "--s2-per-second", type=float, default=1.0, metavar="R", help="and of PDFs (1)"
    )
    search.add_argument(
        "--allow-private", action="store_true", help="fetch PDFs from local networks"
    )
    search.add_argument("--cache", type=Path, metavar="FOLDER", help="texts of papers read before")
    recording_options(parser)


def corpus_option(parser: Any) -> None:
    parser.add_argument("--corpus", type=Path, default=MINI_CITE_CORPUS, metavar="JSONL")


def model_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that name a language model and how it is asked."""
    lm = parser.add_argument_group("language model (hosted providers: key in the environment)")
    lm.add_argument("--model", metavar="NAME", help="as DSPy names it, such as openai/gpt-4o")
    lm.add_argument("--api-base", metavar="URL", help="any OpenAI-compatible server, ending in /v1")
    lm.add_argument("--temperature", type=float, default=0.95, help="(0.95, CiteME's)")
    lm.add_argument("--max-tokens", type=at_least_one, default=2048, metavar="N", help="per reply")
    lm.add_argument(
        "--lm-timeout", type=float, default=120.0, metavar="S", help="per request (120)"
    )
    lm.add_argument("--lm-per-second", type=float, metavar="R", help="requests per second, at most")
    lm.add_argument("--tries", type=at_least_one, default=6, metavar="N", help="per request (6)")


def recording_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that record what services answer, or replay it."""
    tape = parser.add_mutually_exclusive_group()
    tape.add_argument("--record", type=Path, metavar="FILE", help="store all answers of services")
    tape.add_argument("--replay", type=Path, metavar="FILE", help="use stored answers, no network")


def at_least_one(text: str) -> int:
    """A whole number above 0, for argparse."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return value


def characters(text: str) -> int | str:
    """A whole number above 0, or "all", for argparse."""
    return text if text == "all" else at_least_one(text)


def prices_of(args: argparse.Namespace) -> Any:
    """The prices of tokens that the options give, None without."""
    return tuple(args.usd_per_million) if args.usd_per_million else None


def new_name(path: Path) -> Path:
    """The path; raises `HoldfastError` if it exists."""
    if path.exists():
        raise HoldfastError(f"{path} exists. Remove it, or pass --out another name.")
    return path


def chosen_dataset(args: argparse.Namespace) -> Dataset:
    """The data that the options name."""
    return load(args.data, skip_malformed=args.skip_malformed).select(args.split, args.limit)


def dataset_of(args: argparse.Namespace, header: Header, path: Path) -> Dataset:
    """The data a run was made on; only mini-cite can be found without --data."""
    named = header.dataset
    if args.data is None and named.name != "mini-cite":
        raise HoldfastError(f"{path} is a run on {named.name}. Pass that file with --data.")
    data = load(args.data or "mini-cite", skip_malformed=args.skip_malformed)
    split = args.split or named.split
    dataset = data.select(split, args.limit or (header.n if split == named.split else None))
    if dataset.sha256 != named.sha256:
        raise HoldfastError(
            f"{path} was made on another version of the data (sha256 {named.sha256[:12]}). "
            "Pass that file with --data."
        )
    return dataset
