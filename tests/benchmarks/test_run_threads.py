"""The number of threads belongs to the run: the same bits whatever it is outside."""

from pathlib import Path
from typing import Any

import torch
import yaml
from common import BATCH, model, without_times
from small_suites import small_stream, write_suite

from holdfast.benchmarks.cli import main
from holdfast.benchmarks.results.runs import Run
from holdfast.benchmarks.suites import grid

LR = {"class_path": "torch.optim.SGD", "init_args": {"lr": 0.1, "momentum": 0.9}}


def suite(folder: Path, **common: Any) -> Path:
    """One run of 4 steps, far enough for rounding to grow."""
    data = small_stream(images=4 * BATCH, source="Glyphs", calibration="glyphs")
    methods = {"Tent": model("Tent", backbone="glyphs", optimizer=LR)}
    return write_suite(folder, methods, {"s": data}, common=common)


def rows(folder: Path, outside: int, **common: Any) -> list[dict[str, Any]]:
    """The record of the run, started where torch has this number of threads."""
    torch.set_num_threads(outside)
    assert main(["suite", str(suite(folder, **common))]) == 0
    assert torch.get_num_threads() == outside  # as before
    own = folder / "runs/s-seed43/Tent"
    return without_times(own)


def test_the_same_bits_on_any_number_of_cores(tmp_path):
    fixed = [rows(tmp_path / f"fixed{n}", n, threads=1) for n in (1, 2)]
    assert fixed[0] == fixed[1]
    assert rows(tmp_path / "free", 2) != fixed[0]  # why it is an option of the run
    facts = Run.load(tmp_path / "fixed2/runs/s-seed43/Tent").provenance
    assert facts["threads"] == 1
    assert facts["instructions"] == torch.backends.cpu.get_cpu_capability()
    assert facts["processor"]
    assert facts["versions"]["holdfast"]
    assert facts["commit"] is None or len(facts["commit"].partition("-")[0]) == 40


def test_embedded_suites_fix_their_threads():
    for path in grid.SUITES.rglob("*.yaml"):
        content = yaml.safe_load(path.read_text())
        for part in (content, *content.get("scales", {}).values()):
            common = part.get("common") or {}
            if (common.get("trainer") or {}).get("accelerator") == "cpu":
                assert common.get("threads") == 1, path
