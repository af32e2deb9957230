"""Embeddings of papers (title and abstract) and of excerpts; a client of a SPECTER server.

Cohan et al., "SPECTER", ACL 2020; https://github.com/allenai/paper-embedding-public-apis. CiteME embeds
an excerpt as a title, or as title and abstract (section 4); the encoder was trained on neither.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..data import Dataset
from ..protocol import Paper, ProviderError
from .client import JsonClient

BATCH = 16  # papers per request; the server refuses more
Place = Literal["title", "title+abstract", "abstract", "excerpt"]
Entry = tuple[str, str, str | None]  # id, title, abstract (None: the title is the whole text)
Encoder = Callable[[Sequence[Entry]], NDArray[np.float32]]


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
