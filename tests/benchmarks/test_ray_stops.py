"""Signals to all processes of a suite that runs on Ray, as a cluster's scheduler sends them."""

import contextlib
import os
import signal
from pathlib import Path

import pytest
from conftest import model
from processes import until
from slow_runs import config, group, rows, write

from holdfast.run_folder import read_rows


def session(pid: int) -> list[int]:
    """All processes of the session that this one leads: the cluster's and the runs', in whatever group."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(") ")[2].split()
            found += [int(path.parent.name)] if fields[3] == str(pid) else []
    return found


@pytest.mark.slow
def test_sigterm_to_a_suite_on_ray(tmp_path: Path) -> None:
    """To the cluster's processes as well: both runs save the step at hand, and the third is not begun."""
    pytest.importorskip("ray")
    names = ("Source", "Tent", "BNAdapt")
    data = config(images=10**6)["data"]
    suite = {
        "out": "runs",
        "streams": {"digits": data},
        "common": {"trainer": {"accelerator": "cpu"}},
        "methods": {name: model(name) for name in names},
    }
    file, runs = write(tmp_path, suite, pause=0.1), tmp_path / "runs" / "digits-seed43"
    with group(tmp_path, "suite", file, "--backend", "ray", "--jobs", "2") as process:
        try:
            until(
                lambda: all(rows(runs / name) > 2 for name in names[:2]),
                alive=lambda: process.poll() is None,
            )
            for pid in session(process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)
            output = process.told(300)
            until(lambda: not session(process.pid))  # the cluster, too, ends
        finally:
            for pid in session(process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
    assert process.returncode == 130, output
    assert "failed:" not in output
    assert not (runs / names[2] / "record.jsonl").exists()
    for name in names[:2]:
        assert (runs / name / "checkpoints" / f"step-{rows(runs / name):09d}.ckpt").exists()
        assert [row["step"] for row in read_rows(runs / name)] == list(range(rows(runs / name)))
