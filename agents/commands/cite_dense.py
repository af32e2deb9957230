"""`holdfast cite dense`: evaluate retrieval by embeddings, such as SPECTER's."""

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ... import HoldfastError
from ..data import Dataset
from ..limits import RateLimiter, Retry
from ..protocol import ProviderError
from .options import CiteParser, at_least_one, chosen_dataset

if TYPE_CHECKING:
    from ..search.dense import Encoder

PLACES = ("title", "title+abstract", "abstract", "excerpt")
SPECTER = "https://model-apis.semanticscholar.org/specter/v1/invoke"


def main(argv: list[str]) -> None:
    """Fetch or compute embeddings if asked to, and print recall and mean reciprocal rank."""
    args = parser().parse_args(argv)
    dataset = chosen_dataset(args)
    if args.embed or args.encoder:
        embed(args, dataset)
    if args.fetch:
        print(fetch(args))
        if not args.excerpts:
            return
    if not args.excerpts:
        raise HoldfastError("The excerpts have no embeddings. Pass them with --excerpts FILE.npz.")
    from ..search.dense import load_embeddings, retrieve

    figures = retrieve(
        dataset,
        load_embeddings(args.excerpts, ("ids", "vectors")),
        load_embeddings(args.papers, ("ids", "titles", "vectors")),
    )
    if args.json:
        print(json.dumps(figures, indent=1, default=asdict))
        return
    print(dataset.describe())
    included = f"{figures['targets_among_papers']} of {figures['n']} targets"
    print(f"{figures['papers']} papers, which include {included}")
    for k, rate in figures["recall"].items():
        print(f"recall@{k:<4} {rate}")
    print(f"MRR         {figures['mrr']:.3f}")
    if dataset.is_published:
        print("CiteME's tables 3 to 5: recall@1 of SPECTER and SPECTER2 is 0 % (n = 119).")


def embed(args: argparse.Namespace, dataset: Dataset) -> None:
    """Compute --papers and --excerpts unless they exist."""
    from ..search.dense import embed_excerpts, embed_papers, made_once
    from ..search.local import LocalSearch

    if not args.excerpts:
        raise HoldfastError("Embedding writes two files. Name them with --papers and --excerpts.")
    corpus = LocalSearch(args.corpus)
    papers = list(corpus.papers.values())
    of_papers, of_excerpts = encoders(args)
    try:
        made = {"model": args.encoder or args.embed, "adapter": args.adapter}
        made["corpus"] = corpus.sha256
        made_once(args.papers, made, lambda: embed_papers(of_papers(), papers))
        made |= {"adapter": args.query_adapter or args.adapter, "place": args.place}
        made |= {"corpus": None, "data": dataset.sha256, "n": len(dataset.samples)}
        made_once(args.excerpts, made, lambda: embed_excerpts(of_excerpts(), dataset, args.place))
    except ProviderError as error:
        raise HoldfastError(
            f"The server gave no embeddings ({error}). Fix the cause and rerun the same command."
        ) from None


def encoders(args: argparse.Namespace) -> "tuple[Callable[[], Encoder], Callable[[], Encoder]]":
    """Functions that open the encoders of papers and of excerpts: a server, or a local model."""
    if args.encoder:
        from ..search.specter import Specter

        def local(adapter: str | None) -> Specter:
            return Specter(args.encoder, adapter, device=args.device, batch=args.batch)

        query = args.query_adapter or args.adapter
        return partial(local, args.adapter), partial(local, query)
    from ..search.client import JsonClient
    from ..search.dense import vectors

    if args.place == "excerpt":
        raise HoldfastError("A server embeds titles and abstracts. Pass another --place.")
    client = JsonClient(limiter=RateLimiter(args.per_second), retry=Retry(attempts=args.tries))
    server = partial(vectors, client, args.embed)
    return (lambda: server), (lambda: server)


def fetch(args: argparse.Namespace) -> str:
    """Download the stored embeddings of papers to --papers; return a line with their number."""
    from ..search.dense import fetch_embeddings
    from ..search.semantic_scholar import API, SemanticScholar

    if not args.fetch.is_file():
        raise HoldfastError(f"There is no file {args.fetch}. Pass one with a paper id per line.")
    ids = args.fetch.read_text(encoding="utf-8").split()
    provider = SemanticScholar(args.s2_api or API)
    count = fetch_embeddings(provider, ids, args.papers, args.embedding)
    return f"{count} of {len(ids)} papers have a stored embedding; wrote {args.papers}"


def parser() -> CiteParser:
    parser = CiteParser("dense", __doc__, "--papers papers.npz --excerpts excerpts.npz")
    parser.data()
    add = parser.add
    add("--excerpts", type=Path, metavar="NPZ", help="ids [n] and vectors [n, d] of excerpts")
    papers = "ids [n], titles [n] and vectors [n, d] of papers"
    add("--papers", type=Path, required=True, metavar="NPZ", help=papers)
    stored = "first download stored embeddings to --papers, for the paper ids in this file"
    add("--fetch", type=Path, metavar="IDS", help=stored)
    server = "first embed --corpus and the excerpts with a SPECTER server (default: the public one)"
    add("--embed", nargs="?", const=SPECTER, metavar="URL", help=server)
    here = "first embed them with a local model: a folder, allenai/specter or allenai/specter2_base"
    add("--encoder", metavar="MODEL", help=here)
    add("--adapter", metavar="NAME", help="adapter of --encoder, such as allenai/specter2")
    query = "adapter for excerpts, such as allenai/specter2_adhoc_query"
    add("--query-adapter", metavar="NAME", help=query)
    add("--device", default="cpu", help="device of --encoder, as in torch (default: cpu)")
    batch = "batch size of --encoder (default: 16)"
    add("--batch", type=at_least_one, default=16, metavar="N", help=batch)
    parser.corpus()
    what = "field in which an excerpt is embedded; `excerpt` embeds only its text (default: title)"
    add("--place", choices=PLACES, default="title", help=what)
    rate = "requests per second to --embed (default: 1)"
    add("--per-second", type=float, default=1.0, metavar="R", help=rate)
    tries = "tries per request to --embed (default: 6)"
    add("--tries", type=at_least_one, default=6, metavar="N", help=tries)
    name = "Semantic Scholar's name of the embedding (default: specter_v2)"
    add("--embedding", default="specter_v2", help=name)
    add("--s2-api", metavar="URL", help="Semantic Scholar's Graph API or a mirror")
    parser.json()
    return parser
