"""`holdfast cite ...`: demo, run, score, compare, optimize, dense."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from .. import HoldfastError
from .baselines import BASELINES
from .data import MINI_CITE_CORPUS, SPLITS, Dataset, load


def main(argv: list[str]) -> int:
    """Run `holdfast cite COMMAND ...` and return its exit status."""
    args = _parser().parse_args(argv)
    try:
        return args.handler(args) or 0
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="holdfast cite",
        description="CiteME: search, read and select the paper behind a citation.",
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    demo = commands.add_parser("demo", help="agents without a language model on mini-cite, offline")
    demo.add_argument("--out", type=Path, default=Path("runs/cite-demo"), metavar="FOLDER")
    demo.set_defaults(handler=_demo)

    run = commands.add_parser("run", help="run an agent; the same command resumes")
    _data_options(run)
    run.add_argument("--out", type=Path, required=True, metavar="FILE", help="result file (.jsonl)")
    run.add_argument("--agent", choices=("citeagent", *BASELINES), default="citeagent")
    run.add_argument("--workers", type=_positive, default=4, metavar="N", help="samples at once")
    run.add_argument("--repeats", type=_positive, default=1, metavar="N")
    _agent_options(run)
    run.set_defaults(handler=_run)

    score = commands.add_parser("score", help="judge result files")
    score.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    _data_options(score, default=None)
    score.add_argument("--threshold", type=float, default=0.8, help="of CiteME's matcher (0.8)")
    score.add_argument(
        "--usd-per-million", nargs=2, type=float, metavar=("IN", "OUT"), help="price of tokens"
    )
    score.add_argument("--picture", type=Path, metavar="PNG", help="draw the action histogram")
    score.add_argument("--json", action="store_true", help="print figures as JSON")
    score.set_defaults(handler=_score)

    compare = commands.add_parser("compare", help="paired comparison of two runs (McNemar)")
    compare.add_argument("a", type=Path, metavar="RUN_A")
    compare.add_argument("b", type=Path, metavar="RUN_B")
    _data_options(compare, default=None)
    compare.add_argument("--strict", action="store_true", help="use the strict matcher")
    compare.add_argument("--json", action="store_true", help="print figures as JSON")
    compare.set_defaults(handler=_compare)

    optimize = commands.add_parser("optimize", help="compile the program on the train split (DSPy)")
    _data_options(optimize, split="train")
    optimize.add_argument(
        "--out", type=Path, required=True, metavar="JSON", help="compiled program"
    )
    optimize.add_argument(
        "--steps", type=_positive, default=2, metavar="N", help="example steps to put in the prompt"
    )
    _agent_options(optimize)
    optimize.set_defaults(handler=_optimize)

    dense = commands.add_parser("dense", help="retrieval over embeddings (SPECTER-style)")
    _data_options(dense)
    dense.add_argument("--excerpts", type=Path, metavar="NPZ", help="ids, vectors of the excerpts")
    dense.add_argument("--papers", type=Path, required=True, metavar="NPZ", help="and titles")
    dense.add_argument(
        "--fetch", type=Path, metavar="IDS", help="first fetch --papers for the ids in this file"
    )
    dense.add_argument("--embedding", default="specter_v2", help="Semantic Scholar's name for it")
    dense.add_argument("--s2-api", metavar="URL", help="Semantic Scholar's Graph API or a mirror")
    dense.add_argument("--json", action="store_true", help="print figures as JSON")
    dense.set_defaults(handler=_dense)
    return parser


def _data_options(
    parser: argparse.ArgumentParser, default: str | None = "mini-cite", split: str | None = "test"
) -> None:
    fallback = default or "the one the run names"
    parser.add_argument(
        "--data",
        default=default,
        metavar="FILE",
        help=f"CiteME's CSV or TSV, or mini-cite ({fallback})",
    )
    split = split if default else None
    parser.add_argument("--split", choices=SPLITS, default=split, help=f"({split or fallback})")
    parser.add_argument("--limit", type=_positive, metavar="N", help="only the first N samples")
    parser.add_argument(
        "--skip-malformed", action="store_true", help="leave malformed rows out instead of stopping"
    )


def _agent_options(parser: argparse.ArgumentParser) -> None:
    """Add what `build.py` reads: language model, program, search, limits, recordings."""
    lm = parser.add_argument_group("language model (hosted providers: key in the environment)")
    lm.add_argument("--model", metavar="NAME", help="as DSPy names it, such as openai/gpt-4o")
    lm.add_argument("--api-base", metavar="URL", help="any OpenAI-compatible server, ending in /v1")
    lm.add_argument("--temperature", type=float, default=0.95, help="(0.95, CiteME's)")
    lm.add_argument("--max-tokens", type=_positive, default=2048, metavar="N", help="per reply")
    lm.add_argument(
        "--lm-timeout", type=float, default=120.0, metavar="S", help="per request (120)"
    )
    lm.add_argument("--lm-per-second", type=float, metavar="R", help="requests per second, at most")
    lm.add_argument("--tries", type=_positive, default=6, metavar="N", help="per request (6)")

    program = parser.add_argument_group("program")
    program.add_argument(
        "--commands", choices=("none", "search", "search+read"), default="search+read"
    )
    program.add_argument("--demonstration", action="store_true", help="show one trajectory of ours")
    program.add_argument("--program", type=Path, metavar="JSON", help="compiled by optimize")
    program.add_argument("--results", type=_positive, default=10, metavar="N", help="per search")
    program.add_argument("--max-actions", type=_positive, default=15, metavar="N")
    program.add_argument(
        "--read-chars", type=_positive, default=12_000, metavar="N", help="of a paper, per read"
    )

    search = parser.add_argument_group("search and reading")
    search.add_argument("--search", choices=("local", "semantic-scholar"), default="local")
    search.add_argument("--corpus", type=Path, default=MINI_CITE_CORPUS, metavar="JSONL")
    search.add_argument("--s2-api", metavar="URL", help="Semantic Scholar's Graph API or a mirror")
    search.add_argument(
        "--s2-per-second", type=float, default=1.0, metavar="R", help="and of PDFs (1)"
    )
    search.add_argument(
        "--allow-private", action="store_true", help="fetch PDFs from local networks"
    )
    search.add_argument("--cache", type=Path, metavar="FOLDER", help="texts of papers read before")
    tape = search.add_mutually_exclusive_group()
    tape.add_argument("--record", type=Path, metavar="FILE", help="keep all answers of services")
    tape.add_argument("--replay", type=Path, metavar="FILE", help="use kept answers, no network")


def _positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return value


def _demo(args: argparse.Namespace) -> None:
    from .demo import demo

    demo(args.out)


def _run(args: argparse.Namespace) -> int:
    from .build import agent_and_provider
    from .results import read
    from .run import run

    dataset = _dataset(args, args.data, args.split)
    agent, provider = agent_and_provider(args)
    print(dataset.describe())

    def progress(number: int, total: int, record: dict[str, Any]) -> None:
        print(
            f"[{number}/{total}] {record['sample']}: {record['status']} ({record['seconds']:.1f} s)"
            + (f" {record['detail'].strip().splitlines()[-1][:200]}" if record["detail"] else ""),
            flush=True,
        )

    try:
        counts = run(
            dataset, agent, provider, args.out,
            workers=args.workers, repeats=args.repeats, results=args.results,
            max_actions=args.max_actions, read_budget=args.read_chars, progress=progress,
        )  # fmt: skip
    except KeyboardInterrupt:
        kept = len(read(args.out)[1]) if args.out.exists() else 0
        print(
            f"\nStopped with {kept} samples in {args.out}; the same command runs the rest.",
            file=sys.stderr,
        )
        return 130
    print(", ".join(f"{status} {count}" for status, count in sorted(counts.items())))
    unanswered = counts.get("provider_error", 0) + counts.get("crash", 0)
    if unanswered:
        print(f"{unanswered} samples were not answered; the same command tries them again.")
        return 1
    print(f"Next: holdfast cite score {args.out}")
    return 0


def _score(args: argparse.Namespace) -> None:
    from .report import beside_published, histogram, text
    from .results import read
    from .score import score

    figures: dict[str, Any] = {}
    steps: dict[str, Any] = {}
    for path in args.runs:
        header, records = read(path)
        dataset = _dataset_of(args, header, path)
        prices = tuple(args.usd_per_million) if args.usd_per_million else None
        scores = score(
            records,
            dataset,
            repeats=header["repeats"],
            threshold=args.threshold,
            usd_per_million=prices,
        )
        figures[str(path)] = {"agent": header["agent"], "data": dataset.name, **scores}
        steps[path.stem] = scores["actions_by_step"]
        if not args.json:
            print(text(header, scores, dataset))
            print(beside_published(dataset, scores), end="\n\n")
    if args.json:
        print(json.dumps(figures, indent=1))
    if args.picture:
        histogram(steps, args.picture, "Actions by step")
        print(f"Wrote {args.picture}", file=sys.stderr)


def _compare(args: argparse.Namespace) -> None:
    from .results import read
    from .score import compare

    (header_a, a), (header_b, b) = read(args.a), read(args.b)
    if header_a["dataset"]["sha256"] != header_b["dataset"]["sha256"]:
        raise HoldfastError("The two runs are on different data; compare runs on the same file.")
    figures = compare(a, b, _dataset_of(args, header_a, args.a), strict=args.strict)
    if args.json:
        print(json.dumps(figures, indent=1))
        return
    print(
        f"A {args.a}\nB {args.b}\n"
        f"{figures['pairs']} pairs, split = {figures['split']}, {figures['matcher']} matcher\n"
        f"right by both {figures['both']}, only A {figures['only_a']}, only B {figures['only_b']}, "
        f"neither {figures['neither']}\n"
        f"A - B = {100 * figures['difference']:+.1f} points, exact McNemar p = {figures['p']:.4f}"
    )


def _optimize(args: argparse.Namespace) -> None:
    from .build import optimize_program

    dataset = _dataset(args, args.data, args.split)
    print(dataset.describe())
    print(optimize_program(args, dataset))


def _dense(args: argparse.Namespace) -> None:
    from .dense import fetch_embeddings, load_embeddings, retrieve
    from .semantic_scholar import API, SemanticScholar

    if args.fetch:
        if not args.fetch.is_file():
            raise HoldfastError(
                f"There is no file {args.fetch}; give one with a paper id per line."
            )
        ids = args.fetch.read_text(encoding="utf-8").split()
        count = fetch_embeddings(
            SemanticScholar(args.s2_api or API), ids, args.papers, args.embedding
        )
        print(f"{count} of {len(ids)} papers have a stored embedding; wrote {args.papers}")
        if not args.excerpts:
            return
    if not args.excerpts:
        raise HoldfastError("Give the excerpts' embeddings with --excerpts FILE.npz.")
    dataset = _dataset(args, args.data, args.split)
    figures = retrieve(
        dataset,
        load_embeddings(args.excerpts, ("ids", "vectors")),
        load_embeddings(args.papers, ("ids", "titles", "vectors")),
    )
    if args.json:
        print(json.dumps(figures, indent=1))
        return
    print(dataset.describe())
    print(
        f"{figures['papers']} papers; {figures['targets_among_papers']} of {figures['n']} targets "
        "are among them"
    )
    for k, rate in figures["recall"].items():
        low, high = (100 * x for x in rate["interval"])
        print(f"recall@{k:<4} {100 * rate['rate']:5.1f} % [{low:.1f}, {high:.1f}]")
    print(f"MRR         {figures['mrr']:.3f}")
    if dataset.is_published:
        print("CiteME's tables 3 to 5: recall@1 of SPECTER and SPECTER2 is 0 % (n = 119).")


def _dataset(args: argparse.Namespace, data: str, split: str) -> Dataset:
    return load(data, skip_malformed=args.skip_malformed).select(split, args.limit)


def _dataset_of(args: argparse.Namespace, header: dict[str, Any], path: Path) -> Dataset:
    """Return the data a run was made on; only mini-cite can be found without --data."""
    named = header["dataset"]
    if args.data is None and named["name"] != "mini-cite":
        raise HoldfastError(f"{path} is a run on {named['name']}; give that file with --data.")
    data = load(args.data or "mini-cite", skip_malformed=args.skip_malformed)
    split = args.split or named["split"]
    dataset = data.select(split, args.limit or (header["n"] if split == named["split"] else None))
    if dataset.sha256 != named["sha256"]:
        raise HoldfastError(
            f"{path} was made on another version of the data (sha256 {named['sha256'][:12]}); "
            "give that file with --data."
        )
    return dataset
