"""Damaged run folders are one line each among the others; a full disk leaves no half file."""

import json
import resource
import signal
from pathlib import Path

import pytest
from made_up import made_up

from holdfast import HoldfastError, printable
from holdfast.benchmarks.cli import main
from holdfast.benchmarks.results.runs import Run

# The file that is damaged, its content, and what is said of it.
DAMAGES: dict[str, tuple[str, bytes | None, str]] = {
    "list": ("provenance.json", b"[]", "it contains no mapping"),
    "torn": ("cell.json", b'{"names": ', "Expecting value"),
    "binary": ("summary.json", b"\xff\xfe\0", "cannot be read"),
    "missing": ("provenance.json", None, "it is missing"),
    "short": ("record.jsonl", b'{"step": 0, "images": 10}\n', "it ends before image 20"),
    "failed": ("error.txt", b"\xff\xfe\0\033[2J out of memory", "out of memory"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run that is good, and one with each of the damages."""
    for name in ("good", *DAMAGES):
        made_up(tmp_path, name, [0.5, 0.6])
    for name, (file, content, _) in DAMAGES.items():
        run = tmp_path / "s-seed1" / name
        if name != "short":
            (run / "summary.json").unlink()
        if content is None:
            (run / file).unlink()
        else:
            (run / file).write_bytes(content)
    return tmp_path


def test_a_damaged_run_does_not_hide_the_others(
    folder: Path, capsys: pytest.CaptureFixture
) -> None:
    assert main(["report", str(folder), "--status"]) == 0
    status = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert main(["report", str(folder)]) == 0
    report = capsys.readouterr().out
    assert main(["report", str(folder), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert status["s-seed1/good"].split()[1] == "finished"
    assert "good" in [row["method"] for row in found["runs"]]
    errors = {Path(row["folder"]).name: row["error"] for row in found["failed"]}
    assert errors.keys() == DAMAGES.keys()
    for name, (_, _, said) in DAMAGES.items():
        assert status[f"s-seed1/{name}"].split()[1] == "failed"
        assert said in errors[name]
        assert printable(errors[name]) in report
    assert "\033" not in report


@pytest.mark.parametrize("row", ['{"step": 2, "ima', "\x00\x00\n"])
def test_a_record_is_read_up_to_a_damaged_row(tmp_path: Path, row: str) -> None:
    made_up(tmp_path, "Tent", [0.5, 0.6, 0.7], finished=False)
    record = tmp_path / "s-seed1" / "Tent" / "record.jsonl"
    lines = record.read_text().splitlines()
    record.write_text("\n".join([*lines[:2], row]))
    run = Run.load(record.parent)
    assert run.column("accuracy").tolist() == [0.5, 0.6]
    assert run.images == 20


def test_sentences_say_nothing_to_the_terminal() -> None:
    error = HoldfastError("no file \033]0;title\007\u202e\udcff in\nhere")
    assert str(error) == "no file ?]0;title??? in\nhere"


def test_a_full_disk_leaves_no_half_picture(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    made_up(tmp_path, "Source", [0.5, 0.6])
    (tmp_path / "accuracy.png").write_bytes(b"the picture before")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        assert main(["report", str(tmp_path)]) == 0
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert "no figure" in capsys.readouterr().out
    assert (tmp_path / "accuracy.png").read_bytes() == b"the picture before"
    assert {path.name for path in tmp_path.iterdir()} == {"accuracy.png", "s-seed1"}
