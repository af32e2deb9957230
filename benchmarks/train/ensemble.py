"""`holdfast ensemble`: train models that differ in one source of diversity, and store their predictions.

An ensemble is one YAML file:

out: runs/ensembles/glyphs
seeds: [0, 1, 2]
data:
  train: {source: {class_path: Glyphs, init_args: {split: train}}, images: 4000}
  validation: {source: {class_path: Glyphs, init_args: {split: calibration}}, images: 2000}
  shifts:                                    # streams as in a suite, including `each`
    fog: {class_path: Corrupted, init_args: {source: Glyphs, corruptions: [fog], each: 2000}}
ensembles:
  probe:
    base: glyphs                             # a network by name, relu:400, or pixels
    training: probe                          # or finetune, lora, scratch
    diversity: {head: [1, 0.1], order: [1, 0.1], subset: [0.1, 0.3, 0.5]}   # shares of the data
    budgets: [10, 30, 100, 300, 1000]        # steps
    members: 4                               # number per budget
    settings: {lr: 0.03, batch: 64, weight_decay: 0, init: 0.3}   # optional
    projnorm: 50                             # optional, of probes: steps of ProjNorm's networks

The predictions of each model are written to OUT/ENSEMBLE/seedS/SOURCE-SHARE/MEMBER.npz; run `holdfast
estimators agree OUT` for the estimates. Existing models are not trained again. For language models see
holdfast/benchmarks/train/text.py.
"""

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import yaml

from ... import HoldfastError
from ...command_parser import Parser
from ...files import reason
from ..presets import CONFIGS
from ..run.cli_help import ALLOW
from ..suites.suite_schema import Data, Ensemble, Ensembles, check
from .members import DEFAULTS
from .training import Job, run


def load(name: str) -> dict[str, Any]:
    """Load a description from a file, or by the name of one that comes with Holdfast.

    Raises:
        HoldfastError: if it cannot be read or is invalid.
    """
    file = CONFIGS / "ensembles" / f"{name}.yaml"
    file = file if file.is_file() else Path(name)
    try:
        config = yaml.safe_load(file.read_text())
    except (OSError, ValueError, yaml.YAMLError) as error:
        known = ", ".join(sorted(own.stem for own in (CONFIGS / "ensembles").glob("*.yaml")))
        raise HoldfastError(
            f"Cannot read {file} as YAML ({reason(error)}). Pass a file, or one of {known}."
        ) from None
    check(Ensembles, config, str(file))
    check(Data, config["data"], f"{file}: data")
    for title, own in config["ensembles"].items():
        check(Ensemble, own, f"{file}: {title}")
        if "projnorm" in own and own["training"] != "probe":
            raise HoldfastError(
                f"{file}: {title}: projnorm supports only training: probe. Change or remove it."
            )
        settings = DEFAULTS[own["training"]]
        if unknown := set(own.get("settings", {})) - set(settings):
            raise HoldfastError(
                f"{file}: {title}: there is no setting {sorted(unknown)[0]}. Choose from "
                f"{', '.join(settings)}."
            )
    return config


def jobs(config: dict[str, Any]) -> list[Job]:
    """All jobs of a description, grouped by seed, as ensembles of one seed share their images."""
    return [
        Job(config["out"], config["data"], name, own, source, float(share), seed)
        for seed in config["seeds"]
        for name, own in config["ensembles"].items()
        for source, shares in own["diversity"].items()
        for share in shares
    ]


def parser() -> Parser:
    """The options of the command."""
    parser = Parser("ensemble", __doc__, "glyphs --jobs 2")
    parser.add("file", help="YAML file as above, or one of glyphs, glyphs-whole")
    parser.add("--jobs", type=int, help="number of processes (default: one per core)")
    parser.add("--allow", metavar="NAME", help=ALLOW)
    return parser


def main(argv: list[str]) -> int:
    """Train all ensembles of a file."""
    args = parser().parse_args(argv)
    todo = jobs(load(args.file))
    total = train(todo, args.jobs or len(os.sched_getaffinity(0)))
    print(f"{total:.0f} processor seconds; next: holdfast estimators agree {todo[0].out}")
    return 0


def train(todo: list[Job], count: int) -> float:
    """Train missing models in `count` processes; returns the processor seconds spent."""
    total = 0.0
    if count == 1:
        for done, job in enumerate(todo, 1):
            total += told(done, len(todo), *run(job))
        return total
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # for the processes, before they import torch
    with ProcessPoolExecutor(count, mp_context=get_context("spawn")) as pool:
        for done, found in enumerate(pool.map(run, todo), 1):
            total += told(done, len(todo), *found)
    return total


def told(done: int, all_jobs: int, folder: str, seconds: float) -> float:
    """Print a finished job; returns its seconds."""
    print(f"[{done}/{all_jobs}] {folder}: {seconds:.1f} processor seconds", flush=True)
    return seconds
