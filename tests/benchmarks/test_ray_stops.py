"""A suite on Ray: a run whose process is killed, one that ends, and signals to all processes at once."""

import contextlib
import os
import re
import signal
from pathlib import Path

import pytest
from conftest import model
from processes import process_of, saved, until
from slow_runs import STEPS, config, group, rows, write

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
def test_a_suite_on_ray(tmp_path: Path) -> None:
    """A killed run resumes and finishes; SIGTERM to all processes saves the runs in progress."""
    pytest.importorskip("ray")
    endless = config(images=10**6)["data"]
    suite = {
        "out": "runs",
        "streams": {"short": config()["data"], "endless": endless},
        "common": {"trainer": {"accelerator": "cpu"}, "save_every": 1},
        "methods": {"Source": model("Source"), "Tent": model("Tent")},
    }
    file, runs = write(tmp_path, suite, pause=0.1), tmp_path / "runs"
    short, first, second = (
        runs / f"{stream}-seed43" / method
        for stream, method in (("short", "Source"), ("endless", "Source"), ("endless", "Tent"))
    )
    words = ("suite", file, "--backend", "ray", "--jobs", "2", "--retries", "1")
    with group(tmp_path, *words) as process:
        try:
            alive = lambda: process.poll() is None  # noqa: E731
            until(lambda: saved(short), alive=alive)
            os.kill(process_of(short), signal.SIGKILL)
            until(lambda: min(rows(first), rows(second)) > 2, alive=alive)
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
    assert re.search("short-seed43/Source: WorkerCrashedError: .*resumed", output)
    assert "failed:" not in output
    assert [row["step"] for row in read_rows(short)] == list(range(STEPS))
    for run in (first, second):
        assert (run / "checkpoints" / f"step-{rows(run):09d}.ckpt").exists()
        assert [row["step"] for row in read_rows(run)] == list(range(rows(run)))
