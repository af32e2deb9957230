"""`holdfast cite`: CiteME, finding the paper behind a citation; the options of its commands."""

import argparse
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path
from typing import get_args

from . import commands
from .actions import Commands
from .baselines import BASELINES
from .data import MINI_CITE_CORPUS, SPLITS
from .search import PROVIDERS

PLACES = ("title", "title+abstract", "abstract", "excerpt")
Parsers = argparse._SubParsersAction  # type: ignore[type-arg]


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
    about = "analyse or filter a dataset, as CiteME's paper does"
    curate = parts.add_parser("curate", help=about, description=about)
    parts = curate.add_subparsers(title="analyses", metavar="ANALYSIS", required=True)
    add_command(parts, "data", commands.describe_data, quality_options)
    add_command(parts, "ambiguity", commands.find_ambiguous, ambiguity_options)
    add_command(parts, "filter", commands.filter_known, filter_options)
    add_command(parts, "people", commands.import_people, people_options)
    add_command(parts, "tags", commands.tag_papers, tag_options)
    return whole


def add_command(
    parts: Parsers,
    name: str,
    run: Callable[[Namespace], int | None],
    add_options: Callable[[ArgumentParser], None],
) -> None:
    """Add a command that calls `run`, whose docstring is its help."""
    about = " ".join((run.__doc__ or "").split())
    made = parts.add_parser(name, help=about.partition(".")[0], description=about)
    made.set_defaults(command=run)
    add_options(made)


def demo_options(parser: ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, default=Path("runs/cite-demo"), metavar="FOLDER")


def run_options(parser: ArgumentParser) -> None:
    data_options(parser)
    out_option(parser, "result file (.jsonl)")
    add = parser.add_argument
    agents = ("citeagent", *BASELINES)
    add("--agent", choices=agents, default="citeagent", help="(default: citeagent, with --model)")
    add("--workers", type=positive, default=4, metavar="N", help="parallel samples (default: 4)")
    add("--repeats", type=positive, default=1, metavar="N", help="answers per sample (default: 1)")
    price_option(parser)
    group = "limits (those of the run include the costs already in its file)"
    add = parser.add_argument_group(group).add_argument
    add("--max-usd", type=float, metavar="X", help="maximum US dollars of the run")
    add("--max-run-tokens", type=int, metavar="N", help="maximum tokens of the run")
    add("--sample-usd", type=float, metavar="X", help="maximum US dollars per sample")
    add("--sample-tokens", type=int, metavar="N", help="maximum tokens per sample")
    model_options(parser)
    add = parser.add_argument_group("program").add_argument
    forms = "prompt and replies: DSPy's fields, JSON, or as in CiteME's paper (default: dspy)"
    add("--prompt", choices=commands.PROMPTS, default="dspy", help=forms)
    folder = "the folder prompt_templates of CiteME's repository (--prompt citeme)"
    add("--prompts", type=Path, metavar="FOLDER", help=folder)
    what = "the agent's actions (default: search+read)"
    add("--commands", choices=get_args(Commands), default="search+read", help=what)
    add("--demonstration", action="store_true", help="show the model a worked example")
    add("--results", type=positive, default=10, metavar="N", help="hits per search (default: 10)")
    what = "maximum actions per sample (default: 15)"
    add("--max-actions", type=positive, default=15, metavar="N", help=what)
    what = "characters shown per read, or all (default: 12000; all with --prompt citeme)"
    add("--read-chars", type=characters, metavar="N", help=what)
    what = "send an unusable reply back up to N times (default: 1; 0 with --prompt citeme)"
    add("--repairs", type=natural, metavar="N", help=what)
    group = parser.add_argument_group("search and reading")
    add = group.add_argument
    add("--search", choices=PROVIDERS, default="local", help="(default: local)")
    corpus_option(group)
    add("--field", metavar="NAME", help='field of study, such as "Computer Science"')
    add("--s2-api", metavar="URL", help="Semantic Scholar's Graph API or a mirror")
    what = "maximum searches, and PDF downloads, per second (default: 1)"
    add("--s2-per-second", type=float, default=1.0, metavar="R", help=what)


def score_options(parser: ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="result files")
    data_options(parser, None)
    price_option(parser)
    json_option(parser)


def show_options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("run", type=Path, metavar="RUN", help="result file of `holdfast cite run`")
    add("sample", metavar="SAMPLE", help="its id")
    add("--repeat", type=natural, default=0, metavar="K", help="which, from 0 (default: 0)")
    add("--full", action="store_true", help="show all hits and complete texts")
    data_options(parser, None)


def compare_options(parser: ArgumentParser) -> None:
    parser.add_argument("a", type=Path, metavar="RUN_A")
    parser.add_argument("b", type=Path, metavar="RUN_B")
    data_options(parser, None)
    parser.add_argument("--strict", action="store_true", help="use the strict matcher")
    json_option(parser)


def dense_options(parser: ArgumentParser) -> None:
    data_options(parser)
    add = parser.add_argument
    excerpts = "ids [n] and vectors [n, d] of excerpts"
    add("--excerpts", type=Path, required=True, metavar="NPZ", help=excerpts)
    papers = "ids [n], titles [n] and vectors [n, d] of papers"
    add("--papers", type=Path, required=True, metavar="NPZ", help=papers)
    stored = "first download stored embeddings to --papers, for the paper ids in this file"
    add("--fetch", type=Path, metavar="IDS", help=stored)
    computed = "first compute --papers, of --corpus, and --excerpts with this model"
    add("--encoder", metavar="MODEL", help=computed)
    add("--adapter", metavar="NAME", help="adapter of --encoder, such as allenai/specter2")
    query = "adapter for excerpts, such as allenai/specter2_adhoc_query (default: --adapter)"
    add("--query-adapter", metavar="NAME", help=query)
    add("--device", default="cpu", help="device of --encoder, as in torch (default: cpu)")
    corpus_option(parser)
    what = "field in which an excerpt is embedded; `excerpt` embeds only its text (default: title)"
    add("--place", choices=PLACES, default="title", help=what)
    add("--s2-api", metavar="URL", help="Semantic Scholar's Graph API or a mirror")
    json_option(parser)


def import_options(parser: ArgumentParser) -> None:
    parser.add_argument("results", type=Path, metavar="FILE", help="JSON of CiteME's code")
    out_option(parser, "result file (.jsonl)")
    data_options(parser)


def quality_options(parser: ArgumentParser) -> None:
    data_options(parser, split="all")
    own = "labels of excerpts (columns dataset, label)"
    parser.add_argument("--labels", type=Path, metavar="CSV", help=own)


def ambiguity_options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    which = "one excerpt per line, or a table with the column excerpt"
    add("files", nargs="+", type=Path, metavar="FILE", help=which)
    mark = "the text that marks the citation (default: TARGETCIT or [CITATION])"
    add("--target", metavar="MARK", help=mark)
    add("--list", action="store_true", help="print the ambiguous excerpts")


def filter_options(parser: ArgumentParser) -> None:
    files = "result files of --commands none"
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help=files)
    out_option(parser, "the remaining samples, in CiteME's columns (.csv)")
    data_options(parser, None)


def people_options(parser: ArgumentParser) -> None:
    columns = "columns sample, annotator, title, seconds"
    parser.add_argument("answers", type=Path, metavar="CSV", help=columns)
    out_option(parser, "result file (.jsonl)")
    data_options(parser)


def tag_options(parser: ArgumentParser) -> None:
    data_options(parser, split="all")
    out_option(parser, "tags (.jsonl)")
    model_options(parser)


# ---- options of several commands ----


def data_options(
    parser: ArgumentParser, default: str | None = "mini-cite", split: str = "test"
) -> None:
    """Add the options of the data, by default `default` or the data of the run."""
    fallback, split_text = (default, split) if default else ("the run's",) * 2
    add = parser.add_argument
    which = f"CiteME's CSV or TSV, or mini-cite (default: {fallback})"
    add("--data", default=default, metavar="FILE", help=which)
    chosen = split if default else None
    add("--split", choices=SPLITS, default=chosen, help=f"(default: {split_text})")
    add("--limit", type=positive, metavar="N", help="use only the first N samples")


def out_option(parser: ArgumentParser, what: str) -> None:
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help=what)


def json_option(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print figures as JSON")


def price_option(parser: ArgumentParser) -> None:
    what = "prices per million input and output tokens, in US dollars"
    pair = ("IN", "OUT")
    parser.add_argument("--usd-per-million", nargs=2, type=float, metavar=pair, help=what)


def corpus_option(parser: argparse._ActionsContainer) -> None:
    what, path = "papers to search (default: those of mini-cite)", MINI_CITE_CORPUS
    parser.add_argument("--corpus", type=Path, default=path, metavar="JSONL", help=what)


def model_options(parser: ArgumentParser) -> None:
    """Add the options of the language model and of requests to it."""
    group = "language model (hosted providers: API key in the environment)"
    add = parser.add_argument_group(group).add_argument
    add("--model", metavar="NAME", help="as DSPy names it, such as openai/gpt-4o")
    add("--api-base", metavar="URL", help="an OpenAI-compatible server, ending in /v1")
    add("--temperature", type=float, default=0.95, help="default: 0.95, as in CiteME")
    most = "maximum tokens per reply (default: 2048)"
    add("--max-tokens", type=positive, default=2048, metavar="N", help=most)
    late = "timeout of a request in seconds without a byte (default: 120)"
    add("--lm-timeout", type=float, default=120.0, metavar="S", help=late)
    tries = "maximum tries per request, also of searches (default: 6)"
    add("--tries", type=positive, default=6, metavar="N", help=tries)
    kept = "keep the model's replies and texts of papers in this folder, and use those in it"
    add("--cache", type=Path, metavar="FOLDER", help=kept)


def natural(text: str) -> int:
    """A whole number from 0, for argparse."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0")
    return int(text)


def positive(text: str) -> int:
    """A whole number above 0, for argparse."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def characters(text: str) -> int | str:
    """A whole number above 0, or "all", for argparse."""
    return text if text == "all" else positive(text)
