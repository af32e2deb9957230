"""Signals to all processes of a run, workers that are killed, and two commands on one folder."""

import contextlib
import ctypes
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from common import model, without_times
from processes import Command, members, rows, saved, started, until
from slow_runs import STEPS, config, group, write

from holdfast.benchmarks import test as test
from holdfast.benchmarks.cli import main
from holdfast.run_folder import owner, read_rows


def result(run: Path) -> tuple[Any, ...]:
    """What a run leaves, but for the times."""
    facts = without_times(run)
    return facts, json.loads((run / "summary.json").read_text())


def words(file: Path, out: str = "run") -> list[str | Path]:
    given = ["--model", "Tent", "--model.backbone", "digits", "--progress", "false"]
    return ["test", "--config", file, *given, "--out", out]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Runs a command in this process, in the test's folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "slow", raising=False)

    def run_here(*command: str | Path) -> None:
        assert main([str(word) for word in command]) == 0

    return run_here


def test_sigterm_to_the_group_while_a_batch_is_waited_for(tmp_path, here):
    """The run saves itself, ends with 130 and goes on to the same bits."""
    file, run = write(tmp_path, config()), tmp_path / "run"
    with group(tmp_path, *words(file)) as process:
        until(lambda: rows(run) > 2, alive=process.alive)
        os.killpg(process.pid, signal.SIGTERM)
        output = process.told(300)
        until(lambda: not members(process.pid))
    assert process.returncode == 130, output
    assert "Traceback" not in output
    assert f"saved after {rows(run)} steps" in output
    assert saved(run)
    write(tmp_path, config(), pause=0)
    here(*words(file), "--resume")
    here(*words(file, "whole"))
    assert result(run) == result(tmp_path / "whole")


@pytest.mark.slow
def test_sigterm_to_several_devices(tmp_path):
    """To all processes of a run whose batches are divided: they save the step at hand."""
    file, run = write(tmp_path, config(num_workers=1, images=10**6)), tmp_path / "run"
    devices = ["--trainer.devices", "2", "--trainer.strategy", "sync", "--resume"]
    with group(tmp_path, *words(file), *devices) as process:
        until(lambda: rows(run) > 2, 300)
        os.killpg(process.pid, signal.SIGTERM)
        output = process.told(300)
        until(lambda: not members(process.pid))
    assert process.returncode == 130, output
    assert "Traceback" not in output
    assert (run / "checkpoints" / f"step-{rows(run):09d}.ckpt").exists()


@pytest.mark.slow
def test_sigterm_stops_a_suite(tmp_path, here):
    """The run at hand is saved and the next not begun, also where a signal reaches every process."""
    common = config()
    cell = {"out": "runs", "streams": {"digits": common.pop("data")}, "common": common}
    suite = {**cell, "methods": {"Source": model("Source"), "Tent": model("Tent")}}
    file, runs = write(tmp_path, suite), tmp_path / "runs" / "digits-seed43"
    for jobs, begun in (("1", {"Source"}), ("2", {"Source", "Tent"})):
        with group(tmp_path, "suite", file, "--jobs", jobs) as process:
            before = {name: rows(runs / name) for name in begun}
            until(
                lambda: all(rows(runs / n) > done + 2 for n, done in before.items()),  # noqa: B023
                alive=process.alive,
            )
            # Of two runs the shorter may be finished by now.
            owners = {name: who for name in begun if (who := owner(runs / name))}
            everyone = {process.pid, *(int(who.rpartition(" ")[2]) for who in owners.values())}
            for number in everyone:  # each run of --jobs is the head of a group
                os.killpg(number, signal.SIGTERM)
            output = process.told(300)
            until(lambda: not [pid for number in everyone for pid in members(number)])  # noqa: B023
        assert process.returncode == 130, output
        assert "failed" not in output
        assert {path.parent.name for path in runs.glob("*/record.jsonl")} == begun
        # One that ended between the signal and its arrival has its results instead.
        stopped = [name for name in owners if not (runs / name / "summary.json").exists()]
        assert stopped
        for name in stopped:
            (newest, *_) = sorted((runs / name / "checkpoints").iterdir(), reverse=True)
            assert newest.name == f"step-{rows(runs / name):09d}.ckpt"
    write(tmp_path, suite, pause=0)
    here("suite", file)
    for name in ("Source", "Tent"):
        assert [row["step"] for row in read_rows(runs / name)] == list(range(STEPS))


def test_a_killed_worker_is_told_in_a_sentence(tmp_path):
    """And counts as died in a suite, which takes the run up again."""
    suite = {
        "out": "runs",
        "streams": {"digits": config()["data"]},
        "common": {"trainer": {"accelerator": "cpu"}, "save_every": 1},
        "methods": {"Tent": model("Tent")},
    }
    file, run = write(tmp_path, suite), tmp_path / "runs" / "digits-seed43" / "Tent"
    with group(tmp_path, "suite", file, "--retries", "1") as process:
        until(lambda: rows(run) > 1, alive=process.alive)
        os.kill(workers(process)[0], signal.SIGKILL)
        output = process.told(200)
    assert process.returncode == 0, output
    assert "Traceback" not in output
    assert re.search("Tent: .*SIGKILL .*resumed", output)
    assert [row["step"] for row in read_rows(run)] == list(range(STEPS))
    assert len(json.loads((run / "provenance.json").read_text())["resumed"]) == 1


def workers(process: Command) -> list[int]:
    """The processes that make batches."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [int(child) for child in children]


def ended_by(process: Command, number: int) -> bool:
    """Send the signal (again: two that come at once are one), and see whether that was the end."""
    process.send_signal(number)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(1)
    return not process.alive()


def test_no_worker_outlives_its_run(tmp_path):
    """Even one that hangs, when the run is killed, or when it is told twice to stop at once."""
    file = write(tmp_path, config("Stuck"))
    for number in (signal.SIGKILL, signal.SIGINT):
        with group(tmp_path, *words(file, f"run{int(number)}")) as process:
            until(lambda: (tmp_path / "stuck").exists(), alive=process.alive)
            until(lambda: ended_by(process, number))  # noqa: B023
            until(lambda: not members(process.pid))
        (tmp_path / "stuck").unlink()


def test_two_commands_on_one_folder(tmp_path):
    """The second is told at once who has it; the first is not disturbed."""
    file, run = write(tmp_path, config(images=10**6), pause=0.05), tmp_path / "run"
    with group(tmp_path, *words(file), "--resume") as process:
        until(lambda: rows(run) > 0, alive=process.alive)
        with group(tmp_path, *words(file), "--resume") as second:
            output = second.told(300)
        assert second.returncode == 2
        assert output.count("\n") == 1
        assert f"{os.uname().nodename}, process {process.pid}" in output
        process.send_signal(signal.SIGTERM)
        output = process.told(300)
    assert process.returncode == 130, output
    assert [row["step"] for row in read_rows(run)] == list(range(rows(run)))
    assert owner(run) is None


def in_small_rooms(command: list[str]) -> None:
    """Run the command where /dev/shm has these sizes; its process may have one thread."""
    user, group = os.getuid(), os.getgid()
    assert ctypes.CDLL(None).unshare(0x10000000 | 0x00020000) == 0  # users, mounts
    maps = {"setgroups": "deny", "uid_map": f"0 {user} 1", "gid_map": f"0 {group} 1"}
    for name, text in maps.items():
        Path("/proc/self", name).write_text(text)
    for room in ("400k", "64k"):
        mount = ["mount", "-t", "tmpfs", "-o", f"size={room}", "tmpfs", "/dev/shm"]
        subprocess.run(mount, check=True)
        print(room, "ended with", main([*command, "--out", room]), file=sys.stderr)


@pytest.mark.slow
def test_shared_memory_that_is_too_small(tmp_path):
    """As in Docker, whose default is 64 MB: a batch alone would fit, or not even that."""
    mount = ["unshare", "--mount", "--map-root-user", "mount", "-t", "tmpfs", "tmpfs", "/dev/shm"]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("a file system cannot be mounted here")
    file = write(tmp_path, config(batch_size=16), pause=0)
    with started(*words(file), main=in_small_rooms, folder=tmp_path, session=True) as process:
        output = process.told(400)
    assert process.returncode == 0, output
    assert "Traceback" not in output
    larger, end, rest = output.partition("400k ended with 2\n")
    smaller, last, _ = rest.partition("64k ended with 2\n")
    assert end, output
    assert last, output
    assert "MB of shared memory" in larger or "is full" in larger  # whichever is seen first
    assert "is full" in smaller
    assert larger.count("--shm-size") == smaller.count("--shm-size") == 1
