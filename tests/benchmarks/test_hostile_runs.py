"""Damaged or malicious run folders: each is reported in one line among the others."""

import json
import os
import re
import resource
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import DATA, model
from lightning.pytorch import Callback
from made_up import made_up
from small_suites import write_suite

from holdfast import HoldfastError, lease
from holdfast.benchmarks.cli import main
from holdfast.benchmarks.run.one_run import run
from holdfast.benchmarks.suites import grid
from holdfast.benchmarks.suites.attempt import record_failure
from holdfast.benchmarks.suites.cell import Cell
from holdfast.benchmarks.suites.cell_workers import redirect_output
from holdfast.files import locked
from holdfast.run_folder import (
    CELL,
    CHECKPOINTS,
    ERROR,
    OUTPUT,
    OWNERS,
    PROVENANCE,
    ROWS,
    SUMMARY,
    WRITTEN,
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    cpu = {"accelerator": "cpu"}
    run({"model": model("Source"), "data": DATA, "trainer": cpu, "out": str(folder)})
    return folder


def put(name: str, content: bytes | str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())

    return change


def unfinished(change: Callable[[Path], None]) -> Callable[[Path], None]:
    def both(folder: Path) -> None:
        (folder / "summary.json").unlink()
        change(folder)

    return both


def provenance(**facts: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "provenance.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **facts}))

    return change


def rows(replacement: str) -> Callable[[Path], None]:
    """The record with something else in place of its third row."""

    def change(folder: Path) -> None:
        lines = (folder / "record.jsonl").read_text().splitlines()
        (folder / "record.jsonl").write_text("\n".join([*lines[:2], replacement, *lines[3:], ""]))

    return change


HOST = {"host": "node\033[2J7", "pid": 1, "machine": "another", "started": "1"}
DAMAGES = {
    **{f"{name} {content}": put(f"{name}.json", content)
       for name in ("provenance", "summary", "cell") for content in ("[]", "3", "{", "[" * 99_999)},
    "names that are none": put("cell.json", '{"names": [1], "config": {}}'),
    "a name that is none": put("cell.json", '{"names": {"method": [1]}, "config": {}}'),
    "no start": provenance(started=None),
    "no number of images": provenance(images="many"),
    "a seed that is none": provenance(seed=[1]),
    "a binary error": unfinished(put("error.txt", b"\xff\xfe\0\033[2J")),
    "a folder of errors": unfinished(lambda folder: (folder / "error.txt").mkdir()),
    "a binary owner": unfinished(put("owners/0001", b"\xff\xfe\0")),
    "an owner in a list": unfinished(put("owners/0001", "[1]\n")),
    "an owner without a host": unfinished(put("owners/0001", '{"pid": 1}\n')),
    "an owner with a terminal's escapes": unfinished(put("owners/0001", json.dumps(HOST) + "\n")),
    "owners with odd names": unfinished(put("owners/1a", "")),
    "an owner that is a folder": unfinished(lambda f: (f / "owners" / "0001").mkdir(parents=True)),
    "owners that are a file": unfinished(put("owners", "")),
    "NaN seconds": unfinished(rows('{"step": 2, "images": 48, "seconds": NaN, "reset": 0.0}')),
    "rows that are none": unfinished(rows("[1]")),
    "rows with other things": unfinished(rows('{"images": "many", "seconds": [], "reset": {}}')),
    "an accuracy that is none": unfinished(
        rows('{"step": 2, "images": 48, "seconds": 1, "reset": 0.0, "accuracy": "high"}')
    ),
    "rows that lack things": unfinished(rows("{}")),
}  # fmt: skip


def test_damaged_folders_are_a_line_each(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    names = {f"odd{number:02}": damage for number, damage in enumerate(DAMAGES.values())}
    shutil.copytree(finished, tmp_path / "good")
    for name, damage in names.items():
        shutil.copytree(finished, tmp_path / name, ignore=shutil.ignore_patterns("events.*"))
        damage(tmp_path / name)
    assert main(["status", str(tmp_path)]) == 0
    status = capsys.readouterr().out
    lines = status.splitlines()[: 1 + len(names)]
    assert [line.split()[0] for line in lines] == ["good", *names]
    assert lines[0].split()[1] == "finished"
    assert main(["report", str(tmp_path)]) == 0
    report = capsys.readouterr().out
    assert "Source" in report
    assert main(["report", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert str(tmp_path / "good") in [run["folder"] for run in found["runs"]]
    assert "\033" not in status + report


@pytest.mark.parametrize("key", ["methods", "streams", "overrides"])
@pytest.mark.parametrize("name", ["../../x", "a/../../../x", "x/../..", "\0"])
def test_names_do_not_lead_out_of_the_suite(tmp_path: Path, key: str, name: str) -> None:
    suite = {
        "out": str(tmp_path / "out"),
        "methods": {"Source": model("Source")},
        "streams": {"ccc": DATA},
        "overrides": {"": {}},
    }
    suite[key] = {name: next(iter(suite[key].values()))}  # type: ignore[attr-defined, call-overload]
    with pytest.raises(HoldfastError, match=re.escape(f"is outside {suite['out']}")):
        list(grid.cells(suite))


def test_a_lease_from_the_future_holds_nobody_up(tmp_path: Path) -> None:
    put("owners/0001", json.dumps({**HOST, "token": "x"}) + "\n")(tmp_path)
    owner = tmp_path / "owners" / "0001"
    os.utime(owner, (time.time() + 30,) * 2)  # a clock that is a little ahead
    with pytest.raises(lease.Busy), lease.Lease(tmp_path):
        pass
    os.utime(owner, (time.time() + 86_400,) * 2)
    assert lease.owner(tmp_path) is None
    with lease.Lease(tmp_path) as held:
        assert held.took_over


class Remove(Callback):
    """Removes the run's record in the middle of it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def on_test_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int, *_: Any
    ) -> None:
        if batch_idx == 5:
            self.path.unlink()


def test_a_record_that_was_removed_is_no_finished_run(tmp_path: Path) -> None:
    config = {"model": model("Source"), "data": DATA, "trainer": {"accelerator": "cpu"}}
    with pytest.raises(HoldfastError, match=r"record\.jsonl was .*replaced"):
        run({**config, "out": str(tmp_path)}, Remove(tmp_path / "record.jsonl"))
    assert not (tmp_path / "summary.json").exists()


def test_no_checkpoint_is_promised_where_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("a file where the folder should be")
    config = {"model": model("Source"), "data": DATA, "trainer": {"accelerator": "cpu"}}
    with pytest.raises(HoldfastError, match=re.escape(str(tmp_path / "checkpoints"))):
        run({**config, "out": str(tmp_path)})


def test_sentences_say_nothing_to_the_terminal() -> None:
    error = HoldfastError("no file \033]0;title\007\u202e\udcff in\nhere")
    assert str(error) == "no file ?]0;title??? in\nhere"


LINKED = (*WRITTEN, OWNERS, f"{OWNERS}/0001", CHECKPOINTS)


def link(place: Path, target: Path) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target)
    return place


@pytest.mark.parametrize(
    ("name", "there"), [*((name, True) for name in LINKED), (ROWS, False), (OWNERS, False)]
)
def test_no_link_in_a_run_folder_is_written(tmp_path: Path, name: str, there: bool) -> None:
    victim = tmp_path / "victim"
    if there and name in (OWNERS, CHECKPOINTS):
        victim.mkdir()
    elif there:
        victim.write_text("untouched\n")
    link(tmp_path / "out/ccc-seed43/Source" / name, victim)
    config = {"model": model("Source"), "data": DATA, "trainer": {"accelerator": "cpu"}}
    with pytest.raises(HoldfastError, match=f"{name} is a symbolic link"):
        run({**config, "out": str(tmp_path / "out/ccc-seed43/Source")})
    suite = write_suite(tmp_path, ["Source"], {"ccc": DATA}, out=str(tmp_path / "out"))
    refused = main(["suite", str(suite)]) in (1, 2)
    # Those two are replaced as a whole; a summary that is there says that nothing is left to run.
    assert refused or name in (CELL, SUMMARY)
    assert not any(victim.iterdir()) if victim.is_dir() else victim.exists() is there
    assert not victim.is_file() or victim.read_text() == "untouched\n"


def test_no_link_is_followed_by_what_is_written_in_place(tmp_path: Path) -> None:
    """Also where it is put after a run looked."""
    victim = tmp_path / "victim"
    victim.write_text("untouched\n")
    link(tmp_path / "report.lock", victim)
    with (
        pytest.raises(HoldfastError, match=r"/report\b"),
        locked(tmp_path / "report"),
    ):
        pass
    with pytest.raises(OSError, match="0001"):
        lease.end(link(tmp_path / "0001", victim), "by nobody")
    cell = Cell({}, tmp_path, {}, {})
    link(tmp_path / OUTPUT, victim)
    redirect_output(cell)
    link(tmp_path / ERROR, victim)
    record_failure(cell, "an error")
    assert victim.read_text() == "untouched\n"
    assert (tmp_path / ERROR).read_text() == "an error\n\n"


@pytest.mark.parametrize("name", [CELL, PROVENANCE, SUMMARY, ROWS, ERROR])
def test_pipes_and_devices_hold_nobody_up(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture, name: str
) -> None:
    for number, odd in enumerate(("pipe", "device")):
        shutil.copytree(finished, tmp_path / odd)
        (tmp_path / odd / name).unlink(missing_ok=True)
        if name == ERROR:
            (tmp_path / odd / SUMMARY).unlink()
        if number:
            link(tmp_path / odd / name, Path("/dev/zero"))
        else:
            os.mkfifo(tmp_path / odd / name)
    assert main(["status", str(tmp_path)]) == 0
    assert capsys.readouterr().out.count("it is not a regular file") == 2
    assert main(["report", str(tmp_path)]) == 0


def test_a_full_disk_leaves_no_half_picture(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    made_up(tmp_path / "runs\033[2J", "Source", [0.5, 0.6])
    folder = tmp_path / "runs\033[2J"
    (folder / "accuracy.png").write_bytes(b"the picture before")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        assert main(["report", str(folder)]) == 0
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    shown = capsys.readouterr().out
    assert "no figure" in shown
    assert "\033" not in shown
    assert (folder / "accuracy.png").read_bytes() == b"the picture before"
    assert {path.name for path in folder.iterdir()} == {"accuracy.png", "s-seed1"}
