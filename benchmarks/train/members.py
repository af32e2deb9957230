"""Training the members of an ensemble, which differ in one source of diversity (Saxena et al. 2024)."""

import copy
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...callbacks.functional.confidence import negative_entropy, probabilities
from ...callbacks.functional.spans import best_answers, span_negative_entropy, span_probability
from ...datamodules.counter import permuted
from ..results.predictions import Predictions
from .bases import reinitialised, with_lora

SOURCES = ("head", "order", "subset")
DEFAULTS: dict[str, dict[str, Any]] = {
    "probe": {"lr": 0.03, "batch": 64, "weight_decay": 0.0, "init": 0.3},
    "finetune": {"lr": 1e-4, "batch": 64, "weight_decay": 1e-2, "init": 0.3},
    "lora": {"lr": 1e-3, "batch": 64, "weight_decay": 0.0, "init": 0.3},
    # Appendix 7.3.4: SGD with learning rate 1e-2, batches of 128, weight decay 1e-5, no augmentation.
    "scratch": {"lr": 1e-2, "batch": 128, "weight_decay": 1e-5, "init": 0.3},
}


class Member(NamedTuple):
    """One model: its budget in steps, and the seeds of its sources of diversity."""

    name: str
    budget: int
    head: int  # seed of the head (from scratch: of all weights)
    order: int  # seed of the batch order
    subset: int  # seed of the training subset
    fraction: float  # size of the subset as a share of all images


def members(
    source: str, fraction: float, budgets: list[int], count: int, seed: int
) -> list[Member]:
    """`count` models per budget that differ only in one source of diversity and the budget.

    Random heads and orders use one common subset, which is the fair control for subsets of that size.
    """
    found = []
    for number in range(count * len(budgets)):
        budget = budgets[number // count]
        own = {name: seed * 1000 + (1 + number if name == source else 0) for name in SOURCES}
        found.append(Member(f"{number:03d}-steps{budget}", budget, **own, fraction=fraction))
    return found


def subset_of(member: Member, length: int) -> Tensor:
    """The indices of a member's training images, int64 [fraction of length]."""
    size = max(1, round(member.fraction * length))
    return permuted(torch.arange(size), length, 7, member.subset)


def batches(member: Member, length: int, batch: int) -> Iterator[Tensor]:
    """The image indices of each of the member's steps, reshuffled every epoch."""
    images = subset_of(member, length)
    batch = min(batch, len(images))
    steps = len(images) // batch
    for step in range(member.budget):
        epoch, place = divmod(step, steps)
        if place == 0:
            random = torch.Generator().manual_seed(member.order * 100_000 + epoch)
            order = images[torch.randperm(len(images), generator=random)]
        yield order[place * batch : (place + 1) * batch]


def new_head(member: Member, features: int, classes: int, scale: float) -> Tensor:
    """Weights [features,classes] of a linear head, normal with deviation scale / sqrt(features)."""
    random = torch.Generator().manual_seed(member.head)
    return torch.randn(features, classes, generator=random) * (scale / features**0.5)


def probe(
    all_members: list[Member],
    features: Tensor,
    labels: Tensor,
    classes: int,
    settings: dict[str, Any],
) -> Tensor:
    """Train the linear heads of all members at once on frozen features [n,D]: [m,D+1,C], bias last.

    Features are scaled to a mean square of 1; labels int64 [n], or [m,n] if each member has its own.
    """
    labels = labels.expand(len(all_members), -1)
    count, size = len(all_members), features.shape[1]
    weight = torch.zeros(count, size + 1, classes)
    for own, member in zip(weight, all_members, strict=True):
        own[:-1] = new_head(member, size, classes, settings["init"])
    streams = [batches(member, len(features), settings["batch"]) for member in all_members]
    budgets = torch.tensor([member.budget for member in all_members])
    for step in range(int(budgets.max())):
        running = (budgets > step).nonzero().squeeze(1)
        rows = torch.stack([next(streams[k]) for k in running.tolist()])
        x, own = features[rows], weight[running]
        logits = torch.baddbmm(own[:, -1:], x, own[:, :-1])
        error = (
            logits.softmax(2) - F.one_hot(labels[running[:, None], rows], classes)
        ) / rows.shape[1]
        gradient = torch.cat([x.transpose(1, 2) @ error, error.sum(1, keepdim=True)], 1)
        gradient = gradient + settings["weight_decay"] * own
        weight[running] = own - settings["lr"] * gradient
    return weight


class Classifier(nn.Module):
    """A base with a linear head."""

    def __init__(self, base: nn.Module, head: nn.Linear) -> None:
        super().__init__()
        self.base, self.head = base, head

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.base(images))


def train_whole(
    member: Member,
    training: str,
    base: nn.Module,
    images: Tensor,
    labels: Tensor,
    classes: int,
    settings: dict[str, Any],
) -> nn.Module:
    """Train a base with a linear head on uint8 images [n,3,H,W] by AdamW (from scratch: SGD)."""
    base = reinitialised(base, member.head) if training == "scratch" else copy.deepcopy(base)
    with torch.no_grad():
        size = base.eval()(images[:2].float() / 255).shape[1]
    head = nn.Linear(size, classes)
    head.weight.data = new_head(member, size, classes, settings["init"]).T.contiguous()
    head.bias.data.zero_()
    model = Classifier(with_lora(base) if training == "lora" else base, head).train()
    trained = [p for p in model.parameters() if p.requires_grad]
    decay, lr = settings["weight_decay"], settings["lr"]
    optimizer: torch.optim.Optimizer = torch.optim.AdamW(trained, lr=lr, weight_decay=decay)
    if training == "scratch":
        optimizer = torch.optim.SGD(trained, lr=lr, momentum=0.9, weight_decay=decay)
    for rows in batches(member, len(images), settings["batch"]):
        loss = F.cross_entropy(model(images[rows].float() / 255), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


@torch.no_grad()
def logits_of(model: nn.Module, images: Tensor, batch: int = 256) -> Tensor:
    """Logits [n,C] of uint8 images [n,3,H,W]."""
    return torch.cat([model(part.float() / 255) for part in images.split(batch)])


def scored(
    logits: np.ndarray, temperature: float, ids: np.ndarray, labels: np.ndarray
) -> Predictions:
    """Classes and scores from logits [n,C]."""
    scores: dict[str, np.ndarray] = {}
    for end, t in (("", 1.0), ("_T", temperature)):
        probs = probabilities(logits, t)
        scores |= {f"confidence{end}": probs.max(1), f"entropy{end}": negative_entropy(probs)}
    classes = logits.argmax(1).astype(np.int32)
    return Predictions(ids, classes, labels.astype(np.int32), scores)


def scored_spans(
    starts: np.ndarray,
    ends: np.ndarray,
    temperatures: tuple[float, float],
    ids: np.ndarray,
    labels: np.ndarray,
) -> Predictions:
    """Answers and scores from logits [n,N] of first and last tokens."""
    answers = best_answers(starts, ends)
    scores: dict[str, np.ndarray] = {}
    for end, both in (("", (1.0, 1.0)), ("_T", temperatures)):
        scores[f"confidence{end}"] = span_probability(starts, ends, answers, both)
        scores[f"entropy{end}"] = span_negative_entropy(starts, ends, both)
    return Predictions(ids, answers.astype(np.int32), labels.astype(np.int32), scores)
