"""Damaged run folders are one line each among the others; a full disk leaves no half file."""

import copy
import json
import resource
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from made_up import made_up

from holdfast import HoldfastError, printable
from holdfast.benchmarks.cli import main
from holdfast.benchmarks.results.batch_means import by_name, curve
from holdfast.benchmarks.results.estimators import alarms
from holdfast.benchmarks.results.report import missing, remarks
from holdfast.benchmarks.results.runs import Run, find, with_results
from holdfast.run_folder import held, owner

# The file that is damaged, its content, and what is said of it.
DAMAGES: dict[str, tuple[str, bytes | None, str]] = {
    "list": ("provenance.json", b"[]", "it contains no mapping"),
    "torn": ("cell.json", b'{"names": ', "Expecting value"),
    "binary": ("summary.json", b"\xff\xfe\0", "cannot be read"),
    "missing": ("provenance.json", None, "it is missing"),
    "short": (
        "record.jsonl",
        b'{"step": 0, "images": 10, "seconds": 1}\n',
        "it ends before image 20",
    ),
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


def test_a_damaged_run_does_not_hide_the_others(folder, capsys):
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


def values_in(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value, those of mappings and lists included."""
    yield path
    entries = content.items() if isinstance(content, dict) else ()
    entries = enumerate(content) if isinstance(content, list) else entries
    for key, value in entries:
        yield from values_in(value, (*path, key))


def test_a_wrong_kind_of_value_does_not_hide_the_others(tmp_path, capsys):
    """Every value of every file of a run is once of each other kind."""
    facts = {"resets": [{"class": "PeriodicReset", "every": 9}], "setting": ["stream"]}
    facts |= {"wrappers": [{"wrapper": "CorrelatedLabels", "delta": 0.1, "order": "sorted"}]}
    facts |= {"parts": [[[["fog", 5]], "", 20]], "ran_on": [{"step": 0}, {"step": 1}]}
    facts |= {"images": 20, "setting_id": "a", "arguments": {}, "order": "sorted"}
    made_up(tmp_path, "good", [0.5, 0.6], exactly=True, facts=facts)
    good = tmp_path / "s-seed1" / "good"
    wrong: list[Any] = [None, "x", 0.5, True, [[7]], {"x": {}}]
    number = 0
    for name in ("provenance.json", "cell.json", "summary.json", "record.jsonl"):
        content = [json.loads(line) for line in (good / name).read_text().splitlines()]
        content = content if name == "record.jsonl" else json.loads((good / name).read_text())
        for path in filter(None, values_in(content)):
            for value in wrong:
                number += 1
                folder = Path(shutil.copytree(good, tmp_path / "s-seed1" / f"wrong-{number}"))
                changed = copy.deepcopy(content)
                node = changed
                for key in path[:-1]:
                    node = node[key]
                node[path[-1]] = value
                rows = [changed] if isinstance(changed, dict) else changed
                (folder / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert main(["report", str(tmp_path), "--status"]) == 0
    for words in (["--runs"], ["--pairs"], []):
        assert main(["report", str(tmp_path), "--format", "csv", *words]) == 0
    everything = find(tmp_path)
    runs = with_results(everything)
    assert remarks(runs) + missing(everything)
    for run in runs:  # as figures and pages read it
        assert len(curve(run)) == len(run.column("reset"))
        assert not alarms(run)
        assert by_name([run], "accuracy").columns.tolist() == [run.label]
    capsys.readouterr()
    assert main(["report", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert str(good) in {row["folder"] for row in found["runs"]}
    assert len(found["runs"]) + len(found["failed"]) == number + 1
    assert all("cannot be read" in row["error"] for row in found["failed"])


@pytest.mark.parametrize("row", ['{"step": 2, "ima', "\x00\x00\n"])
def test_a_record_is_read_up_to_a_damaged_row(tmp_path, row):
    made_up(tmp_path, "Tent", [0.5, 0.6, 0.7], finished=False)
    record = tmp_path / "s-seed1" / "Tent" / "record.jsonl"
    lines = record.read_text().splitlines()
    record.write_text("\n".join([*lines[:2], row]))
    run = Run.load(record.parent)
    assert run.column("accuracy").tolist() == [0.5, 0.6]
    assert run.images == 20


@pytest.mark.parametrize("name", ["run.lock", "owner.txt", "record.jsonl"])
def test_a_run_writes_through_no_link(tmp_path, name):
    """In a folder of somebody else: the target of a link there stays as it is."""
    made_up(tmp_path, "Tent", [0.5, 0.6], finished=False)
    folder, target = tmp_path / "s-seed1" / "Tent", tmp_path / "mine.txt"
    target.write_text("mine")
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(target)
    if name == "owner.txt":
        with held(folder):
            assert owner(folder)
        assert not (folder / name).is_symlink()
    else:
        with pytest.raises(HoldfastError, match="is a link"), held(folder):
            pass
    assert target.read_text() == "mine"


def test_sentences_say_nothing_to_the_terminal():
    error = HoldfastError("no file \033]0;title\007\u202e\udcff in\nhere")
    assert str(error) == "no file ?]0;title??? in\nhere"


def test_a_full_disk_leaves_no_half_picture(tmp_path, capsys):
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
