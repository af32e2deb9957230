"""SPECTER and SPECTER2 with transformers: the [CLS] vector of title and abstract.

Cohan et al., "SPECTER", ACL 2020 (allenai/specter); Singh et al., "SciRepEval", EMNLP 2023
(allenai/specter2_base, with the adapter allenai/specter2 for papers, allenai/specter2_adhoc_query for
short queries). Title and abstract are joined by [SEP] and truncated to 512 tokens.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import HoldfastError
from .dense import Entry

TOKENS = 512


class Specter:
    """An encoder of entries to vectors [n, d].

    Args:
        name: a folder, or a name on the Hugging Face hub, from which it is downloaded once.
        adapter: folder or name of an adapter.
        device: device as in torch.
        batch: number of entries per batch.

    Raises:
        HoldfastError: if transformers (or adapters, for an `adapter`) is not installed, or the model cannot
            be loaded.
    """

    def __init__(
        self, name: str, adapter: str | None = None, *, device: str = "cpu", batch: int = 16
    ) -> None:
        self.name, self.adapter, self.device, self.batch = name, adapter, device, batch
        try:
            from transformers import AutoModel, AutoTokenizer

            if adapter:
                import adapters
        except ImportError as error:
            extra = "specter2" if adapter else "specter"
            raise HoldfastError(f"{error}. Run: pip install 'holdfast[{extra}]'.") from None
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
        model.requires_grad_(False)
        self._model = model.eval().to(device)
        room = getattr(model.config, "max_position_embeddings", TOKENS)
        self._tokens = min(TOKENS, room)

    def __call__(self, entries: Sequence[Entry]) -> NDArray[np.float32]:
        """Embeddings [n, d] of the entries, computed in batches of similar length."""
        between = self._tokenizer.sep_token
        texts = [t if a is None else f"{t}{between}{a}" for _, t, a in entries]
        order = sorted(range(len(texts)), key=lambda k: len(texts[k]))
        found: dict[int, NDArray[np.float32]] = {}
        for start in range(0, len(order), self.batch):
            chosen = order[start : start + self.batch]
            inputs = self._tokenizer(
                [texts[k] for k in chosen],
                padding=True,
                truncation=True,
                max_length=self._tokens,
                return_tensors="pt",
                return_token_type_ids=False,
            ).to(self.device)
            states = self._model(**inputs).last_hidden_state
            found.update(zip(chosen, states[:, 0].float().cpu().numpy(), strict=True))
        return np.stack([found[k] for k in range(len(texts))])

    def describe(self) -> dict[str, Any]:
        """The model and its adapter."""
        return {"model": self.name, "adapter": self.adapter}
