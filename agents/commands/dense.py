"""`holdfast cite dense`: retrieval over embeddings (SPECTER-style)."""

import argparse
import json
from pathlib import Path

from ... import HoldfastError
from ..data import MINI_CITE_CORPUS, Dataset
from ..limits import RateLimiter, Retry
from ..protocol import ProviderError
from .options import at_least_one, chosen_dataset, data_options

SPECTER = "https://model-apis.semanticscholar.org/specter/v1/invoke"


def main(argv: list[str]) -> None:
    """Fetch the papers' embeddings where asked to, and print recall and MRR of the excerpts'."""
    args = parser().parse_args(argv)
    dataset = chosen_dataset(args)
    if args.embed:
        embed(args, dataset)
    if args.fetch:
        print(fetch(args))
        if not args.excerpts:
            return
    if not args.excerpts:
        raise HoldfastError(
            "there are no excerpts: give their embeddings with --excerpts FILE.npz."
        )
    from ..search.dense import load_embeddings, retrieve

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


def embed(args: argparse.Namespace, dataset: Dataset) -> None:
    """Embed what --papers and --excerpts do not hold yet, by a SPECTER server."""
    from ..search.dense import save_embeddings
    from ..search.embed import embed_excerpts, embed_papers
    from ..search.http import JsonClient
    from ..search.local import LocalSearch

    if not args.excerpts:
        raise HoldfastError("--embed writes two files: name them by --papers and --excerpts.")
    client = JsonClient(limiter=RateLimiter(args.per_second), retry=Retry(attempts=args.tries))
    try:
        if not args.papers.exists():
            papers = list(LocalSearch(args.corpus).papers.values())
            save_embeddings(args.papers, embed_papers(client, args.embed, papers))
        if not args.excerpts.exists():
            found = embed_excerpts(client, args.embed, dataset, args.place)
            save_embeddings(args.excerpts, found)
    except ProviderError as error:
        raise HoldfastError(
            f"the server gave no embeddings ({error}): mend that, and the same command goes on."
        ) from None


def fetch(args: argparse.Namespace) -> str:
    """Fetch the papers' stored embeddings into --papers; a line that says how many there are."""
    from ..search.dense import fetch_embeddings
    from ..search.semantic_scholar import API, SemanticScholar

    if not args.fetch.is_file():
        raise HoldfastError(f"there is no file {args.fetch}: give one with a paper id per line.")
    ids = args.fetch.read_text(encoding="utf-8").split()
    provider = SemanticScholar(args.s2_api or API)
    count = fetch_embeddings(provider, ids, args.papers, args.embedding)
    return f"{count} of {len(ids)} papers have a stored embedding; wrote {args.papers}"


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = argparse.ArgumentParser(prog="holdfast cite dense", description=__doc__)
    data_options(parser)
    parser.add_argument("--excerpts", type=Path, metavar="NPZ", help="ids, vectors of the excerpts")
    parser.add_argument("--papers", type=Path, required=True, metavar="NPZ", help="and titles")
    parser.add_argument(
        "--fetch", type=Path, metavar="IDS", help="first fetch --papers for the ids in this file"
    )
    parser.add_argument(
        "--embed",
        nargs="?",
        const=SPECTER,
        metavar="URL",
        help="first embed --corpus and the excerpts by a SPECTER server (the public one)",
    )
    parser.add_argument("--corpus", type=Path, default=MINI_CITE_CORPUS, metavar="JSONL")
    parser.add_argument(
        "--place",
        choices=("title", "title+abstract", "abstract"),
        default="title",
        help="what an excerpt is embedded as (title)",
    )
    parser.add_argument("--per-second", type=float, default=1.0, metavar="R", help="of --embed (1)")
    parser.add_argument("--tries", type=at_least_one, default=6, metavar="N", help="of --embed (6)")
    parser.add_argument("--embedding", default="specter_v2", help="Semantic Scholar's name for it")
    parser.add_argument("--s2-api", metavar="URL", help="Semantic Scholar's Graph API or a mirror")
    parser.add_argument("--json", action="store_true", help="print figures as JSON")
    return parser
