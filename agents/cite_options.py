"""Options that several commands of `holdfast cite` share, and what the commands read from them."""

import argparse
import json
from argparse import ArgumentParser, Namespace
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import HoldfastError, printable
from .data import MINI_CITE_CORPUS, SPLITS, Dataset, load
from .episode import MAX_ACTIONS, RESULTS
from .limits import Allowance
from .paper_settings import default_max_tokens
from .records import Header, Key, Record, ResultFile, read

if TYPE_CHECKING:
    import dspy

    from .world import World

Options = argparse._ActionsContainer  # a parser, or a group of options


def add(
    options: Options, name: str, help: str, kind: Any = str, default: Any = None, **more: Any
) -> None:
    """Add an option whose help states its default."""
    text = help if default is None else f"{help} (default: {default})"
    options.add_argument(name, type=kind, default=default, help=text, **more)


def natural(text: str) -> int:
    """A whole number from 0, for argparse."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0")
    return int(text)


def positive(text: str) -> int:
    """A whole number above 0, for argparse."""
    if not natural(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def say(text: str) -> None:
    """Print a text in which control characters, such as a model's, are not executed."""
    print(printable(text), flush=True)


# ---- data ----


def add_data(parser: ArgumentParser, split: str = "test") -> None:
    """Add the options that `read_dataset` reads."""
    add(parser, "--data", "CiteME's CSV or TSV, or mini-cite", default="mini-cite")
    add(parser, "--split", "part of the data", default=split, choices=SPLITS)
    add(parser, "--limit", "use only the first N samples", positive, metavar="N")


def read_dataset(args: Namespace) -> Dataset:
    """The data that the options specify."""
    return load(args.data).select(args.split, args.limit)


def add_corpus(options: Options) -> None:
    what, path = "papers to search, .jsonl (default: those of mini-cite)", MINI_CITE_CORPUS
    options.add_argument("--corpus", type=Path, default=path, help=what)


# ---- result files ----


def add_run_data(parser: ArgumentParser) -> None:
    """Add the option that `read_run` reads."""
    add(parser, "--data", "the CSV or TSV of the run", default="mini-cite")


def read_run(args: Namespace, path: Path) -> tuple[Header, dict[Key, Record], Dataset]:
    """A run's header, records and data; raises `HoldfastError` if --data is not the run's."""
    header, records = read(path)
    named = header.dataset
    dataset = load(args.data)
    if dataset.sha256 != named.sha256:
        raise HoldfastError(
            f"{path} is a run on {named.name} (sha256 {named.sha256[:12]}), not on {args.data}. Pass that "
            "file with --data."
        )
    return header, records, dataset.select(named.split, header.n)


def add_out(parser: ArgumentParser, what: str) -> None:
    add(parser, "--out", what, Path, required=True)


def write_run(path: Path, settings: dict[str, Any], records: list[Record]) -> None:
    """Write a result file; raises `HoldfastError` if it exists."""
    if path.exists():
        raise HoldfastError(f"{path} exists. Delete it, or pass --out another name.")
    with ResultFile(path, settings) as file:
        for record in records:
            file.append(record)


def add_json(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print figures as JSON")


# ---- searches and limits ----


def add_search(parser: ArgumentParser, providers: Collection[str]) -> Options:
    """Add the options that search providers take, of which these are the names."""
    search = parser.add_argument_group("search and reading")
    add(search, "--search", "search provider", default="local", choices=providers)
    add_corpus(search)
    add(search, "--search-api", "URL of the search's API, a mirror, or an MCP server")
    encoder = "encoder of --search dense: a folder, or a name on Hugging Face"
    add(search, "--encoder", encoder, default="allenai/specter")
    add(search, "--results", "hits per search", positive, RESULTS)
    return search


def add_limits(parser: ArgumentParser, about: str) -> None:
    """Add the options that `read_limits` reads, and --max-actions."""
    limits = parser.add_argument_group("limits", about)
    add(limits, "--max-actions", "maximum actions per sample", positive, MAX_ACTIONS)
    add(limits, "--max-usd", "maximum US dollars", float)
    add(limits, "--max-run-tokens", "maximum tokens, in and out", int)
    add_price(limits)


def read_limits(args: Namespace) -> Allowance:
    """The limits of the options."""
    return Allowance(args.max_usd, args.max_run_tokens, args.usd_per_million)


# ---- language models ----


def add_price(parser: Options) -> None:
    what = "prices per million input and output tokens, in US dollars"
    add(parser, "--usd-per-million", what, float, nargs=2, metavar=("IN", "OUT"))


def add_model(parser: ArgumentParser) -> None:
    """Add the options that `open_model` reads."""
    group = parser.add_argument_group(
        "language model", "Hosted providers read their API key from the environment."
    )
    add(group, "--model", "as DSPy names it, such as openai/gpt-4o")
    add(group, "--api-base", "URL of an OpenAI-compatible server, ending in /v1")
    usual = "sampling temperature (default: 0.95, or the model's for OpenAI's reasoning models)"
    add(group, "--temperature", usual, float)
    usual = "maximum tokens per reply (default: 2048; none with --prompt citeme or for reasoning models)"
    add(group, "--max-tokens", usual, positive)
    more = "further parameters of requests, such as seed=1 or reasoning_effort=low"
    group.add_argument(
        "--lm-option", action="append", default=[], type=parameter, metavar="NAME=VALUE", help=more
    )
    schema = "let the server of --api-base enforce the schema of replies (--prompt json)"
    group.add_argument("--structured", action="store_true", help=schema)
    add(group, "--lm-timeout", "seconds of a request without a byte", float, 120.0)
    add(group, "--tries", "maximum tries per request, also of searches", positive, 6)


def parameter(text: str) -> tuple[str, Any]:
    """A name and a JSON value or text, for argparse."""
    name, separator, value = text.partition("=")
    if not separator or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def open_model(args: Namespace, world: "World | None" = None) -> "dspy.LM":
    """The language model of the options; raises `HoldfastError` without --model."""
    if not args.model:
        raise HoldfastError(
            "--model is missing. Pass a language model (with --api-base for your own server), or an agent "
            "without one, such as --agent rules."
        )
    from .lm import is_reasoning, language_model  # deferred: imports dspy, which takes seconds

    if args.structured and not args.api_base:
        raise HoldfastError("--structured applies to a server of your own. Pass --api-base, too.")
    temperature, max_tokens = args.temperature, args.max_tokens
    if not is_reasoning(args.model):
        temperature = 0.95 if temperature is None else temperature
        max_tokens = max_tokens or default_max_tokens(args.model, vars(args).get("prompt"))
    return language_model(
        args.model,
        api_base=args.api_base,
        temperature=temperature,
        max_tokens=max_tokens,
        timeout=args.lm_timeout,
        tries=args.tries,
        world=world,
        structured=args.structured,
        **dict(args.lm_option),
    )
