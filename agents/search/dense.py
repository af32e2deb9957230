"""Dense retrieval with embeddings, such as SPECTER's: CiteME's baseline, at more ranks.

CiteME scores only the nearest neighbour (recall@1; 0 % for SPECTER and SPECTER2 over 218 million
papers). Vectors are in `.npz` files with `ids` [n], `vectors` [n, d] and, for papers, `titles` [n];
transformers computes them. CiteME embeds an excerpt as a title, or as title and abstract (section 4); the
encoder was trained on neither.

SPECTER: Cohan et al., ACL 2020 (allenai/specter); SPECTER2: Singh et al., "SciRepEval", EMNLP 2023
(allenai/specter2_base, with the adapter allenai/specter2). Both embed title and abstract, joined by [SEP]
and truncated to 512 tokens, by [CLS].
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import HoldfastError
from ...hub import try_hub
from ..data import Dataset, new_file, reading
from ..matching import official_match
from ..score import proportion
from .provider import Paper

TOKENS = 512
BATCH = 16  # entries that are embedded at once
RANKS = (1, 5, 10, 50, 100)
Entry = tuple[str, str]  # title and abstract
Encoder = Callable[[Sequence[Entry]], NDArray[np.float32]]
Arrays = Mapping[str, NDArray[Any]]


def load_embeddings(path: Path, keys: Sequence[str]) -> dict[str, Any]:
    """The named arrays of an `.npz` file; raises `HoldfastError` if they are missing or do not fit."""
    with reading(path, "embeddings", f"arrays {', '.join(keys)} of one length, by np.savez"):
        with np.load(path, allow_pickle=False) as file:
            arrays = {key: file[key] for key in keys}
        if len({len(a) for a in arrays.values()}) != 1 or arrays["vectors"].ndim != 2:
            raise ValueError("the arrays have different lengths")
    return arrays


def save_embeddings(path: Path, arrays: Arrays) -> None:
    """Write named arrays as an `.npz` file, atomically."""
    with new_file(path, "for the embeddings") as partial, partial.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def embed_papers(encoder: Encoder, papers: Sequence[Paper]) -> Arrays:
    """`ids`, `titles` and `vectors` [n, d] of papers, by their titles and abstracts."""
    return {
        "ids": np.array([paper.id for paper in papers]),
        "titles": np.array([paper.title for paper in papers]),
        "vectors": encoder([(paper.title, paper.abstract or "") for paper in papers]),
    }


def embed_excerpts(encoder: Encoder, dataset: Dataset, place: str) -> Arrays:
    """`ids` and `vectors` [n, d] of excerpts, each as a "title" or as "title+abstract"."""
    samples = dataset.samples
    entries = [(s.excerpt, s.excerpt if place == "title+abstract" else "") for s in samples]
    return {"ids": np.array([s.id for s in samples]), "vectors": encoder(entries)}


class Specter:
    """An encoder of entries to vectors [n, d].

    Args:
        name: a folder, or a name on the Hugging Face hub, from which it is downloaded once.
        adapter: folder or name of an adapter.

    Raises:
        HoldfastError: if transformers (or adapters, for an `adapter`) is not installed, or the model cannot
            be loaded.
    """

    def __init__(self, name: str, adapter: str | None = None) -> None:
        try:
            from transformers import AutoModel, AutoTokenizer

            if adapter:
                import adapters
        except ImportError as error:
            extra = "specter2" if adapter else "specter"
            raise HoldfastError(f"{error}. Run: pip install 'holdfast[{extra}]'.") from None
        try_hub(name)
        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(name)
            model: Any = AutoModel.from_pretrained(name)
            if adapter:
                adapters.init(model)
                source = None if Path(adapter).is_dir() else "hf"
                model.load_adapter(adapter, source=source, set_active=True)
        except (OSError, ValueError, KeyError) as error:
            raise HoldfastError(
                f"Cannot load {adapter or name} as an encoder ({str(error).splitlines()[0]}). Pass a "
                "folder with a model and its tokenizer, or a name on the Hugging Face hub."
            ) from None
        self._model = model.requires_grad_(False).eval()

    def __call__(self, entries: Sequence[Entry]) -> NDArray[np.float32]:
        """Embeddings [n, d] of the entries, computed in batches of similar length."""
        between = self._tokenizer.sep_token
        texts = [f"{title}{between}{abstract}" for title, abstract in entries]
        order = np.argsort([len(text) for text in texts], kind="stable")
        most = min(TOKENS, getattr(self._model.config, "max_position_embeddings", TOKENS))
        found: dict[int, NDArray[np.float32]] = {}
        for start in range(0, len(order), BATCH):
            chosen = order[start : start + BATCH]
            inputs = self._tokenizer(
                [texts[k] for k in chosen],
                padding=True,
                truncation=True,
                max_length=most,
                return_tensors="pt",
                return_token_type_ids=False,
            )
            states = self._model(**inputs).last_hidden_state
            found.update(zip(chosen, states[:, 0].float().numpy(), strict=True))
        return np.stack([found[k] for k in range(len(texts))])


def retrieve(dataset: Dataset, excerpts: Arrays, papers: Arrays) -> dict[str, Any]:
    """Rank all papers by cosine for every excerpt; return recall at `RANKS` and MRR, in [0, 1].

    A sample whose target is not among the papers counts as not found.

    Args:
        dataset: the samples.
        excerpts: `ids` [n] and `vectors` [n, d].
        papers: `titles` [m] and `vectors` [m, d].

    Raises:
        HoldfastError: if an excerpt has no vector, or the widths differ.
    """
    row = {str(key): k for k, key in enumerate(excerpts["ids"])}
    if missing := [s.id for s in dataset.samples if s.id not in row]:
        raise HoldfastError(
            f"{len(missing)} samples have no excerpt embedding (first: {missing[0]}). Embed all samples "
            "under their ids."
        )
    if excerpts["vectors"].shape[1] != papers["vectors"].shape[1]:
        raise HoldfastError("Excerpt and paper vectors differ in width. Use one model for both.")
    index, asked = unit(papers["vectors"]), unit(excerpts["vectors"])
    titles = [str(t) for t in papers["titles"]]
    found = []
    for sample in dataset.samples:
        targets = [k for k, title in enumerate(titles) if official_match(title, sample.titles)]
        if targets:
            scores = index @ asked[row[sample.id]]
            found.append(1 + int(np.sum(scores > scores[targets].max())))
    n = len(dataset.samples)
    recall = {k: proportion(sum(r <= k for r in found), n) for k in RANKS}
    size = {"n": n, "papers": len(titles), "targets_among_papers": len(found)}
    return {**size, "recall": recall, "mrr": sum(1 / r for r in found) / n}


def unit(vectors: NDArray[Any]) -> NDArray[np.float32]:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.maximum(norms, 1e-12)).astype(np.float32)
