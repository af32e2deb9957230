"""`holdfast plan`: how long a suite will take, what limits it, and how much disk it needs."""

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

STEPS = 30  # of each trial
NOT_TIMED = ("seed", "images", "difficulty", "start")  # of a stream: they change no batch's cost


class Load(NamedTuple):
    """One run of the grid: seconds and bytes, of each batch unless stated."""

    batches: int
    workers: int  # which make batches beside the steps
    start: float  # seconds of the run before and after its steps
    step: float
    read: float  # of one core; decoding and cropping
    corrupt: float  # of one core; 0 where the device does it
    disk: float
    disk_start: float  # bytes of the run besides

    @property
    def seconds(self) -> float:
        """Of the run, with the machine to itself."""
        make = (self.read + self.corrupt) / max(self.workers, 1)
        each = max(self.step, make) if self.workers else self.step + make
        return self.start + self.batches * each

    @property
    def limit(self) -> str:
        """What takes the longest."""
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
        "Try the first steps of each method of a suite on this machine, and say how long the "
        "whole suite takes, what limits it, and how much disk it needs. Nothing else is run.",
        "grid.yaml --jobs 4 --profile costs.json",
    )
    parser.add("config", help="YAML file, or the name of a suite that comes with Holdfast")
    parser.add("--profile", type=Path, help="JSON file of measured costs, read and added to")
    parser.add("--json", type=Path, help="also write the plan to this file")
    suite.add_options(parser)
    return parser


def main(argv: list[str]) -> int:
    """Measure what is not known, add up, print."""
    args = parser().parse_args(argv)
    cells = [cell for cell in grid.cells(suite.load(args.config, args)) if not cell.finished]
    if not cells:
        print("All runs of this suite are finished.")
        return 0
    check_cells(cells)
    profile = Profile(args.profile)
    gpus = int(args.gpus or 0)
    if (args.jobs or 1) > 1 and not gpus:  # as the suite's processes share the cores
        share = {"threads": threads_each(args.jobs)}
        cells = [cell._replace(config=share | cell.config) for cell in cells]
    loads = [profile.load(cell) for cell in cells]
    if gpus and profile.device == "cpu":
        raise HoldfastError(
            "--gpus: these costs were measured without a GPU. Run `holdfast plan SUITE --profile FILE` "
            "where the GPUs are, or pass such a file."
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
    """The same runs if only the first one of each stream generates batches."""
    seen: set[str] = set()
    left = []
    for cell, load in zip(cells, loads, strict=True):
        key = json.dumps(cell.config["data"], sort_keys=True, default=str)
        left.append(load._replace(read=0.0, corrupt=0.0) if key in seen else load)
        seen.add(key)
    return left


def added_up(loads: list[Load], jobs: int, gpus: int, cores: int) -> dict[str, Any]:
    """Hours, bottleneck and bytes of all runs together.

    Args:
        loads: one of each run.
        jobs: runs at once.
        gpus: 0 for steps on the processor, each of which then takes a core.
        cores: of the machine.
    """
    stepping = sum(load.batches * load.step for load in loads)
    making = sum(load.batches * (load.read + load.corrupt) for load in loads)
    busy = making if gpus else making + stepping
    bounds = {
        "the number of runs at once": sum(load.seconds for load in loads) / jobs,
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
    """The plan in words."""
    gpus = f", {plan['gpu_hours']:.2g} GPU hours" if plan["gpus"] else ""
    return (
        f"{plan['runs']} runs: about {roughly(3600 * plan['hours'])} with {plan['jobs']} at once on "
        f"{plan['cores']} cores; limited by {plan['limit']}.\n"
        f"{plan['core_hours']:.2g} core hours{gpus}, {plan['disk_bytes'] / 1e6:,.1f} MB of disk."
    )


def table(cells: list[Cell], loads: list[Load]) -> list[list[str]]:
    """A row for each kind of run: costs of a batch, bottleneck, time of a run, number of runs."""
    lines: dict[tuple[str, ...], int] = {}
    for cell, load in zip(cells, loads, strict=True):
        costs = (f"{1000 * seconds:.1f}" for seconds in (load.step, load.read, load.corrupt))
        row = (cell.label, *costs, load.limit, f"{load.batches:,}", roughly(load.seconds))
        lines[row] = lines.get(row, 0) + 1
    head = ["method", "step [ms]", "read [ms]", "corrupt [ms]", "limit", "batches", "a run", "runs"]
    return [head, *([*row, str(count)] for row, count in lines.items())]


class Profile:
    """Costs of runs on one machine, by what they depend on.

    Args:
        path: JSON file to read them from and add them to; None to keep nothing.
        steps: of the trial of a run that is not known.

    Raises:
        HoldfastError: if the file is something else.
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
        """The costs of a run: measured now, unless they are known."""
        if (key := run_key(cell)) not in self.costs:
            from .run_costs import run_costs  # here: torch and lightning take seconds

            print(f"trying {cell.label} on {cell.names['stream']} ...", file=sys.stderr, flush=True)
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
    """The settings on which the costs of a run's batches depend."""
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
