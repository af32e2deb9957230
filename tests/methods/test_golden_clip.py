"""Methods for CLIP agree with their official implementations on a made-up model, in float64."""

import math
import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from common import GOLDEN
from open_clip.model import CLIP
from torch import Tensor
from torch.optim import Adam, AdamW

from holdfast.methods import BATCLIP, TDA, TPT, VTE
from holdfast.methods.backbones.clip import ZeroShot

NAMES = ["oak", "red maple", "ash", "silver birch", "fir", "weeping willow", "yew", "elm"]
NAMES += ["black pine", "lime"]
WORDS = {"a", "photo", "of", "bad", "drawing", "the", ".", *" ".join(NAMES).split()}
NUMBERS = {word: number for number, word in enumerate(["", *sorted(WORDS), "<", ">"])}
LENGTH = 12
TEMPLATES = ["a photo of a {}.", "a bad drawing of the {}."]
OF_IMAGES = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)


def tokens(texts: list[str]) -> Tensor:
    """Numbers [N,12] of words, between those of a start and an end."""
    rows = [[NUMBERS[w] for w in re.findall(r"\w+|[.<>]", f"< {text} >")] for text in texts]
    return torch.tensor([row + [0] * (LENGTH - len(row)) for row in rows])


def backbone(templates: list[str] = TEMPLATES[:1]) -> ZeroShot:
    """Two layers, 64 wide, ten classes, with weights from one random state."""
    text = {"context_length": LENGTH, "vocab_size": len(NUMBERS), "width": 64, "heads": 1}
    image = {"image_size": 32, "layers": 2, "width": 64, "head_width": 64, "patch_size": 8}
    model = CLIP(32, image, {**text, "layers": 2}, quick_gelu=True).eval()  # type: ignore
    random, state = np.random.RandomState(1), model.state_dict()
    for name in sorted(state):
        value = random.standard_normal(tuple(state[name].shape))
        if re.search(r"ln_\w+\.weight$", name):
            value = 1 + 0.1 * value
        elif name.endswith("bias"):
            value = 0.02 * value
        elif "positional_embedding" in name or "class_embedding" in name:
            value = 0.1 * value
        elif value.ndim > 1 and "embedding" not in name:
            wide = value[0].size if name.endswith("weight") else len(value)
            value = 3 * value * float(wide) ** -0.5
        state[name] = torch.from_numpy(np.asarray(value))
    model.load_state_dict({**state, "logit_scale": torch.tensor(math.log(100))})
    return ZeroShot(model, tokens, NAMES, templates, *OF_IMAGES)


def images(count: int, seed: int) -> Tensor:
    """Noisy patterns of 4 x 4 squares, [N,3,32,32]."""
    random = np.random.RandomState(seed)
    squares = random.uniform(size=(count, 3, 4, 4)).repeat(8, 2).repeat(8, 3)
    noise = 0.1 * random.standard_normal((count, 3, 32, 32))
    return torch.from_numpy(np.clip(squares + noise, 0, 1))


@pytest.fixture(autouse=True)
def as_in_official_runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """All in float64; views are the image shifted by up to seven pixels."""

    def shifted(image: Tensor, count: int, *_: Any) -> Tensor:
        return torch.cat([image.roll((k // 8, k % 8), (2, 3)) for k in range(count)])

    for module in ("tda", "tpt", "vte"):
        monkeypatch.setattr(f"holdfast.methods.{module}.with_views", shifted)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def same(ours: list[Tensor], theirs: np.ndarray) -> None:
    np.testing.assert_allclose(torch.stack(ours).reshape(theirs.shape), theirs, atol=1e-7)


def opened(name: str) -> dict[str, np.ndarray]:
    return dict(np.load(GOLDEN / "clip" / f"{name}.npz"))


STRONG = {"alpha": 5.0, "beta": 2.0, "shots": 2, "negative_alpha": 1.0, "negative_shots": 3}


@pytest.mark.parametrize(
    ("name", "settings"),
    [("default", {}), ("strong", {**STRONG, "entropy": (0.1, 0.6)}), ("views", {"views": 64})],
)
def test_tda(name: str, settings: dict[str, Any]) -> None:
    """The official code takes single images; here they come in batches."""
    theirs, method = opened("tda")[name], TDA(backbone(TEMPLATES), **settings)
    batches = images(240, seed=1)[: len(theirs)].split(20)
    same([row for batch in batches for row in method.adapt(batch)], theirs)


def test_vte() -> None:
    method = VTE(backbone(TEMPLATES))
    same(list(method.adapt(images(24, seed=2)[:12])), opened("vte")["logits"])


@pytest.mark.parametrize(
    ("name", "lr", "settings"),
    [("default", 5e-3, {}), ("steps3", 2e-2, {"steps": 3, "share": 0.25})],
)
def test_tpt(name: str, lr: float, settings: dict[str, Any]) -> None:
    theirs, method = opened("tpt"), TPT(backbone(), partial(AdamW, lr=lr), **settings)
    logits, contexts, losses = [], [], []
    for image in images(24, seed=2)[:12].split(1):
        logits.append(method.adapt(image))
        contexts.append(method.context.detach().clone())
        losses.append(method.trace["loss"])
    same(logits, theirs[f"{name}_logits"])
    same(contexts[::8], theirs[f"{name}_context"])
    np.testing.assert_allclose(losses, theirs[f"{name}_loss"][:, -1], rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "optimizer"),
    [("adamw", partial(AdamW, lr=5e-4)), ("adam", partial(Adam, lr=1e-3, weight_decay=0.01))],
)
def test_batclip(name: str, optimizer: Any) -> None:
    theirs, method = opened("batclip"), BATCLIP(backbone(), optimizer)
    logits, losses = [], []
    for batch in images(240, seed=3).split(20):
        logits.append(method.adapt(batch))
        losses.append(method.trace["loss"])
    same(logits, theirs[f"{name}_logits"])
    np.testing.assert_allclose(losses, theirs[f"{name}_loss"], rtol=1e-6)
    state = {**method.backbone.state_dict(), **method.texts.tower.state_dict()}
    for key, value in theirs.items():
        if key.startswith(f"{name}_final."):
            same([state[key.partition(".")[2]]], value)
