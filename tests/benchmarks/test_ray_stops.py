"""A suite on Ray: a run whose process is killed, one that ends, and signals to all processes at once."""

import contextlib
import os
import re
import signal

import pytest
from common import model
from processes import members, process_of, rows, saved, started, until
from slow_runs import STEPS, config, write

from holdfast.run_folder import SUMMARY, read_rows

# A cluster that starts no processes in advance.
QUICK = {
    "RAY_enable_worker_prestart": "0",
    "RAY_num_prestart_python_workers": "0",
    "RAY_prestart_worker_first_driver": "0",
    "RAY_enable_metrics_collection": "0",
}


def ended(pid: int) -> bool:
    """Whether the session has ended, but for Ray's agents, which look for their cluster for a minute."""
    return all(line.startswith("ray::") and "Agent" in line for line in members(pid).values())


@pytest.mark.slow
def test_a_suite_on_ray(tmp_path):
    """A killed run resumes and finishes; SIGTERM to all processes saves the run in progress."""
    pytest.importorskip("ray")
    suite = {
        "out": "runs",
        "streams": {"short": config()["data"], "endless": config(images=10**6)["data"]},
        "common": {"trainer": {"accelerator": "cpu"}, "save_every": 1},
        "methods": {"Tent": model("Tent")},
    }
    file = write(tmp_path, suite, pause=0.5)
    short, endless = (tmp_path / f"runs/{stream}-seed43/Tent" for stream in suite["streams"])
    words = ("suite", file, "--backend", "ray", "--jobs", "2", "--retries", "1")
    with started(*words, folder=tmp_path, session=True, environment=QUICK) as process:
        try:
            until(lambda: saved(short), alive=process.alive)
            os.kill(process_of(short), signal.SIGKILL)
            until(lambda: (short / SUMMARY).exists() and rows(endless) > 2, alive=process.alive)
            for pid in members(process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)
            output = process.told(300)
            until(lambda: ended(process.pid))  # the cluster, too
        finally:
            for pid in members(process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
    assert process.returncode == 130, output
    assert re.search("short-seed43/Tent: WorkerCrashedError: .*resumed", output)
    assert "failed:" not in output
    assert [row["step"] for row in read_rows(short)] == list(range(STEPS))
    assert [row["step"] for row in read_rows(endless)] == list(range(rows(endless)))
    assert (endless / "checkpoints" / f"step-{rows(endless):09d}.ckpt").exists()
