"""`holdfast plan`: estimate the time, bottleneck and disk space of a suite."""

import json
import math
import sys
from pathlib import Path
from typing import Any, NamedTuple

from ... import HoldfastError
from ...command_parser import Parser
from ...files import read_json, without, write_json
from ..results.text_table import aligned
from ..run.common_options import roughly
from ..suites import grid, suite
from ..suites.cell import Cell
from ..suites.cell_workers import cores, threads_each
from ..suites.check import check_cells

STEPS = 30  # steps of each trial
NOT_TIMED = ("seed", "images", "difficulty", "start")  # stream arguments that do not affect costs


class Load(NamedTuple):
    """The costs of one run: seconds and bytes per batch unless stated otherwise."""

    batches: int
    workers: int  # processes that generate batches during the steps
    start: float  # seconds before and after the steps, per run
    step: float
    read: float  # decoding and cropping on one core
    corrupt: float  # on one core; 0 if the device corrupts
    disk: float
    disk_start: float  # bytes per run that do not depend on the number of batches

    @property
    def seconds(self) -> float:
        """The seconds of the run on an otherwise idle machine."""
        make = (self.read + self.corrupt) / max(self.workers, 1)
        each = max(self.step, make) if self.workers else self.step + make
        return self.start + self.batches * each

    @property
    def limit(self) -> str:
        """The bottleneck: the part of a batch that takes the longest."""
        workers = max(self.workers, 1)
        return max(
            (self.step, "stepping"),
            (self.read / workers, "reading"),
            (self.corrupt / workers, "corrupting"),
        )[1]


def parser() -> Parser:
    """The options of the command."""
    parser = Parser(
        "plan",
        "Run the first steps of each method of a suite on this machine, then estimate the time, "
        "bottleneck and disk space of the whole suite.",
        "grid.yaml --jobs 4 --profile costs.json",
    )
    parser.add("config", help="YAML file, or the name of a suite that comes with Holdfast")
    parser.add("--profile", type=Path, help="JSON file of measured costs to read and extend")
    parser.add("--json", type=Path, help="also write the plan to this file")
    suite.add_options(parser)
    return parser


def main(argv: list[str]) -> int:
    """Measure unknown costs, then print the estimate."""
    args = parser().parse_args(argv)
    cells = [cell for cell in grid.cells(suite.load(args.config, args)) if not cell.finished]
    if not cells:
        print("All runs of this suite are finished.")
        return 0
    check_cells(cells)
    profile = Profile(args.profile)
    gpus = int(args.gpus or 0)
    if (args.jobs or 1) > 1 and not gpus:  # processes of a suite share the cores
        share = {"threads": threads_each(args.jobs)}
        cells = [cell._replace(config=share | cell.config) for cell in cells]
    loads = [profile.load(cell) for cell in cells]
    if gpus and profile.device == "cpu":
        raise HoldfastError(
            "--gpus needs costs measured on a GPU, but these were measured without one. Run `holdfast "
            "plan SUITE --profile FILE` on a machine with the GPUs, or pass its file."
        )
    if args.cache:
        loads = made_once(cells, loads)
    plan = added_up(loads, args.jobs or gpus or 1, gpus, profile.cores)
    print(aligned(table(cells, loads)))
    print(summary(plan))
    if args.json:
        write_json(args.json, plan)
    return 0


def made_once(cells: list[Cell], loads: list[Load]) -> list[Load]:
    """The costs if only the first run of each stream generates batches and the others use the cache."""
    seen: set[str] = set()
    left = []
    for cell, load in zip(cells, loads, strict=True):
        key = json.dumps(cell.config["data"], sort_keys=True, default=str)
        left.append(load._replace(read=0.0, corrupt=0.0) if key in seen else load)
        seen.add(key)
    return left


def added_up(loads: list[Load], jobs: int, gpus: int, cores: int) -> dict[str, Any]:
    """Total hours, bottleneck and bytes of all runs.

    Args:
        loads: the costs of each run.
        jobs: number of parallel runs.
        gpus: number of GPUs; 0 for steps on the CPU, which use one core each.
        cores: number of cores of the machine.
    """
    stepping = sum(load.batches * load.step for load in loads)
    making = sum(load.batches * (load.read + load.corrupt) for load in loads)
    busy = making if gpus else making + stepping
    bounds = {
        "the number of parallel runs": sum(load.seconds for load in loads) / jobs,
        "processor cores": busy / cores,
        "the longest run": max(load.seconds for load in loads),
    }
    limit = max(bounds, key=lambda name: bounds[name])
    return {
        "runs": len(loads),
        "hours": bounds[limit] / 3600,
        "limit": limit,
        "core_hours": busy / 3600,
        "gpu_hours": stepping / 3600 if gpus else 0.0,
        "disk_bytes": round(sum(load.disk_start + load.batches * load.disk for load in loads)),
        "jobs": jobs,
        "gpus": gpus,
        "cores": cores,
    }


def summary(plan: dict[str, Any]) -> str:
    """The plan as text."""
    gpus = f", {plan['gpu_hours']:.2g} GPU hours" if plan["gpus"] else ""
    return (
        f"{plan['runs']} runs: about {roughly(3600 * plan['hours'])} with {plan['jobs']} in parallel on "
        f"{plan['cores']} cores; limited by {plan['limit']}.\n"
        f"{plan['core_hours']:.2g} core hours{gpus}, {plan['disk_bytes'] / 1e6:,.1f} MB of disk."
    )


def table(cells: list[Cell], loads: list[Load]) -> list[list[str]]:
    """One row per kind of run: costs per batch, bottleneck, time of a run, number of runs."""
    lines: dict[tuple[str, ...], int] = {}
    for cell, load in zip(cells, loads, strict=True):
        costs = (f"{1000 * seconds:.1f}" for seconds in (load.step, load.read, load.corrupt))
        row = (cell.label, *costs, load.limit, f"{load.batches:,}", roughly(load.seconds))
        lines[row] = lines.get(row, 0) + 1
    head = ["method", "step [ms]", "read [ms]", "corrupt [ms]", "limit", "batches", "a run", "runs"]
    return [head, *([*row, str(count)] for row, count in lines.items())]


class Profile:
    """Costs of runs on one machine, by the settings that determine them.

    Args:
        path: JSON file to read and extend; None to store nothing.
        steps: number of steps in the trial of an unknown run.

    Raises:
        HoldfastError: if the file is not a profile.
    """

    def __init__(self, path: Path | None = None, steps: int = STEPS) -> None:
        self.path, self.steps = path, steps
        found = read_json(path) if path else {}
        if found and not (isinstance(found.get("costs"), dict) and "device" in found):
            raise HoldfastError(
                f"{path} is not a profile. Pass a file that `holdfast plan` has written."
            )
        self.costs: dict[str, dict[str, Any]] = found.get("costs", {})
        self.device: str = found.get("device", "")
        self.cores: int = found.get("cores", cores())

    def load(self, cell: Cell) -> Load:
        """The costs of a run, which are measured if unknown."""
        if (key := run_key(cell)) not in self.costs:
            from .run_costs import run_costs  # deferred: torch is slow to import

            print(f"timing {cell.label} on {cell.names['stream']} ...", file=sys.stderr, flush=True)
            self.costs[key] = run_costs(cell.config, self.steps)
            self.device = self.costs[key]["device"]
            if self.path:
                facts = {"device": self.device, "cores": self.cores, "costs": self.costs}
                write_json(self.path, facts)
        known = self.costs[key]
        return Load(
            batches_of(cell, known),
            corrupt=0.0 if known["on_device"] else known["corrupt"],
            **{n: known[n] for n in ("workers", "start", "step", "read", "disk", "disk_start")},
        )


def run_key(cell: Cell) -> str:
    """The settings that determine the costs of a run's batches."""
    config = {**cell.config, "data": without(cell.config["data"], *NOT_TIMED)}
    config.pop("seed_everything", None)
    return json.dumps(config, sort_keys=True, default=str)


def batches_of(cell: Cell, known: dict[str, Any]) -> int:
    """The number of batches of a run."""
    images = cell.config["data"].get("init_args", {}).get("images", known["images"])
    limit = (cell.config.get("trainer") or {}).get("limit_test_batches") or math.inf
    batches = min(math.ceil(images / known["batch_size"]) if images else math.inf, limit)
    if batches == math.inf:
        raise HoldfastError(f"{cell.folder} has an endless stream. Set images=NUMBER for it.")
    return int(batches)
