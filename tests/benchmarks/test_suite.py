"""Grids of runs: shared between processes, killed, stopped, resumed; status and report at any moment."""

import json
import os
import re
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from common import BATCH, STEPS, model
from made_up import made_up
from processes import process_of, rows, saved, started, until
from small_suites import small_stream, write_suite

from holdfast import HoldfastError
from holdfast.benchmarks.cli import main
from holdfast.benchmarks.results.report import status
from holdfast.benchmarks.results.run_state import folders, state
from holdfast.benchmarks.results.runs import find
from holdfast.benchmarks.suites import grid
from holdfast.benchmarks.suites.execution import choose_gpu
from holdfast.benchmarks.suites.grid import merged
from holdfast.files import read_json
from holdfast.run_folder import ERROR, read_rows
from holdfast.run_folder import held as hold

FAILING = model("Tent", backbone="none.safetensors")  # not there when it starts
PATIENT = """
import time
from pathlib import Path
from holdfast.datamodules import Digits

GO = Path(__file__).with_name("go")

class Patient(Digits):
    loads = 0

    def load(self, *args):
        self.loads += 1
        if self.loads > 30 and not GO.exists():
            time.sleep(0.5)
        return super().load(*args)
"""


def small_suite(folder: Path, steps: int = 0, **methods: dict[str, Any]) -> Path:
    """The file of a suite that runs below folder/runs; `steps` batches each, or a few."""
    changes: dict[str, Any] = {"images": steps * BATCH} if steps else {}
    if (folder / "patient.py").exists():
        changes["source"] = "patient.Patient"
    named = methods or {"Source": model("Source"), "RDumb": model("RDumb", every=5)}
    streams = {"digits": small_stream(**changes)}
    return write_suite(folder, named, streams, common={"save_every": 20})


@pytest.fixture
def patient(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Runs linger after 30 batches in a process, until this file is there."""
    (tmp_path / "patient.py").write_text(PATIENT)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "patient", raising=False)
    return tmp_path / "go"


def states(folder: Path) -> dict[str, str]:
    return {path.name: state(path).name for path in folders(folder)}


def check_run_once(folder: Path, steps: int) -> None:
    """Its record has every step, and was written from beginning to end by one process."""
    assert [row["step"] for row in read_rows(folder)] == list(range(steps))
    assert "resumed" not in read_json(folder / "provenance.json")
    assert len(list(folder.glob("events.out.tfevents.*"))) == 1


def test_suite(tmp_path, capfd):
    """A failing method does not stop the others, and the same command runs nothing else again."""
    config = small_suite(tmp_path, Source=model("Source"), Tent=FAILING, ETA=model("ETA"))
    words = ["suite", str(config), "--seeds", "43", "44"]
    assert main(words) == 1
    out = capfd.readouterr().out
    assert "none.safetensors" in out
    assert "failed runs: 2" in out
    assert "Traceback" in (tmp_path / "runs/digits-seed43/Tent/error.txt").read_text()
    assert (tmp_path / "runs" / "accuracy.png").stat().st_size > 10_000
    assert main(["report", str(tmp_path / "runs"), "--json"]) == 0
    runs = json.loads(capfd.readouterr().out)["runs"]
    methods = [(seed, name) for seed in (43, 44) for name in ("Source", "ETA")]
    assert [(r["seed"], r["method"]) for r in runs] == methods
    for key in ("accuracy", "accuracy_last_eighth", "images_per_second"):
        assert all(isinstance(r[key], float) for r in runs)
    assert all(r["images"] == STEPS * BATCH - 5 for r in runs)
    # Of an end of two batches nobody can say.
    assert [r["collapsed"] for r in runs if r["method"] == "ETA"] == [None, None]
    identical = {r["stream_id"] for r in runs if r["seed"] == 43}
    assert len(identical) == 1
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("record.jsonl")}
    assert len(before) == 4
    assert main(words) == 1
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("record.jsonl")}
    small_suite(tmp_path, ETA=model("ETA", entropy_factor=0.5))
    assert main(words) == 2
    error = capfd.readouterr().err
    assert "different configuration: model.init_args.entropy_factor" in error
    assert "2 runs differ, of ETA. Choose another `out`, or delete their folders." in error


def test_factors():
    """What streams and overrides vary is with each run; an override may be for one method only."""
    arguments = {"difficulty": "{level}", "calibration": "at {level}"}
    levels = {"level": {"Easy": 40, "Hard": 10}, "speed": [1000]}
    stream = {"each": levels, "setting": "CCC-{level}", "init_args": arguments}
    often = {"RDumb": {"init_args": {"every": "{every}"}}}
    overrides = {
        "{every}": {"each": {"every": [25, 50]}, "methods": often},
        "wide": {"factors": {"network": "wide"}, "methods": {"ETA": {}, "RDumb": {}}},
    }
    methods = {"Source": {}, "ETA": {}, "RDumb": {"init_args": {"every": 1000}}}
    suite = {"out": "x", "streams": {"CCC-{level} {speed}": stream}, "seeds": [1]}
    suite |= {"methods": methods, "overrides": overrides}
    easy = [cell for cell in grid.cells(suite) if cell.names["setting"] == "CCC-Easy"]
    stream = {"level": "Easy", "speed": 1000}
    assert [(cell.folder.as_posix(), cell.factors) for cell in easy] == [
        ("x/CCC-Easy 1000-seed1/Source", stream),
        ("x/CCC-Easy 1000-seed1/RDumb-25", {**stream, "every": 25}),
        ("x/CCC-Easy 1000-seed1/RDumb-50", {**stream, "every": 50}),
        ("x/CCC-Easy 1000-seed1/ETA-wide", {**stream, "network": "wide"}),
        ("x/CCC-Easy 1000-seed1/RDumb-wide", {**stream, "network": "wide"}),
    ]
    arguments = [cell.config["model"].get("init_args") for cell in easy]
    assert arguments == [None, {"every": 25}, {"every": 50}, None, {"every": 1000}]
    assert all(set(cell.config) == {"seed_everything", "data", "model"} for cell in easy)
    data = easy[0].config["data"]["init_args"]
    assert data == {"seed": 1, "difficulty": 40, "calibration": "at 40"}


A = "{out: x, methods: {A: a}, streams: "


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("methods: {}", "lacks out"),
        ("a: [", "not valid YAML"),
        ("out: \udcff", r"suite\.yaml .*YAML"),
        ("methods:\n  Tent: {a: 1}\n  Tent: {a: 2}", "'Tent' is in line 2 and again in line 3"),
        ("a: [{seeds: [1], seeds: [2]}]", "'seeds' is in line 1 and again in line 1"),
        (None, "suite.yaml"),
        ("{out: x, methods: [Tent], streams: {}}", "methods.*mapping, not .'Tent'."),
        ("{out: x, methods: {Tent: tint}, streams: {s: {}}}", "'tint' is not in methods.yaml"),
        ("{out: x, methods: {}, streams: {}}", "methods is empty"),
        ("{out: x, methods: {}, streams: {}, shards: 2}", "shards is no key"),
        ("{out: x, methods: {A: {init_arg: 1}}, streams: {}}", "methods/A/init_arg is no key"),
        (A + "{s: {}}, seed: 43}", "seed is no key.*mean seeds"),
        *(
            (A + f"{{}}, common: {{{key}: {value}}}}}", f"common/{key}")
            for key in ("trainer", "model", "data")
            for value in ("text", "3", "null", "[1]")
        ),
        ("{out: x, methods: {A: {class_path: Tent, init_args: 3}}, streams: {}}", "A/init_args"),
        ("{out: x, methods: {A: {class_path: 3}}, streams: {}}", "A/class_path"),
        (A + "{s: {init_args: text}}}", "s/init_args"),
        (A + "{s: {}}, overrides: {o: {model: {init_args: 3}}}}", "o/model/init_args"),
        (A + "{s: {}}, overrides: {o: {methods: {A: 3}}}}", "o/methods/A"),
        ("include: 3", "include.*string, not 3"),
        ("{out: x, methods: {}, streams: {s: {each: {n: 1}}}}", "s/each/n.*list, not 1"),
        ("{out: x, methods: {}, streams: {s: {each: {n: fog}}}}", "s/each/n.*-bar.*not fog"),
        (A + "{}, overrides: {o: {each: {n: []}}}}", "o/each/n"),
        (A + "{}, overrides: {o: {methods: {B: {}}}}}", "B.*from A"),
        (A + "{s: {}}, scales: {}}", "scales"),
    ],
)
def test_bad_suite_files(tmp_path, monkeypatch, text, sentence):
    monkeypatch.chdir(tmp_path)
    if text is not None:
        Path("suite.yaml").write_text(text, errors="surrogateescape")
    with pytest.raises(HoldfastError, match=sentence) as error:
        list(grid.cells(grid.read_suite("suite.yaml")))
    assert "\n" not in str(error.value)


def test_scales(tmp_path):
    """The first is the default; included suites have the same one."""
    base: dict[str, Any] = {"methods": {"A": {}}, "streams": {"s": {}}}
    scales = {name: {"out": name, "seeds": [n]} for n, name in enumerate(("small", "large"))}
    (tmp_path / "base.yaml").write_text(yaml.safe_dump({**base, "scales": scales}, sort_keys=False))
    path = tmp_path / "own.yaml"
    own = {
        "include": [str(tmp_path / "base.yaml")],
        "scales": {"small": {}, "large": {"out": "own"}},
    }
    path.write_text(yaml.safe_dump(own, sort_keys=False))
    assert grid.scales(path) == ["small", "large"]
    assert [
        (suite["out"], suite["seeds"])
        for suite in map(grid.read_suite, [path, path], [None, "large"])
    ] == [("small", [0]), ("own", [1])]
    with pytest.raises(HoldfastError, match=r"no scale 'huge'.*small, large"):
        grid.read_suite(path, "huge")


@pytest.mark.parametrize(("streams", "methods", "number"), [(1, 3, 2), (4, 12, 6), (27, 6, 4)])
def test_shares_are_disjoint_complete_and_even(streams, methods, number):
    """No share is longer than another by more than one run, or has the slowest method to itself."""
    names = [f"m{n}" for n in range(methods)]
    suite = {
        "out": "x",
        "streams": {f"s{n}": {} for n in range(streams)},
        "methods": {name: {} for name in names},
    }
    cells = list(grid.cells(suite))
    shares = [[cell.folder for cell in grid.share(cells, n, number)] for n in range(number)]
    assert sorted(folder for share in shares for folder in share) == sorted(
        cell.folder for cell in cells
    )
    lengths = [len(share) for share in shares]
    assert max(lengths) - min(lengths) <= 1
    for name in names:
        counts = [sum(path.name == name for path in share) for share in shares]
        assert max(counts) - min(counts) <= 2


WIDE = {"wide": {"model": {"init_args": {"entropy_factor": 0.8}}}}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"methods": {"other": model("Tant")}}, "'Tant' is unknown. Did you mean Tent?"),
        ({"common": {"trane": {"max_steps": 1}}}, "trane"),
        ({"common": {"trainer": {"devices": 2}}}, "devices: 2"),
        (
            {"methods": {"A": model("ETA"), "A-wide": model("ETA")}, "overrides": {"": {}, **WIDE}},
            "digits-seed43/A-wide. Rename",
        ),
    ],
)
def test_what_is_wrong_is_found_before_the_first_run(tmp_path, capfd, changes, sentence):
    config = small_suite(tmp_path)
    config.write_text(yaml.safe_dump(merged(yaml.safe_load(config.read_text()), changes)))
    assert main(["suite", str(config)]) == 2
    error = capfd.readouterr().err
    assert sentence in error
    assert "Traceback" not in error
    assert not (tmp_path / "runs").exists()


def test_a_corrected_suite_takes_over_a_failed_start(tmp_path):
    """Its folder holds no row; one that has rows is another run, and stays."""
    folder = tmp_path / "runs/digits-seed43/other"
    assert main(["suite", str(small_suite(tmp_path, other=FAILING))]) == 1
    assert (folder / "error.txt").exists()
    assert main(["suite", str(small_suite(tmp_path, other=model("Tent")))]) == 0
    assert not (folder / "error.txt").exists()
    assert read_json(folder / "cell.json")["config"]["model"] == model("Tent")
    assert main(["suite", str(small_suite(tmp_path, other=model("ETA")))]) == 2


# ---- several processes ------------------------------------------------------------------------------


@pytest.mark.slow
def test_two_runners_share_a_folder(tmp_path):
    """Each run is run once, by one of them; what a third one has is left to it."""
    config = small_suite(tmp_path, 20)
    words = ("--seeds", "43", "44")
    held = tmp_path / "runs/digits-seed43/RDumb"
    command = ("suite", config, *words)
    with hold(held), started(*command) as one, started(*command) as other:
        outputs = [process.told(400) for process in (one, other)]
        assert (one.returncode, other.returncode) == (0, 0), outputs
        assert states(tmp_path / "runs" / "digits-seed43")["RDumb"] == "running"
    assert all(f"{os.uname().nodename}, process" in output for output in outputs)
    assert any("in other processes: 1" in output for output in outputs)
    assert not (held / "record.jsonl").exists()
    others = [path for path in folders(tmp_path / "runs") if path != held]
    assert len(others) == 3
    for folder in others:
        check_run_once(folder, 20)
    assert main(["suite", str(config), *words]) == 0
    check_run_once(held, 20)


def twice(words: list[str]) -> int:
    """The command, and once more."""
    print("ended with", main(words), flush=True)
    return main(words)


@pytest.mark.slow
def test_jobs(tmp_path, patient):
    """A worker that is killed fails its run alone; SIGTERM has the rest saved; the same line goes on.

    So it does when the runner is killed, whose workers save their runs and end.
    """
    config, runs = small_suite(tmp_path, 100), tmp_path / "runs/digits-seed43"
    names = {"Source", "RDumb"}

    def resumed(name: str) -> list[dict[str, Any]]:
        return read_json(runs / name / "provenance.json").get("resumed", [])

    with started("suite", config, "--jobs", "2", folder=tmp_path, main=twice) as process:
        first = until(lambda: next((name for name in names if saved(runs / name)), None))
        (other,) = names - {first}
        os.kill(process_of(runs / first), signal.SIGKILL)
        until(lambda: (runs / first / ERROR).exists())
        until(lambda: saved(runs / other))
        process.send_signal(signal.SIGTERM)
        until(lambda: all(resumed(name) for name in names), alive=process.alive)
        until(lambda: rows(runs / other) * BATCH > resumed(other)[0]["images"])
        output = process.printed()
        workers = [process_of(runs / name) for name in names]
        process.kill()
        process.wait()
    assert "ended with 130" in output
    assert re.search(f"digits-seed43/{first}: failed: .*SIGKILL", output)
    assert f"failed: digits, seed 43, {first}: the process" in output
    assert "rerun the same command" in output
    assert "Traceback" not in output
    assert process.pid not in workers
    until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))
    assert states(runs) == dict.fromkeys(names, "cut")
    done = {name: rows(runs / name) for name in names}
    patient.touch()
    assert main(["suite", str(config)]) == 0
    for name in names:
        assert (runs / name / "summary.json").exists()
        assert [row["step"] for row in read_rows(runs / name)] == list(range(100))
        stopped, killed = (entry["images"] for entry in resumed(name))
        assert 20 * BATCH <= stopped <= killed == done[name] * BATCH


@pytest.mark.parametrize(
    ("gpus", "trainer", "devices"),
    [
        (2, {}, [[0], [1], [0]]),
        (2, {"accelerator": "cuda", "devices": 1}, [[0], [1], [0]]),
        (1, {}, [None] * 3),
        (2, {"accelerator": "cpu"}, [None] * 3),
    ],
)
def test_several_gpus_are_taken_in_turn(gpus, trainer, devices):
    configs = [choose_gpu({"trainer": dict(trainer)}, n, gpus) for n in range(3)]
    assert [config["trainer"].get("devices") for config in configs] == devices


# ---- Ray --------------------------------------------------------------------------------------------


def test_ray_is_asked_for_in_a_sentence(tmp_path, monkeypatch, capfd):
    monkeypatch.setitem(sys.modules, "ray", None)  # as if it were not installed
    monkeypatch.delitem(sys.modules, "holdfast.benchmarks.suites.ray_executor", raising=False)
    assert main(["suite", str(small_suite(tmp_path)), "--backend", "ray"]) == 2
    error = capfd.readouterr().err
    assert "pip install 'ray>=2.40'" in error
    assert "Traceback" not in error


# ---- status and report ------------------------------------------------------------------------------


def test_status_and_report_at_any_moment(tmp_path, capsys):
    """Every state that a run can be in, including incomplete files."""
    runs, ten = tmp_path / "s-seed1", [0.5] * 10
    made_up(tmp_path, "Source", ten)
    for name in ("BNAdapt", "ETA"):  # without a summary, with a torn last row
        made_up(tmp_path, name, ten, finished=False)
        record = runs / name / "record.jsonl"
        record.write_bytes(record.read_bytes()[:-20])
    for name in ("RDumb", "Tent"):
        made_up(tmp_path, name, None)
    (runs / "Tent" / "error.txt").write_text("no memory")
    shutil.copytree(runs / "BNAdapt", tmp_path / "mine")  # as by a Trainer, just now
    (tmp_path / "mine/cell.json").unlink()
    os.utime(runs / "BNAdapt/record.jsonl", (1, 1))
    with hold(runs / "ETA"):
        assert main(["report", str(tmp_path), "--status"]) == 0
        lines = capsys.readouterr().out.splitlines()
    found = {line.split()[0].rpartition("/")[2]: line for line in lines[:-1]}
    assert found["Source"].split()[1:] == ["finished", "50.0%", "100/100", "images"]
    assert " cut " in found["BNAdapt"]
    assert " 90/100 images" in found["BNAdapt"]
    assert found["ETA"].endswith(f"{os.uname().nodename}, process {os.getpid()}")
    assert " left " in found["ETA"]
    assert found["RDumb"].split()[1:] == ["waiting"]
    assert "no memory" in found["Tent"]
    assert " running " in found["mine"]
    assert lines[-1] == "6 runs: 1 finished, 2 running, 1 cut, 1 failed, 1 waiting"

    assert main(["report", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "ETA (unfinished)" in text
    assert "failed: s, seed 1, Tent: no memory" in text
    assert main(["report", str(tmp_path), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    finished = {(r["method"], r["finished"]) for r in facts["runs"]}
    assert finished == {("BNAdapt", False), ("ETA", False), ("Source", True)}
    (failure,) = facts["failed"]
    assert (failure["method"], failure["seed"]) == ("Tent", 1)
    (tmp_path / "none").mkdir()
    assert main(["report", str(tmp_path / "none")]) == 1
    assert main(["report", str(tmp_path / "none"), "--status"]) == 1
    assert main(["report", str(tmp_path / "nowhere"), "--status"]) == 2


def test_progress_follows_a_record(tmp_path):
    """Rows are read as they come; after a resume, which drops some, it is right again."""
    made_up(tmp_path, "Tent", [n / 10 for n in range(10)], finished=False)
    record = tmp_path / "s-seed1" / "Tent" / "record.jsonl"
    lines = record.read_text().splitlines(keepends=True)
    for text, progress in (
        ("", "s-seed1/Tent  running"),
        ("".join(lines[:5]) + lines[5][:9], "20.0%  50/100 images  10/s  0:00:05 left"),
        ("".join(lines), "45.0%  100/100 images  10/s  0:00:00 left"),
        ("".join(lines[:3]), "10.0%  30/100 images  10/s  0:00:07 left"),
    ):
        record.write_text(text)
        assert progress in status(tmp_path, find(tmp_path)).splitlines()[0]
