"""`holdfast cite`: CiteME, finding the paper behind a citation; the options of its commands."""

import argparse
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

from . import commands
from .actions import Commands
from .baselines import BASELINES
from .data import MINI_CITE_CORPUS, SPLITS
from .search import PROVIDERS

Options = argparse._ActionsContainer  # a parser, or a group of options


def main(argv: list[str]) -> int:
    """Run a command and return its exit status."""
    args = parser().parse_args(argv)
    return args.command(args) or 0


def parser() -> ArgumentParser:
    """The parser of all commands."""
    whole = ArgumentParser(
        "holdfast cite",
        description="Evaluate agents on CiteME: which paper is cited?",
        epilog="example: holdfast cite run --agent bm25 --out runs/bm25.jsonl",
    )
    parts = whole.add_subparsers(title="commands", metavar="COMMAND", required=True)
    add_command(parts, "demo", commands.demo, demo_options)
    add_command(parts, "run", commands.run_agent, run_options)
    add_command(parts, "score", commands.score_runs, score_options)
    add_command(parts, "show", commands.show_sample, show_options)
    add_command(parts, "compare", commands.compare_runs, compare_options)
    add_command(parts, "dense", commands.evaluate_dense, dense_options)
    add_command(parts, "import", commands.import_results, import_options)
    about = "Filter or analyse a dataset, as CiteME's paper does"
    curate = parts.add_parser("curate", help=about, description=about)
    parts = curate.add_subparsers(title="analyses", metavar="ANALYSIS", required=True)
    add_command(parts, "ambiguity", commands.find_ambiguous, ambiguity_options)
    add_command(parts, "filter", commands.filter_known, filter_options)
    add_command(parts, "people", commands.import_people, people_options)
    add_command(parts, "tags", commands.tag_papers, tag_options)
    return whole


def add_command(
    parts: Any,
    name: str,
    run: Callable[[Namespace], int | None],
    add_options: Callable[[ArgumentParser], None],
) -> None:
    """Add a command that calls `run`, whose docstring is its help."""
    about = " ".join((run.__doc__ or "").split())
    made = parts.add_parser(name, help=about.partition(".")[0], description=about)
    made.set_defaults(command=run)
    add_options(made)


def option(
    options: Options, name: str, help: str, kind: Any = str, default: Any = None, **more: Any
) -> None:
    """Add an option whose help states its default."""
    text = help if default is None else f"{help} (default: {default})"
    options.add_argument(name, type=kind, default=default, help=text, **more)


def demo_options(parser: ArgumentParser) -> None:
    option(parser, "--out", "folder of the result files", Path, Path("runs/cite-demo"))


def run_options(parser: ArgumentParser) -> None:
    data_options(parser)
    out_option(parser, "result file (.jsonl)")
    agents = ("citeagent", *BASELINES)
    option(parser, "--agent", "citeagent needs --model", default="citeagent", choices=agents)
    option(parser, "--workers", "parallel samples", positive, 4)
    option(parser, "--repeats", "answers per sample", positive, 1)
    price_option(parser)
    limits = parser.add_argument_group(
        "limits", "Those of the run include the costs that are already in its file."
    )
    option(limits, "--max-usd", "maximum US dollars of the run", float)
    option(limits, "--max-run-tokens", "maximum tokens of the run", int)
    model_options(parser)
    program = parser.add_argument_group("program")
    forms = "prompt and replies: DSPy's fields, JSON, or as in CiteME's paper"
    option(program, "--prompt", forms, default="dspy", choices=commands.PROMPTS)
    folder = "the folder prompt_templates of CiteME's repository (--prompt citeme)"
    option(program, "--prompts", folder, Path)
    actions = get_args(Commands)
    option(program, "--commands", "actions of the agent", default="search+read", choices=actions)
    example = "show the model a worked example"
    program.add_argument("--demonstration", action="store_true", help=example)
    option(program, "--results", "hits per search", positive, 10)
    option(program, "--max-actions", "maximum actions per sample", positive, 15)
    shown = "characters shown per read (default: 12000; all with --prompt citeme)"
    option(program, "--read-chars", shown, positive)
    search = parser.add_argument_group("search and reading")
    option(search, "--search", "search provider", default="local", choices=PROVIDERS)
    corpus_option(search)
    option(search, "--s2-api", "URL of Semantic Scholar's Graph API or a mirror")


def score_options(parser: ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="result files")
    data_of_run_option(parser)
    price_option(parser)
    json_option(parser)


def show_options(parser: ArgumentParser) -> None:
    parser.add_argument("run", type=Path, help="result file of `holdfast cite run`")
    parser.add_argument("sample", nargs="?", help="its id; without one, all samples are listed")
    option(parser, "--repeat", "number of the answer, from 0", natural, 0)
    parser.add_argument("--full", action="store_true", help="show all hits and complete texts")
    data_of_run_option(parser)


def compare_options(parser: ArgumentParser) -> None:
    parser.add_argument("a", type=Path, metavar="RUN_A", help="result file")
    parser.add_argument("b", type=Path, metavar="RUN_B", help="result file")
    data_of_run_option(parser)
    json_option(parser)


def dense_options(parser: ArgumentParser) -> None:
    data_options(parser)
    option(parser, "--encoder", "a folder, or a name on Hugging Face", default="allenai/specter")
    corpus_option(parser)
    json_option(parser)


def import_options(parser: ArgumentParser) -> None:
    parser.add_argument("results", type=Path, help="JSON of CiteME's code")
    out_option(parser, "result file (.jsonl)")
    data_options(parser)


def ambiguity_options(parser: ArgumentParser) -> None:
    which = "CSV or TSV with the column excerpt, in which TARGETCIT or [CITATION] is the citation"
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help=which)


def filter_options(parser: ArgumentParser) -> None:
    files = "result files of --commands none"
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help=files)
    out_option(parser, "the remaining samples, in CiteME's columns (.csv)")
    data_of_run_option(parser)


def people_options(parser: ArgumentParser) -> None:
    columns = "CSV with the columns sample, annotator, title, seconds"
    parser.add_argument("answers", type=Path, help=columns)
    out_option(parser, "result file (.jsonl)")
    data_options(parser)


def tag_options(parser: ArgumentParser) -> None:
    data_options(parser, split="all")
    out_option(parser, "tags (.jsonl)")
    model_options(parser)


# ---- options of several commands ----


def data_options(parser: ArgumentParser, split: str = "test") -> None:
    option(parser, "--data", "CiteME's CSV or TSV, or mini-cite", default="mini-cite")
    option(parser, "--split", "part of the data", default=split, choices=SPLITS)
    option(parser, "--limit", "use only the first N samples", positive, metavar="N")


def data_of_run_option(parser: ArgumentParser) -> None:
    option(parser, "--data", "the CSV or TSV of the run", default="mini-cite")


def out_option(parser: ArgumentParser, what: str) -> None:
    option(parser, "--out", what, Path, required=True)


def json_option(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print figures as JSON")


def price_option(parser: ArgumentParser) -> None:
    what = "prices per million input and output tokens, in US dollars"
    option(parser, "--usd-per-million", what, float, nargs=2, metavar=("IN", "OUT"))


def corpus_option(options: Options) -> None:
    what, path = "papers to search, .jsonl (default: those of mini-cite)", MINI_CITE_CORPUS
    options.add_argument("--corpus", type=Path, default=path, help=what)


def model_options(parser: ArgumentParser) -> None:
    """Add the options of the language model and of requests to it."""
    model = parser.add_argument_group(
        "language model", "Hosted providers read their API key from the environment."
    )
    option(model, "--model", "as DSPy names it, such as openai/gpt-4o")
    option(model, "--api-base", "URL of an OpenAI-compatible server, ending in /v1")
    option(model, "--temperature", "sampling temperature", float, 0.95)
    option(model, "--max-tokens", "maximum tokens per reply", positive, 2048)
    option(model, "--lm-timeout", "seconds of a request without a byte", float, 120.0)
    option(model, "--tries", "maximum tries per request, also of searches", positive, 6)
    option(model, "--cache", "folder for replies and texts of papers, which are reused", Path)


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
