"""AdaContrast: contrastive test-time adaptation."""

from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize
from torch.optim import SGD

from .. import in_range, one_of
from .optimizers import OptimizerCallable
from .parts.norm import training
from .parts.teacher import TeacherMethod
from .parts.views import contrast_view, flipped


class AdaContrast(TeacherMethod):
    """Learns labels that neighbours vote for, and contrasts views with earlier images (Chen et al. 2022).

    A weak view gets the label that its nearest neighbours in a bank of earlier images vote for; a strong
    view is trained on this label, and contrasted with the momentum model's features of another strong
    view, against a queue of keys with other labels. A diversity loss spreads the predictions of a batch
    over the classes. All parameters learn; running statistics follow the views. The student is scored,
    after its step. Defaults are those of mariodoebler/test-time-adaptation for ImageNet-C.

    Args:
        class_weight: weight of the cross-entropy with the label.
        contrast_weight: weight of the instance contrast.
        diversity_weight: weight of the entropy of the mean prediction.
        teacher_rate: how far the momentum model follows in each step.
        temperature: temperature of the contrast.
        capacity: size of queue and bank, in images.
        neighbours: number of images that vote.
        distance: distance between features: "cosine" or "euclidean".
        patience: images before neighbours vote.
    """

    adapts = "all"

    def __init__(
        self,
        backbone: str | nn.Module,
        optimizer: OptimizerCallable = lambda params: SGD(
            params, lr=2e-4, momentum=0.9, nesterov=True, weight_decay=1e-4
        ),
        class_weight: float = 1.0,
        contrast_weight: float = 1.0,
        diversity_weight: float = 1.0,
        teacher_rate: float = 0.001,
        temperature: float = 0.07,
        capacity: int = 16384,
        neighbours: int = 10,
        distance: Literal["cosine", "euclidean"] = "cosine",
        patience: int = 1024,
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, optimizer, **kwargs)
        in_range(1, capacity=capacity, neighbours=neighbours, patience=patience)
        in_range(0, 1, teacher_rate=teacher_rate)
        one_of("cosine", "euclidean", distance=distance)
        self.class_weight, self.contrast_weight = class_weight, contrast_weight
        self.diversity_weight, self.teacher_rate = diversity_weight, teacher_rate
        self.temperature, self.capacity, self.neighbours = temperature, capacity, neighbours
        self.distance, self.patience = distance, patience

    def prepare(self) -> None:
        self.make_teacher()

    @property
    def predictor(self) -> nn.Module:
        return self.backbone

    def fresh_state(self) -> dict[str, Any]:
        return {"queue": None, "bank": None, "seen": 0}

    def update(self, images: Tensor) -> Tensor:
        weak, query, key = self.views(images)
        with torch.no_grad():
            features, logits = self.in_training(self.backbone, weak)
        labels = self.voted(features, logits)
        features, logits = self.in_training(self.backbone, query)
        self.follow()
        with torch.no_grad():
            keys = normalize(self.in_training(self.teacher, key)[0])
        contrast = self.contrast(normalize(features), keys, labels, logits.shape[1])
        # The negative entropy of the mean prediction, without a constant.
        diversity = (probs := logits.softmax(1).mean(0)) @ (probs + 1e-8).log()
        self.descend(
            self.class_weight * cross_entropy(logits, labels)
            + self.contrast_weight * contrast
            + self.diversity_weight * diversity
        )
        with torch.no_grad():
            self.remember(*self.in_training(self.teacher, weak))
            return self(images)

    def in_training(self, network: nn.Module, images: Tensor) -> tuple[Tensor, Tensor]:
        """Features [B,D] and logits [B,C] by the images' statistics, which the running ones follow."""
        # The batch statistics of a single image would ruin the running ones.
        with training(network, len(images) > 1):
            return self.features(network, images)

    def views(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """A weak view of images [B,3,H,W], and two strong ones."""
        generator = self.generator("views")
        weak = flipped(images, generator)
        return weak, contrast_view(images, generator), contrast_view(images, generator)

    def voted(self, features: Tensor, logits: Tensor) -> Tensor:
        """Labels [B] by vote of the bank's nearest to features [B,D]; at first by the logits [B,C]."""
        state, bank = self.state, self.state["bank"]
        if state["seen"] < self.patience or bank is None:
            state["seen"] += len(features)
            return logits.argmax(1)
        if self.distance == "cosine":
            near = normalize(features) @ normalize(bank["features"]).T
        else:
            near = -torch.cdist(features, bank["features"])
        rows = near.topk(min(self.neighbours, near.shape[1])).indices
        return bank["probs"][rows].mean(1).argmax(1)

    def contrast(self, query: Tensor, keys: Tensor, labels: Tensor, classes: int) -> Tensor:
        """The instance contrast of unit features [B,D] with keys [B,D]; the keys enter the queue.

        The cross-entropy of each feature's own key among the queue's with other labels (Eq. 3 and 4).
        """
        queue = self.state["queue"]
        if queue is None:
            queue = self.state["queue"] = {**self.first_queue(keys, classes), "at": 0}
        before, size = queue["keys"].clone(), self.capacity
        rows = (queue["at"] + torch.arange(len(keys), device=keys.device))[-size:] % size
        queue["keys"][rows], queue["labels"][rows] = keys[-size:], labels[-size:]
        queue["at"] = (queue["at"] + len(keys)) % size
        # As in the official code, keys that have just been replaced are compared under their
        # successors' labels.
        same = labels[:, None] == queue["labels"]
        positive = (query * keys).sum(1, keepdim=True)
        negatives = (query @ before.T).masked_fill(same, -torch.inf)
        logits = torch.cat([positive, negatives], 1) / self.temperature
        return cross_entropy(logits, torch.zeros_like(labels))

    def first_queue(self, keys: Tensor, classes: int) -> dict[str, Tensor]:
        """Random unit keys [N,D] like these, with random labels [N]."""
        options: Any = {"generator": self.generator("queue"), "device": keys.device}
        random = torch.randn(self.capacity, keys.shape[1], dtype=keys.dtype, **options)
        labels = torch.randint(classes, (self.capacity,), **options)
        return {"keys": normalize(random), "labels": labels}

    def remember(self, features: Tensor, logits: Tensor) -> None:
        """Add features [B,D] and probabilities [B,C] to the bank; if it is full, they replace the oldest.

        The write position advances by a batch from the first row, so that the newest are replaced first.
        """
        new = {"features": features, "probs": logits.softmax(1)}
        bank, count = self.state["bank"], len(features)
        if bank is None:
            bank = {name: rows[:0] for name, rows in new.items()} | {"at": 0}
        size = len(bank["probs"])
        if size < self.capacity:
            grown = {name: torch.cat([bank[name], rows]) for name, rows in new.items()}
            self.state["bank"] = grown | {"at": (bank["at"] + count) % (size + count)}
            return
        rows = (bank["at"] + torch.arange(count, device=features.device))[-size:] % size
        for name, values in new.items():
            bank[name][rows] = values[-size:]
        bank["at"] = (bank["at"] + count) % size
