"""`holdfast cite dense`: retrieval over embeddings (SPECTER-style)."""

import argparse
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ... import HoldfastError
from ..data import MINI_CITE_CORPUS, Dataset
from ..limits import RateLimiter, Retry
from ..protocol import ProviderError
from .options import at_least_one, chosen_dataset, data_options

if TYPE_CHECKING:
    from ..search.embed import Encoder

SPECTER = "https://model-apis.semanticscholar.org/specter/v1/invoke"


def main(argv: list[str]) -> None:
    """Fetch the papers' embeddings where asked to, and print recall and MRR of the excerpts'."""
    args = parser().parse_args(argv)
    dataset = chosen_dataset(args)
    if args.embed or args.encoder:
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
    """Embed what --papers and --excerpts do not hold yet."""
    from ..search.dense import made_once
    from ..search.embed import embed_excerpts, embed_papers
    from ..search.local import LocalSearch

    if not args.excerpts:
        raise HoldfastError("embedding writes two files: name them by --papers and --excerpts.")
    corpus = LocalSearch(args.corpus)
    papers = list(corpus.papers.values())
    of_papers, of_excerpts = encoders(args)
    try:
        made = {
            "model": args.encoder or args.embed,
            "adapter": args.adapter,
            "corpus": corpus.sha256,
        }
        made_once(args.papers, made, lambda: embed_papers(of_papers(), papers))
        made |= {"adapter": args.query_adapter or args.adapter, "place": args.place}
        made |= {"corpus": None, "data": dataset.sha256, "n": len(dataset.samples)}
        made_once(args.excerpts, made, lambda: embed_excerpts(of_excerpts(), dataset, args.place))
    except ProviderError as error:
        raise HoldfastError(
            f"the server gave no embeddings ({error}): mend that, and the same command goes on."
        ) from None


def encoders(args: argparse.Namespace) -> "tuple[Callable[[], Encoder], Callable[[], Encoder]]":
    """What embeds papers, and what embeds excerpts, opened where needed: a server, or a model here."""
    if args.encoder:
        from ..search.specter import Specter

        def local(adapter: str | None) -> Specter:
            return Specter(args.encoder, adapter, device=args.device, batch=args.batch)

        query = args.query_adapter or args.adapter
        return partial(local, args.adapter), partial(local, query)
    from ..search.embed import vectors
    from ..search.http import JsonClient

    if args.place == "excerpt":
        raise HoldfastError("a server embeds titles and abstracts: give another --place.")
    client = JsonClient(limiter=RateLimiter(args.per_second), retry=Retry(attempts=args.tries))
    server = partial(vectors, client, args.embed)
    return (lambda: server), (lambda: server)


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
    parser = argparse.ArgumentParser(
        prog="holdfast cite dense",
        description=__doc__,
        epilog="example: holdfast cite dense --papers papers.npz --excerpts excerpts.npz",
    )
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
    parser.add_argument(
        "--encoder",
        metavar="MODEL",
        help="first embed them by this model here: a folder, allenai/specter, allenai/specter2_base",
    )
    parser.add_argument("--adapter", metavar="NAME", help="of --encoder, such as allenai/specter2")
    parser.add_argument(
        "--query-adapter", metavar="NAME", help="for excerpts, as allenai/specter2_adhoc_query"
    )
    parser.add_argument("--device", default="cpu", help="of --encoder, as torch names it (cpu)")
    parser.add_argument("--batch", type=at_least_one, default=16, metavar="N", help="at once (16)")
    parser.add_argument("--corpus", type=Path, default=MINI_CITE_CORPUS, metavar="JSONL")
    parser.add_argument(
        "--place",
        choices=("title", "title+abstract", "abstract", "excerpt"),
        default="title",
        help="what an excerpt is embedded as; excerpt is the text alone (title)",
    )
    parser.add_argument("--per-second", type=float, default=1.0, metavar="R", help="of --embed (1)")
    parser.add_argument("--tries", type=at_least_one, default=6, metavar="N", help="of --embed (6)")
    parser.add_argument("--embedding", default="specter_v2", help="Semantic Scholar's name for it")
    parser.add_argument("--s2-api", metavar="URL", help="Semantic Scholar's Graph API or a mirror")
    parser.add_argument("--json", action="store_true", help="print figures as JSON")
    return parser
