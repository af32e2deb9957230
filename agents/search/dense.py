"""`holdfast cite dense`: retrieval by embeddings, such as SPECTER's; CiteME's baseline, at more ranks.

CiteME scores only the nearest neighbour (recall@1; 0 % for SPECTER and SPECTER2 over 218 million
papers). As there, an excerpt is embedded as a title (section 4), for which the encoder was not trained.

SPECTER: Cohan et al., ACL 2020 (allenai/specter); SPECTER2: Singh et al., "SciRepEval", EMNLP 2023
(allenai/specter2_base). Both embed title and abstract, joined by [SEP] and cut after 512 tokens, by [CLS].
"""

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import HoldfastError
from ...hub import try_hub
from .. import cite_options as options
from ..data import Dataset
from ..matching import official_match
from ..score import proportion
from .local import LocalSearch
from .provider import Paper

_TOKENS = 512
_BATCH = 16  # entries that are embedded at once
RANKS = (1, 5, 10, 50, 100)
Entry = tuple[str, str]  # title and abstract
Encoder = Callable[[Sequence[Entry]], NDArray[np.float32]]


def add_options(parser: ArgumentParser) -> None:
    """Add the options of the command, and its action."""
    parser.set_defaults(action=_evaluate)
    options.add_data(parser)
    options.add(
        parser, "--encoder", "a folder, or a name on Hugging Face", default="allenai/specter"
    )
    options.add_corpus(parser)
    options.add_json(parser)


def _evaluate(args: Namespace) -> None:
    dataset, papers = options.read_dataset(args), list(LocalSearch(args.corpus).papers.values())
    figures = retrieve(dataset, papers, Specter(args.encoder))
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


class Specter:
    """An encoder of entries to vectors [n, d], from a folder or, once, from the Hugging Face hub.

    Raises `HoldfastError` if transformers is not installed, or the model cannot be loaded.
    """

    def __init__(self, name: str) -> None:
        try:
            from transformers import AutoModel, AutoTokenizer
        except ImportError as error:
            raise HoldfastError(f"{error}. Run: pip install 'holdfast[specter]'.") from None
        try_hub(name)
        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(name)
            model: Any = AutoModel.from_pretrained(name)
        except (OSError, ValueError, KeyError) as error:
            raise HoldfastError(
                f"Cannot load {name} as an encoder ({str(error).splitlines()[0]}). Pass a folder with a "
                "model and its tokenizer, or a name on the Hugging Face hub."
            ) from None
        self._model = model.requires_grad_(False).eval()

    def __call__(self, entries: Sequence[Entry]) -> NDArray[np.float32]:
        """Embeddings [n, d] of the entries, computed in batches of similar length."""
        between = self._tokenizer.sep_token
        texts = [f"{title}{between}{abstract}" for title, abstract in entries]
        order = np.argsort([len(text) for text in texts], kind="stable")
        most = min(_TOKENS, getattr(self._model.config, "max_position_embeddings", _TOKENS))
        vectors: dict[int, NDArray[np.float32]] = {}
        for start in range(0, len(order), _BATCH):
            chosen = order[start : start + _BATCH]
            inputs = self._tokenizer(
                [texts[k] for k in chosen],
                padding=True,
                truncation=True,
                max_length=most,
                return_tensors="pt",
                return_token_type_ids=False,
            )
            states = self._model(**inputs).last_hidden_state
            vectors.update(zip(chosen, states[:, 0].float().numpy(), strict=True))
        return np.stack([vectors[k] for k in range(len(texts))])


class DenseSearch(LocalSearch):
    """A search provider over a corpus file, as `LocalSearch` reads, ranked by the cosine of embeddings.

    `encoder` embeds queries, and titles and abstracts; `encoder_name` is its name in result files.
    """

    name = "dense"

    def __init__(self, corpus: str | Path, encoder: Encoder, encoder_name: str) -> None:
        super().__init__(corpus)
        self.encoder, self.encoder_name = encoder, encoder_name
        self._vectors = _index(encoder, self.papers.values())

    def _ranked(self, query: str) -> Iterator[Paper]:
        if not query.strip():
            return
        scores = self._vectors @ _unit(self.encoder([(query, "")]))[0]
        papers = list(self.papers.values())
        for index in np.argsort(-scores, kind="stable"):
            yield papers[index]

    def describe(self) -> dict[str, Any]:
        """The name, the corpus with its hash, and the encoder."""
        facts = super().describe()
        del facts["weights"]
        return {**facts, "encoder": self.encoder_name}


def retrieve(dataset: Dataset, papers: Sequence[Paper], encoder: Encoder) -> dict[str, Any]:
    """Rank all papers by cosine for every excerpt; return recall at `RANKS` and MRR, in [0, 1].

    A sample whose target is not among the papers counts as not found.
    """
    index = _index(encoder, papers)
    asked = _unit(encoder([(sample.excerpt, "") for sample in dataset.samples]))
    ranks = []
    for sample, vector in zip(dataset.samples, asked, strict=True):
        targets = [k for k, p in enumerate(papers) if official_match(p.title, sample.titles)]
        if targets:
            scores = index @ vector
            ranks.append(1 + int(np.sum(scores > scores[targets].max())))
    n = len(dataset.samples)
    recall = {k: proportion(sum(r <= k for r in ranks), n) for k in RANKS}
    size = {"n": n, "papers": len(papers), "targets_among_papers": len(ranks)}
    return {**size, "recall": recall, "mrr": sum(1 / r for r in ranks) / n}


def _index(encoder: Encoder, papers: Iterable[Paper]) -> NDArray[np.float32]:
    """The unit vectors [n, d] of titles and abstracts."""
    return _unit(encoder([(paper.title, paper.abstract or "") for paper in papers]))


def _unit(vectors: NDArray[Any]) -> NDArray[np.float32]:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.maximum(norms, 1e-12)).astype(np.float32)
