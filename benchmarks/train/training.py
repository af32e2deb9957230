"""One job of `holdfast ensemble`: images, models and predictions; finished models are skipped."""

import json
import time
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...callbacks.functional.confidence import fit_temperature
from ...callbacks.functional.projection import projection_norm
from ..results.predictions import VALIDATION, save
from .bases import base_model
from .ensemble_data import Data, Images, features, load_data
from .members import DEFAULTS, Member, logits_of, members, probe, scored, train_whole


class Job(NamedTuple):
    """The members of one ensemble with the same source of diversity, share of the data and seed."""

    out: str
    data: dict[str, Any]
    name: str
    config: dict[str, Any]
    source: str
    fraction: float
    seed: int

    @property
    def folder(self) -> Path:
        return Path(self.out, self.name, f"seed{self.seed}", f"{self.source}-{self.fraction:g}")

    @property
    def missing(self) -> list[Member]:
        """The members without a file of predictions."""
        own = self.config
        everyone = members(self.source, self.fraction, own["budgets"], own["members"], self.seed)
        return [member for member in everyone if not self.file(member).exists()]

    def file(self, member: Member) -> Path:
        """The file of a member's predictions."""
        return self.folder / f"{member.name}.npz"


def run(job: Job) -> tuple[str, float]:
    """Train the missing members of a job; returns its folder and the processor seconds spent."""
    start = time.process_time()
    train_missing(job)
    return str(job.folder), time.process_time() - start


def train_missing(job: Job) -> None:
    """Train the members of a job without a file, and write their predictions."""
    torch.set_num_threads(1)
    own, missing = job.config, job.missing
    if not missing:
        return
    settings = {**DEFAULTS[own["training"]], **own.get("settings", {})}
    if "task" in job.data:
        from .text import train_text

        train_text(job, missing, settings)
        return
    data = data_of(json.dumps(job.data), job.seed)
    if own["training"] == "probe":
        by_probe(job, missing, data, settings)
        return
    base = base_model(own["base"])
    for member in missing:
        model = train_whole(
            *(member, own["training"], base, data.train.images, data.train.labels, data.classes),
            settings,
        )
        sets = evaluated(data)
        write(job, member, data, {k: logits_of(model, s.images) for k, s in sets.items()})


def by_probe(job: Job, missing: list[Member], data: Data, settings: dict[str, Any]) -> None:
    """Train the linear probes of all members at once."""
    inputs = features_of_data(job.config["base"], json.dumps(job.data), job.seed)
    weights = probe(missing, inputs["train"], data.train.labels, data.classes, settings)
    logits = {name: predicted(weights, inputs[name]) for name in evaluated(data)}
    norms: dict[str, list[float]] = {}
    if steps := job.config.get("projnorm"):
        labels = {shift: logits[shift].argmax(2) for shift in data.shifts}
        norms = projected(missing, inputs, data, labels, settings, steps)
    for number, member in enumerate(missing):
        own = {shift: norm[number] for shift, norm in norms.items()}
        write(job, member, data, {name: all_[number] for name, all_ in logits.items()}, own)


def predicted(weights: Tensor, inputs: Tensor) -> Tensor:
    """Logits [m,n,C] of probes [m,D+1,C] on features [n,D]."""
    return inputs @ weights[:, :-1] + weights[:, -1:]


def projected(
    missing: list[Member],
    inputs: dict[str, Tensor],
    data: Data,
    labels: dict[str, Tensor],
    settings: dict[str, Any],
    steps: int,
) -> dict[str, list[float]]:
    """ProjNorm of each probe on each shift, with the probes' predictions [m,n] as labels."""
    own = [member._replace(budget=steps) for member in missing]
    reference = probe(own, inputs["train"], data.train.labels, data.classes, settings)
    whole = [member._replace(fraction=1.0) for member in own]
    found = {}
    for shift, predictions in labels.items():
        pseudo = probe(whole, inputs[shift], predictions, data.classes, settings)
        found[shift] = [
            projection_norm([a.numpy()], [b.numpy()])
            for a, b in zip(reference, pseudo, strict=True)
        ]
    return found


def evaluated(data: Data) -> dict[str, Images]:
    """The sets whose predictions are stored."""
    return {VALIDATION: data.validation, **data.shifts}


@lru_cache(maxsize=1)
def data_of(config: str, seed: int) -> Data:
    """The images of a seed, cached within the process."""
    return load_data(json.loads(config), seed)


@lru_cache(maxsize=1)
def features_of_data(base: str, config: str, seed: int) -> dict[str, Tensor]:
    """The base's features of the images of a seed."""
    return features(base_model(base), data_of(config, seed))[0]


def write(
    job: Job,
    member: Member,
    data: Data,
    logits: dict[str, Tensor],
    norms: Mapping[str, float] = MappingProxyType({}),
) -> None:
    """Write the member's predictions and scores, with and without a temperature from validation data."""
    arrays = {name: own.numpy() for name, own in logits.items()}
    temperature = fit_temperature(arrays[VALIDATION], data.validation.labels.numpy())
    sets = {
        name: scored(arrays[name], temperature, own.ids.numpy(), own.labels.numpy())
        for name, own in evaluated(data).items()
    }
    save(job.file(member), {k: own._replace(projnorm=norms.get(k)) for k, own in sets.items()})
