"""Logs of Inspect as runs of ours: of the task, whoever ran it, or of what was exported before."""

from pathlib import Path
from typing import Any

from inspect_ai.log import EvalLog, read_eval_log

from ... import HoldfastError
from ..data import Dataset
from ..results import header_on
from .export import HEADER, TASK
from .samples import metadata, sample_of
from .scorer import RECORD, guessed


def run_of(path: Path, dataset: Dataset) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The header and the records of a log, those of other samples than the data set's left out.

    A sample of another solver than ours is a guess, its output the title.
    """
    try:
        log = read_eval_log(str(path))
    except Exception as error:  # a zip, its JSON, or Inspect's own reading of it
        raise HoldfastError(
            f"{path} cannot be read as a log of Inspect ({type(error).__name__}: {error})."
        ) from None
    if log.eval.task not in (TASK, Path(TASK).name):  # the latter from a file, not by its registry
        raise HoldfastError(f"{path} is a log of the task {log.eval.task}: give one of {TASK}.")
    known = {sample.id: metadata(sample) for sample in dataset.samples}
    records = []
    for sample in log.samples or ():
        same = known.get(str(sample.id))
        if same is None or metadata(sample_of(sample.metadata)) != same:
            continue
        record = sample.store.get(RECORD)
        if record is None:
            record = guessed(str(sample.id), "" if sample.error else sample.output.completion)
            record |= {"type": "sample", "repeat": sample.epoch - 1}
            if sample.error:
                record |= {"status": "crash", "detail": sample.error.message}
        records.append(record)
    return (log.eval.metadata or {}).get(HEADER) or header_of(log, dataset), records


def header_of(log: EvalLog, dataset: Dataset) -> dict[str, Any]:
    """The header of a run that Inspect made."""
    step = log.plan.steps[0]
    options = step.params
    config = log.plan.config.merge(log.eval.model_generate_config)
    agent = {
        "name": f"inspect {step.solver.rpartition('/')[2]}",
        "model": log.eval.model,
        "temperature": config.temperature,
        "commands": options.get("commands"),
        "demonstration": False,
        "inspect": log.eval.packages.get("inspect_ai"),
    }
    budget = {name: options.get(name) for name in ("results", "max_actions", "read_chars")}
    search = {"name": options.get("search", "none")}
    return header_on(dataset, agent, search, budget, log.eval.config.epochs or 1)
