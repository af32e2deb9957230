"""Training the members of an ensemble, which differ in one source of diversity (Saxena et al. 2024)."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ... import HoldfastError
from ...callbacks.functional.aline import projection_norm
from ...callbacks.functional.confidence import fit_temperature, negative_entropy, probabilities
from ...datamodules.counter import permuted
from ..results.predictions import VALIDATION, Predictions

TRAIN = "train"
_Optimizers = Callable[..., torch.optim.Optimizer]
_SOURCES = ("head", "order", "subset")
_DEFAULTS: dict[str, dict[str, Any]] = {
    "probe": {"lr": 0.03, "batch": 64, "weight_decay": 0.0, "init": 0.3},
    "finetune": {"lr": 1e-4, "batch": 64, "weight_decay": 1e-2, "init": 0.3},
    "lora": {"lr": 1e-3, "batch": 64, "weight_decay": 0.0, "init": 0.3},
    # Appendix 7.3.4: SGD with learning rate 1e-2, batches of 128, weight decay 1e-5, no augmentation.
    "scratch": {"lr": 1e-2, "batch": 128, "weight_decay": 1e-5, "init": 0.3},
}
_LORA_LAYERS = ("qkv", "query", "value", "q_proj", "v_proj", "c_attn", "q_lin", "v_lin")


class Member(NamedTuple):
    """One model: its budget in steps, and the seeds of its sources of diversity."""

    name: str
    budget: int
    head: int  # seed of the head (from scratch: of all weights)
    order: int  # seed of the batch order
    subset: int  # seed of the training subset
    fraction: float  # size of the subset as a share of all examples


class Examples(NamedTuple):
    """A data set."""

    inputs: Any  # of a `Task`, for all examples
    labels: Tensor  # classes [n], or first and last token of answers [n,2], int64
    ids: Tensor  # positions in the source [n], int64

    def predicted(self, answers: np.ndarray, scores: dict[str, np.ndarray]) -> Predictions:
        """A model's predictions for these examples, from answers of the labels' shape."""
        labels = self.labels.numpy().astype(np.int32)
        return Predictions(self.ids.numpy(), answers.astype(np.int32), labels, scores)


class Task(ABC):
    """What the members of an ensemble learn: data sets, a base model, and the form of their outputs.

    Its arguments: the entry `data` of the file, the base's name, and the seed of the examples' order.
    """

    sets: dict[str, Examples]  # "train", "validation" and the shifts
    base: nn.Module  # from inputs to features
    outputs: int  # of the linear head
    piece: int  # examples predicted at a time
    dropout: bool  # whether models train in training mode
    optimizers: ClassVar[Mapping[str, _Optimizers]] = {}  # by training; others use AdamW

    @abstractmethod
    def inputs(self, examples: Examples, rows: Tensor) -> Any:
        """The inputs of some examples, as the base takes them."""

    @abstractmethod
    def new_base(self, seed: int) -> nn.Module:
        """The base with new random weights."""

    @abstractmethod
    def with_head(self, base: nn.Module, head: nn.Module) -> nn.Module:
        """The model of a base and a head."""

    def loss(self, outputs: Tensor, examples: Examples, rows: Tensor) -> Tensor:
        """The mean cross-entropy of the outputs for some examples."""
        return F.cross_entropy(outputs, examples.labels[rows])

    def predictions(self, outputs: dict[str, Tensor]) -> dict[str, Predictions]:
        """Classes and scores from logits [n,C] of each set, with a temperature from validation data."""
        labels = self.sets[VALIDATION].labels.numpy()
        temperature = fit_temperature(outputs[VALIDATION].numpy(), labels)
        predictions = {}
        for name, logits in outputs.items():
            scores: dict[str, np.ndarray] = {}
            for end, t in (("", 1.0), ("_T", temperature)):
                probs = probabilities(logits.numpy(), t)
                scores[f"confidence{end}"] = probs.max(1)
                scores[f"entropy{end}"] = negative_entropy(probs)
            predictions[name] = self.sets[name].predicted(logits.numpy().argmax(1), scores)
        return predictions

    @torch.no_grad()
    def outputs_of(self, model: nn.Module, name: str) -> Tensor:
        """The model's outputs [n,...] for a set."""
        examples = self.sets[name]
        rows = torch.arange(len(examples.ids)).split(self.piece)
        return torch.cat([model(self.inputs(examples, part)) for part in rows])

    @cached_property
    def features(self) -> dict[str, Tensor]:
        """Features [n,D] of all sets, scaled so that those of the training set have a mean square of 1."""
        model = self.with_head(self.base, nn.Identity()).eval()
        features = {name: self.outputs_of(model, name) for name in self.sets}
        scale = float(features[TRAIN].square().mean().sqrt()) or 1.0
        return {name: of_set / scale for name, of_set in features.items()}


def members(
    source: str, fraction: float, budgets: list[int], count: int, seed: int
) -> list[Member]:
    """`count` models per budget that differ only in one source of diversity and the budget.

    Random heads and orders use one common subset, which is the fair control for subsets of that size.
    """
    everyone = []
    for number in range(count * len(budgets)):
        budget = budgets[number // count]
        seeds = {name: seed * 1000 + (1 + number if name == source else 0) for name in _SOURCES}
        everyone.append(Member(f"{number:03d}-steps{budget}", budget, **seeds, fraction=fraction))
    return everyone


def subset_of(member: Member, length: int) -> Tensor:
    """The indices of a member's training examples, int64 [fraction of length]."""
    size = max(1, round(member.fraction * length))
    return permuted(torch.arange(size), length, 7, member.subset)


def batches(member: Member, length: int, batch: int) -> Iterator[Tensor]:
    """The indices of the examples of each of the member's steps, reshuffled every epoch."""
    subset = subset_of(member, length)
    batch = min(batch, len(subset))
    for step in range(member.budget):
        epoch, number = divmod(step, len(subset) // batch)
        if number == 0:
            random = torch.Generator().manual_seed(member.order * 100_000 + epoch)
            order = subset[torch.randperm(len(subset), generator=random)]
        yield order[number * batch : (number + 1) * batch]


def new_head(member: Member, features: int, classes: int, scale: float) -> Tensor:
    """Weights [features,classes] of a linear head, normal with deviation scale / sqrt(features)."""
    random = torch.Generator().manual_seed(member.head)
    return torch.randn(features, classes, generator=random) * (scale / features**0.5)


def trained(
    task: Task, missing: list[Member], config: dict[str, Any]
) -> Iterator[tuple[Member, dict[str, Predictions]]]:
    """Train the members of an entry of `ensembles`; yields each with its predictions."""
    training = config["training"]
    settings = {**_DEFAULTS[training], **config.get("settings", {})}
    if training == "probe":
        yield from _probed(task, missing, settings, config.get("projnorm"))
        return
    for member in missing:
        model = _finetuned(task, member, training, settings)
        outputs = {name: task.outputs_of(model, name) for name in task.sets if name != TRAIN}
        yield member, task.predictions(outputs)


def _finetuned(task: Task, member: Member, training: str, settings: dict[str, Any]) -> nn.Module:
    """Train the base, its LoRA matrices or new weights, with a linear head."""
    train = task.sets[TRAIN]
    base = task.new_base(member.head) if training == "scratch" else copy.deepcopy(task.base)
    with torch.no_grad():
        features = task.with_head(base, nn.Identity()).eval()(task.inputs(train, torch.arange(2)))
    size = features.shape[-1]
    head = nn.Linear(size, task.outputs)
    head.weight.data = new_head(member, size, task.outputs, settings["init"]).T.contiguous()
    head.bias.data.zero_()
    model = task.with_head(_with_lora(base) if training == "lora" else base, head)
    model.train(task.dropout)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    kind = task.optimizers.get(training, torch.optim.AdamW)
    optimizer = kind(parameters, lr=settings["lr"], weight_decay=settings["weight_decay"])
    for rows in batches(member, len(train.ids), settings["batch"]):
        loss = task.loss(model(task.inputs(train, rows)), train, rows)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


def _with_lora(base: nn.Module, rank: int = 8) -> nn.Module:
    """The base with trainable LoRA matrices in its attention layers (Hu et al. 2022), otherwise frozen.

    Raises HoldfastError if peft is not installed, or the base is not a transformer.
    """
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError:
        raise HoldfastError("LoRA needs peft. Run: pip install 'holdfast[text]'.") from None
    names = [name for name, _ in base.named_modules() if name.rpartition(".")[2] in _LORA_LAYERS]
    if not names:
        raise HoldfastError(
            "LoRA changes the attention layers of a transformer, but this base model has none. Choose "
            "training: finetune."
        )
    config = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=names, init_lora_weights=True)
    return get_peft_model(base, config)  # type: ignore[arg-type]


def _probed(
    task: Task, missing: list[Member], settings: dict[str, Any], projnorm: int | None
) -> Iterator[tuple[Member, dict[str, Predictions]]]:
    """Train linear heads on the base's features, and measure their ProjNorm after `projnorm` steps."""
    features, labels = task.features, task.sets[TRAIN].labels
    weights = probe(missing, features[TRAIN], labels, task.outputs, settings)
    logits = {
        name: of_set @ weights[:, :-1] + weights[:, -1:]
        for name, of_set in features.items()
        if name != TRAIN
    }
    norms: dict[str, list[float]] = {}
    if projnorm:
        short = [member._replace(budget=projnorm) for member in missing]
        whole = [member._replace(fraction=1.0) for member in short]
        reference = probe(short, features[TRAIN], labels, task.outputs, settings)
        for shift in logits.keys() - {VALIDATION}:
            pseudo = logits[shift].argmax(2)
            other = probe(whole, features[shift], pseudo, task.outputs, settings)
            pairs = zip(reference.numpy(), other.numpy(), strict=True)
            norms[shift] = [projection_norm([a], [b]) for a, b in pairs]
    for number, member in enumerate(missing):
        predictions = task.predictions({name: of_set[number] for name, of_set in logits.items()})
        for shift, of_shift in norms.items():
            predictions[shift] = predictions[shift]._replace(projnorm=of_shift[number])
        yield member, predictions


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
    for head, member in zip(weight, all_members, strict=True):
        head[:-1] = new_head(member, size, classes, settings["init"])
    streams = [batches(member, len(features), settings["batch"]) for member in all_members]
    budgets = torch.tensor([member.budget for member in all_members])
    for step in range(int(budgets.max())):
        running = (budgets > step).nonzero().squeeze(1)
        rows = torch.stack([next(streams[k]) for k in running.tolist()])
        x, heads = features[rows], weight[running]
        logits = torch.baddbmm(heads[:, -1:], x, heads[:, :-1])
        error = (
            logits.softmax(2) - F.one_hot(labels[running[:, None], rows], classes)
        ) / rows.shape[1]
        gradient = torch.cat([x.transpose(1, 2) @ error, error.sum(1, keepdim=True)], 1)
        gradient = gradient + settings["weight_decay"] * heads
        weight[running] = heads - settings["lr"] * gradient
    return weight
