"""Read logs of Inspect as runs: logs of the task with any solver, or of `holdfast cite export`."""

from pathlib import Path
from typing import Any

from inspect_ai.log import EvalLog, read_eval_log

from ... import HoldfastError
from ..data import Dataset
from ..results import header_on
from ..schema import Record
from .export import HEADER, TASK
from .scorer import metadata, record_in, sample_of


def run_of(path: Path, dataset: Dataset) -> tuple[dict[str, Any], list[Record]]:
    """The header of a log, and the records of its samples in the dataset.

    The output of a solver other than Holdfast's counts as a title from memory.

    Raises:
        HoldfastError: if it is not a log of the task.
    """
    try:
        log = read_eval_log(str(path))
    except Exception as error:  # a zip, its JSON, or Inspect's own reading of it
        raise HoldfastError(
            f"Cannot read {path} as an Inspect log ({type(error).__name__}: {error}). Pass a log (.eval) "
            f"of the task {TASK}."
        ) from None
    if log.eval.task not in (TASK, Path(TASK).name):  # the latter if the task was run from its file
        raise HoldfastError(f"{path} is a log of the task {log.eval.task}. Pass one of {TASK}.")
    known = {sample.id: metadata(sample) for sample in dataset.samples}
    records = []
    for sample in log.samples or ():
        same = known.get(str(sample.id))
        if same is None or metadata(sample_of(sample.metadata)) != same:
            continue
        record = record_in(sample.store)
        if record is None:
            title = "" if sample.error else sample.output.completion.strip()
            record = Record.guessed(str(sample.id), title, repeat=sample.epoch - 1)
            if sample.error:
                record.status, record.detail = "crash", sample.error.message
        records.append(record)
    return (log.eval.metadata or {}).get(HEADER) or header_of(log, dataset), records


def header_of(log: EvalLog, dataset: Dataset) -> dict[str, Any]:
    """The settings of a run by Inspect."""
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
