"""Dense retrieval with stored embeddings, such as SPECTER's: CiteME's baseline, at more ranks.

CiteME scores only the nearest neighbour (recall@1; 0 % for SPECTER and SPECTER2 over 218 million
papers). Vectors are in `.npz` files with `ids` [n], `vectors` [n, d] and, for papers, `titles` [n];
paper vectors can be fetched from Semantic Scholar's batch endpoint, or computed by a SPECTER server (Cohan
et al., ACL 2020; https://github.com/allenai/paper-embedding-public-apis). CiteME embeds an excerpt as a
title, or as title and abstract (section 4); the encoder was trained on neither.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ... import HoldfastError
from ...files import reason
from ..data import Dataset, new_file
from ..matching import official_match
from ..protocol import Paper, ProviderError
from ..stats import proportion
from .client import JsonClient
from .semantic_scholar import SemanticScholar

BATCH = 16  # papers per request; the server refuses more
Place = Literal["title", "title+abstract", "abstract", "excerpt"]
Entry = tuple[str, str, str | None]  # id, title, abstract (None: the title is the whole text)
Encoder = Callable[[Sequence[Entry]], NDArray[np.float32]]
RANKS = (1, 5, 10, 50, 100)
MADE = "made"  # name of the array that describes how the vectors were computed


def load_embeddings(path: Path, keys: Sequence[str]) -> dict[str, Any]:
    """The named arrays of an `.npz` file; raises `HoldfastError` if they are missing or do not fit."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {key: file[key] for key in keys}
    except (OSError, ValueError, KeyError) as error:
        raise HoldfastError(
            f"Cannot read {path} as embeddings ({reason(error)}). Save ids, vectors and, for papers, "
            "titles with np.savez."
        ) from None
    if len({len(a) for a in arrays.values()}) != 1 or arrays["vectors"].ndim != 2:
        raise HoldfastError(
            f"{path} has arrays of different lengths. Save n ids, titles and vectors."
        )
    return arrays


def fetch_embeddings(
    provider: SemanticScholar, ids: Sequence[str], path: Path, model: str = "specter_v2"
) -> int:
    """Fetch stored paper vectors from Semantic Scholar into `path`; return their number.

    Raises:
        HoldfastError: if none is stored.
    """
    found = provider.embeddings(ids, model)
    if not found:
        raise HoldfastError("None of the ids has a stored embedding. Pass Semantic Scholar ids.")
    arrays = {
        "ids": np.array(list(found)),
        "titles": np.array([f["title"] for f in found.values()]),
        "vectors": np.array([f["vector"] for f in found.values()], dtype=np.float32),
    }
    save_embeddings(path, arrays)
    return len(found)


def made_once(
    path: Path, made: Mapping[str, Any], make: Callable[[], Mapping[str, NDArray[Any]]]
) -> None:
    """Write the arrays of `make` and their description to `path`, unless it exists.

    Raises:
        HoldfastError: if `path` has another description.
    """
    if not path.exists():
        return save_embeddings(path, {**make(), MADE: np.array(json.dumps(made, sort_keys=True))})
    with np.load(path, allow_pickle=False) as file:
        found = json.loads(str(file[MADE])) if MADE in file else made
    if changed := [name for name in made if found.get(name) != made[name]]:
        raise HoldfastError(
            f"{path} contains embeddings with a different {', '.join(changed)}. Delete it, or pass another "
            "file."
        )


def save_embeddings(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write named arrays as an `.npz` file, atomically."""
    with new_file(path, "for the embeddings") as partial, partial.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def retrieve(
    dataset: Dataset,
    excerpts: dict[str, NDArray[Any]],
    papers: dict[str, NDArray[Any]],
    ranks: Sequence[int] = RANKS,
) -> dict[str, Any]:
    """Rank all papers by cosine for every excerpt; return recall at `ranks` and MRR, in [0, 1].

    A sample whose target is not among the papers counts as not found.

    Args:
        dataset: the samples.
        excerpts: `ids` [n] and `vectors` [n, d].
        papers: `titles` [m] and `vectors` [m, d].
        ranks: the ranks at which recall is computed.

    Raises:
        HoldfastError: if an excerpt has no vector, or the widths differ.
    """
    row = {str(key): k for k, key in enumerate(excerpts["ids"])}
    missing = [s.id for s in dataset.samples if s.id not in row]
    if missing:
        raise HoldfastError(
            f"{len(missing)} samples have no excerpt embedding (first: {missing[0]}). Embed all samples "
            "under their ids."
        )
    if excerpts["vectors"].shape[1] != papers["vectors"].shape[1]:
        raise HoldfastError("Excerpt and paper vectors differ in width. Use one model for both.")
    index = unit(papers["vectors"])
    titles = [str(t) for t in papers["titles"]]
    rank_of: list[int | None] = []
    for sample in dataset.samples:
        targets = [k for k, title in enumerate(titles) if official_match(title, sample.titles)]
        if not targets:
            rank_of.append(None)
            continue
        scores = index @ unit(excerpts["vectors"][[row[sample.id]]])[0]
        rank_of.append(1 + int(np.sum(scores > scores[targets].max())))
    n = len(rank_of)
    found = [r for r in rank_of if r]
    recall = {k: proportion(sum(r <= k for r in found), n) for k in ranks}
    size = {"n": n, "papers": len(titles), "targets_among_papers": len(found)}
    return {**size, "recall": recall, "mrr": sum(1 / r for r in found) / n}


def unit(vectors: NDArray[Any]) -> NDArray[np.float32]:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.maximum(norms, 1e-12)).astype(np.float32)


def embed_papers(encoder: Encoder, papers: Sequence[Paper]) -> dict[str, NDArray[Any]]:
    """`ids`, `titles` and `vectors` [n, d] of papers, by their titles and abstracts."""
    return {
        "ids": np.array([paper.id for paper in papers]),
        "titles": np.array([paper.title for paper in papers]),
        "vectors": encoder([(paper.id, paper.title, paper.abstract or "") for paper in papers]),
    }


def embed_excerpts(encoder: Encoder, dataset: Dataset, place: Place) -> dict[str, NDArray[Any]]:
    """`ids` and `vectors` [n, d] of excerpts, each as a title, an abstract, both, or plain text."""
    entries: list[Entry] = [
        (sample.id, sample.excerpt, None)
        if place == "excerpt"
        else (
            sample.id,
            sample.excerpt if "title" in place else "",
            sample.excerpt if "abstract" in place else "",
        )
        for sample in dataset.samples
    ]
    return {"ids": np.array([sample.id for sample in dataset.samples]), "vectors": encoder(entries)}


def vectors(client: JsonClient, url: str, entries: Sequence[Entry]) -> NDArray[np.float32]:
    """Vectors [n, d] of entries from a server; raises `ProviderError` if one is missing."""
    found: dict[str, list[float]] = {}
    for start in range(0, len(entries), BATCH):
        some = entries[start : start + BATCH]
        body = [{"paper_id": i, "title": t, "abstract": a or ""} for i, t, a in some]
        answer = client.request("POST", url, {}, body)
        try:
            assert isinstance(answer, dict)
            found |= {str(p["paper_id"]): p["embedding"] for p in answer["preds"]}
        except (AssertionError, LookupError, TypeError):
            raise ProviderError(f"{url}: unexpected answer {answer!r:.200}") from None
    missing = [i for i, *_ in entries if i not in found]
    if missing:
        raise ProviderError(f"{url}: no embedding of {missing[0]} and {len(missing) - 1} more")
    return np.array([found[i] for i, *_ in entries], dtype=np.float32)
