"""`holdfast cite litsearch`: retrieval on LitSearch, by BM25 or embeddings.

Ajith et al., "LitSearch: A Retrieval Benchmark for Scientific Literature Search", EMNLP 2024: 597 queries
over 64,183 papers, https://huggingface.co/datasets/princeton-nlp/LitSearch. Its figures are recall@5 of
specific queries and recall@20 of broad ones, whose answers are several papers.
"""

import json
from argparse import ArgumentParser, Namespace
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import HoldfastError
from . import cite_options as options
from .cite_options import say
from .data import reading
from .search import dense
from .search.local import LocalSearch
from .search.provider import Scope, SearchProvider

RANKS = (5, 20)


@dataclass(frozen=True)
class Query:
    """A query with the ids of its answers; `kind` is such as "inline_acl, specific"."""

    text: str
    kind: str
    answers: frozenset[str]


def add_options(parser: ArgumentParser) -> None:
    """Add the options of the command, and its action."""
    parser.set_defaults(action=_evaluate)
    parser.add_argument("queries", type=Path, help="LitSearch's queries, .parquet or .jsonl")
    about = "LitSearch's corpus, .parquet, or .jsonl with its ids"
    parser.add_argument("--corpus", type=Path, required=True, help=about)
    options.add(parser, "--encoder", "rank by embeddings instead of BM25, as for `cite dense`")
    options.add_json(parser)


def _evaluate(args: Namespace) -> None:
    queries = load_queries(args.queries)
    search: SearchProvider
    if args.encoder:
        search = dense.DenseSearch(args.corpus, dense.Specter(args.encoder), args.encoder)
    else:
        search = LocalSearch(args.corpus)
    figures = recalls(queries, search)
    if args.json:
        print(json.dumps({"search": search.describe(), "kinds": figures}, indent=1))
        return
    facts = search.describe()
    say(f"LitSearch: {len(queries)} queries, {facts['papers']:,} papers, search: {facts['name']}")
    for kind, row in figures.items():
        rates = ", ".join(f"recall@{k} {100 * row[f'recall@{k}']:.1f} %" for k in RANKS)
        print(f"{kind:<28} n = {row['n']:<4} {rates}")


def load_queries(path: Path) -> list[Query]:
    """The queries of a file; raises `HoldfastError` if it is not LitSearch's."""
    with reading(path, "LitSearch's queries", "its queries as .parquet or .jsonl"):
        if path.suffix == ".parquet":
            import pandas as pd  # deferred: takes a second

            rows: list[dict[str, Any]] = pd.read_parquet(path).to_dict("records")
        else:
            rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        return [_query(row) for row in rows]


def _query(row: dict[str, Any]) -> Query:
    kind = f"{row['query_set']}, {'specific' if int(row['specificity']) else 'broad'}"
    return Query(str(row["query"]), kind, frozenset(str(name) for name in row["corpusids"]))


def recalls(queries: list[Query], search: SearchProvider) -> dict[str, dict[str, float]]:
    """The mean recall, in [0, 1], at each of `RANKS`: of each kind of query, of broad, specific and all.

    Raises `HoldfastError` if there is no query with an answer.
    """
    by_kind: dict[str, list[list[float]]] = defaultdict(list)
    for query in (q for q in queries if q.answers):
        hits = [paper.id for paper in search.search(query.text, "relevance", Scope(), max(RANKS))]
        row = [len(query.answers.intersection(hits[:k])) / len(query.answers) for k in RANKS]
        for kind in (query.kind, query.kind.rpartition(", ")[2], "all"):
            by_kind[kind].append(row)
    if not by_kind:
        raise HoldfastError("No query has an answer. Pass LitSearch's queries.")
    return {
        kind: {
            "n": len(rows),
            **{f"recall@{k}": sum(r[i] for r in rows) / len(rows) for i, k in enumerate(RANKS)},
        }
        for kind, rows in sorted(by_kind.items())
    }
