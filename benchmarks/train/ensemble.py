"""`holdfast train ensemble FILE`: models that differ in one source of diversity, and their predictions.

docs/ensembles.md describes the file. Existing models are not trained again.
"""

import json
import os
import time
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import torch
from pydantic import BaseModel, Field, PositiveInt

from ... import HoldfastError
from ...callbacks.provenance import environment
from ...files import read_json, read_yaml, write_json
from ...run_folder import PROVENANCE
from ..presets import CONFIGS
from ..results.predictions import write_predictions
from ..suites.execution import cores
from ..suites.suite_schema import validate
from .members import Member, Task, members, trained

_Share = Annotated[float, Field(gt=0, le=1)]


class _DataSets(BaseModel, extra="forbid"):
    """The entry `data`; what its entries contain depends on the task."""

    task: Literal["classification", "qa"] | None = None
    train: dict[str, Any]
    validation: dict[str, Any]
    shifts: dict[str, Any]


class _Ensemble(BaseModel, extra="forbid", strict=True):
    """An entry of `ensembles`."""

    base: str
    training: Literal["probe", "finetune", "lora", "scratch"]
    diversity: dict[Literal["head", "order", "subset"], list[_Share]] = Field(min_length=1)
    budgets: list[PositiveInt] = Field(min_length=1)
    members: PositiveInt
    settings: dict[Literal["lr", "batch", "weight_decay", "init"], float] = {}
    projnorm: PositiveInt | None = None  # of probes


class _Description(BaseModel, extra="forbid"):
    """The file."""

    out: str
    seeds: list[int]
    data: _DataSets
    ensembles: dict[str, _Ensemble]


class Job(NamedTuple):
    """The members of one ensemble with the same source of diversity, share of the data and seed."""

    folder: Path
    data: dict[str, Any]
    config: dict[str, Any]  # an `_Ensemble`
    source: str
    share: float
    seed: int

    @property
    def missing(self) -> list[Member]:
        """The members without a file of predictions."""
        budgets, count = self.config["budgets"], self.config["members"]
        everyone = members(self.source, self.share, budgets, count, self.seed)
        return [member for member in everyone if not self.file(member).exists()]

    def file(self, member: Member) -> Path:
        """The file of a member's predictions."""
        return self.folder / f"{member.name}.npz"


def load(name: str) -> dict[str, Any]:
    """Load a description from a file, or by the name of one that comes with Holdfast.

    Raises HoldfastError if it cannot be read or is invalid.
    """
    file = CONFIGS / "ensembles" / f"{name}.yaml"
    file = file if file.is_file() else Path(name)
    config = read_yaml(file)
    validate(_Description, config, str(file))
    for title, entry in config["ensembles"].items():
        if "projnorm" in entry and entry["training"] != "probe":
            raise HoldfastError(
                f"{file}: {title}: projnorm supports only training: probe. Change or remove it."
            )
    return config


def jobs(config: dict[str, Any]) -> list[Job]:
    """All jobs of a description, grouped by seed, as ensembles of one seed share their data."""
    todo = []
    for seed in config["seeds"]:
        for name, entry in config["ensembles"].items():
            for source, share in ((s, x) for s, xs in entry["diversity"].items() for x in xs):
                folder = Path(config["out"], name, f"seed{seed}", f"{source}-{float(share):g}")
                todo.append(Job(folder, config["data"], entry, source, share, seed))
    return todo


def train(todo: list[Job], count: int | None = None) -> float:
    """Train missing models in `count` processes (default: one per core); returns processor seconds."""
    total = 0.0
    count = count or cores()
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # for the processes, before they import torch
    with ProcessPoolExecutor(count, mp_context=get_context("spawn")) as pool:
        finished = pool.map(_run, todo) if count > 1 else map(_run, todo)
        for done, (folder, seconds) in enumerate(finished, 1):
            print(f"[{done}/{len(todo)}] {folder}: {seconds:.1f} processor seconds", flush=True)
            total += seconds
    return total


def _run(job: Job) -> tuple[Path, float]:
    """Train the missing members of a job; returns its folder and the processor seconds spent."""
    start = time.process_time()
    torch.set_num_threads(1)
    if missing := job.missing:
        task = task_of(json.dumps(job.data), job.config["base"], job.seed)
        for member, predictions in trained(task, missing, job.config):
            write_predictions(job.file(member), predictions)
        _write_origin(job)
    return job.folder, time.process_time() - start


def _write_origin(job: Job) -> None:
    """Write the commit, processor, threads and base of the members beside them."""
    path, where = job.folder / PROVENANCE, environment(torch.device("cpu"))
    # An interrupted job may have been continued by other code.
    commits = {*read_json(path).get("commit", "").split(", "), str(where["commit"])} - {""}
    base = f"base {job.config['base']}"
    write_json(path, {**where, "commit": ", ".join(sorted(commits)), "weights": base})


@lru_cache(maxsize=1)
def task_of(data: str, base: str, seed: int) -> Task:
    """The task of an ensemble, cached for the next job with the same data, base and seed."""
    config = json.loads(data)
    if "task" in config:
        from .text_task import TextTask  # deferred: imports transformers

        return TextTask(config, base, seed)
    from .image_task import ImageTask  # deferred: few need both

    return ImageTask(config, base, seed)
