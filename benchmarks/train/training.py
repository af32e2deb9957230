"""One job of `holdfast ensemble`: images, models, predictions; what is finished is not made again."""

import json
import time
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...callbacks.functional.confidence import fit_temperature
from ..results.predictions import VALIDATION, save
from .bases import base_model
from .ensemble_data import Data, Images, features, load_data
from .members import DEFAULTS, Member, logits_of, members, probe, train_whole
from .scores import scored


class Job(NamedTuple):
    """The members of one ensemble with one source of diversity, one share of the data and one seed."""

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


def run(job: Job) -> tuple[str, float]:
    """Train what is missing of an ensemble; returns its folder and the processor seconds it took."""
    start = time.process_time()
    train_missing(job)
    return str(job.folder), time.process_time() - start


def train_missing(job: Job) -> None:
    """Train the members of a job that have no file yet, and write their predictions."""
    torch.set_num_threads(1)
    own = job.config
    all_members = members(job.source, job.fraction, own["budgets"], own["members"], job.seed)
    missing = [m for m in all_members if not (job.folder / f"{m.name}.npz").exists()]
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
    """Linear probes of all members at once."""
    inputs = features_of_data(job.config["base"], json.dumps(job.data), job.seed)
    weights = probe(missing, inputs["train"], data.train.labels, data.classes, settings)
    for member, weight in zip(missing, weights, strict=True):
        logits = {name: inputs[name] @ weight[:-1] + weight[-1] for name in evaluated(data)}
        write(job, member, data, logits)


def evaluated(data: Data) -> dict[str, Images]:
    """The sets that predictions are kept of."""
    return {VALIDATION: data.validation, **data.shifts}


@lru_cache(maxsize=1)
def data_of(config: str, seed: int) -> Data:
    """The images of a seed, kept while the same process needs them."""
    return load_data(json.loads(config), seed)


@lru_cache(maxsize=1)
def features_of_data(base: str, config: str, seed: int) -> dict[str, Tensor]:
    """The base's features of all of them."""
    return features(base_model(base), data_of(config, seed))[0]


def write(job: Job, member: Member, data: Data, logits: dict[str, Tensor]) -> None:
    """The member's predictions and scores, with and without a temperature fitted to validation data."""
    arrays = {name: own.numpy() for name, own in logits.items()}
    temperature = fit_temperature(arrays[VALIDATION], data.validation.labels.numpy())
    sets = {
        name: scored(arrays[name], temperature, own.ids.numpy(), own.labels.numpy())
        for name, own in evaluated(data).items()
    }
    save(job.folder / f"{member.name}.npz", sets)
