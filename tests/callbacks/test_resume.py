"""Runs that were killed, stopped or cut off continue with the same results as uninterrupted ones."""

import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from common import DATA, TensorStream, plain_trainer, tiny_net, without_times
from digit_runs import flat
from lightning.pytorch import Callback
from processes import FORK, rows, until
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.optim import SGD

from holdfast import HoldfastError
from holdfast.benchmarks.cli import main
from holdfast.benchmarks.results.report import remarks
from holdfast.benchmarks.results.runs import collect
from holdfast.benchmarks.test import run
from holdfast.callbacks import StreamCheckpoint, newest
from holdfast.callbacks.checkpoint import files, random_state
from holdfast.datamodules import Corrupted, Digits
from holdfast.datamodules.loader import WorkerDied
from holdfast.methods import Tent
from holdfast.run_folder import read_rows

STEPS, BATCH = 24, 8
IMAGES = STEPS * BATCH - 5
DIGITS = {"class_path": "holdfast.datamodules.Digits"}
HELD = {"class_path": "Corrupted", "init_args": {"source": "Digits", "corruptions": ["fog"]}}
OTHER = {"class_path": "holdfast.methods.Tent", "init_args": {"backbone": "digits"}}
PAPERS = "holdfast.benchmarks.papers"
WATCHING: dict[str, dict[str, Any]] = {
    "AETTA": {"passes": 3},
    f"{PAPERS}.aetta.passes.DropoutCalibration": {},
    "GDE": {},
    "SoftmaxScore": {},
    "IndependentGDE": {"others": [OTHER]},
    "AdvPerturb": {},
    "SrcValid": {"images": 32, "source": DIGITS},
    "WeightedFlips": {"f": None, "held": 40, "stop": 9, "at_once": 20},
    "DatasetEstimates": {"validation": DIGITS, "validation_images": 200, "adapting": True},
    f"{PAPERS}.rdumb.weight_magnitude.WeightMagnitude": {"every": 3},
    f"{PAPERS}.flips.hold_out.HoldOut": {"stream": HELD, "images": 20, "every": 5},
    "PredictionStatistics": {"window": 4},
    "Concentration": {"stream": HELD, "images": 40},
    "Alarm": {"rule": {"class_path": "holdfast.alarms.Drop", "init_args": {"floor": 0.5}}},
    "RiskMonitor": {"start": 7},
}
RESETS: dict[str, dict[str, Any]] = {"AccuracyReset": {"floor": 0.5}, "StochasticRestore": {}}
# Not before the first checkpoint, and not near the end: it would be missed.
EARLY, LATE = (6, STEPS // 2), (STEPS // 2, STEPS - 8)
# With views and a teacher, with a memory; tests/methods/test_methods.py resumes every method at any step,
# test_contract.py every callback, in one process.
KILLED = {"CoTTA": (EARLY, LATE), "NOTE": (LATE,)}


def settings(name: str, out: Path, **changes: Any) -> dict[str, Any]:
    """A run with half of the observers; which, and which reset and workers, depends on the method."""
    number = list(KILLED).index(name)
    # Alarm and AccuracyReset listen to AETTA.
    listed = ["AETTA", *list(WATCHING)[1 + number :: 2], list(RESETS)[number]]
    every = WATCHING | RESETS
    data = {**DATA["init_args"], "images": IMAGES, "batch_size": BATCH, "num_workers": number}
    views = {"views": 4} if name == "CoTTA" else {}
    return {
        "model": {"class_path": name, "init_args": {"backbone": "digits", **views}},
        "data": {"class_path": "CCC", "init_args": data},
        "trainer": {
            "accelerator": "cpu",
            "callbacks": [{"class_path": name, "init_args": every[name]} for name in listed],
        },
        "out": str(out),
        "progress": False,
        "save_every": 4,
        "resume": True,
        **changes,
    }


def small(out: Path, *callbacks: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A run without estimators and workers."""
    config = settings("CoTTA", out, **{"save_every": 2, **changes})
    config["model"] = {"class_path": "BNAdapt", "init_args": {"backbone": "digits"}}
    config["trainer"]["callbacks"] = [*callbacks]
    return config


# ---- in processes of their own --------------------------------------------------------------------


def go(config: dict[str, Any]) -> None:
    """A run; leaves its last state, and that of the random numbers."""
    torch.set_num_threads(1)
    multiprocessing.set_start_method("fork", force=True)  # of the workers
    final = {"method": run(config).model.state_dict(), "random": random_state()}
    torch.save(final, Path(config["out"]) / "final.pt")


def start(config: dict[str, Any], target: Any = go) -> Any:
    process = FORK.Process(target=target, args=(config,))
    process.start()
    return process


def finish(process: Any) -> None:
    process.join(240)
    process.kill()
    assert process.exitcode == 0


def results(folder: Path) -> dict[str, Any]:
    """Everything that a run writes, except times."""
    events = EventAccumulator(str(folder)).Reload()
    curves = {t: [(e.step, e.value) for e in events.Scalars(t)] for t in events.Tags()["scalars"]}
    return {
        "rows": without_times(folder),
        "summary": json.loads((folder / "summary.json").read_text()),
        "curves": curves,
        "final": torch.load(folder / "final.pt", weights_only=True),
    }


def killed(name: str, folder: Path) -> None:
    """Runs a method to its end, and again with SIGKILLs at random moments, and compares."""
    finish(start(settings(name, folder / "whole")))
    cut, chance = folder / "cut", random.Random(name)
    for low, high in KILLED[name]:
        last, pause = chance.randint(low, high), chance.random() / 50
        process = start(settings(name, cut))
        until(lambda last=last: rows(cut) >= last, alive=process.is_alive)  # type: ignore[misc]
        time.sleep(pause)
        assert process.is_alive()
        process.kill()
        process.join(60)
    finish(start(settings(name, cut)))
    assert flat(results(folder / "whole")) == flat(results(cut))
    assert [row["step"] for row in read_rows(cut)] == list(range(STEPS))
    assert len(json.loads((cut / "provenance.json").read_text())["resumed"]) >= 1
    assert not (cut / "checkpoints").exists()


@pytest.mark.slow
def test_kills_leave_no_trace(tmp_path: Path) -> None:
    """A SIGKILL in a run, or two, at random moments."""
    known = [settings(name, tmp_path)["trainer"]["callbacks"] for name in KILLED]
    used = {callback["class_path"] for callbacks in known for callback in callbacks}
    assert used == {*WATCHING, *RESETS}
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda name: killed(name, tmp_path / name), KILLED))


@pytest.mark.slow
def test_killed_while_saving(tmp_path: Path) -> None:
    """A SIGKILL while a checkpoint is written leaves the previous one, from which the run
    resumes."""
    config, saving = small(tmp_path, save_every=1), tmp_path / "checkpoints"
    for _ in range(10):
        process = start(config)
        until(
            lambda: len(files(saving)) > 1 and any(saving.glob("*.partial")),
            alive=process.is_alive,
            pause=0.001,
        )
        process.kill()
        process.join(60)
        if torn := list(saving.glob("*.partial")):
            break
    assert torn
    assert newest(saving) is not None
    run(config)
    assert [row["step"] for row in read_rows(tmp_path)] == list(range(STEPS))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_save_the_step_at_hand(tmp_path: Path, number: signal.Signals) -> None:
    """With checkpoints a minute apart, nothing is computed twice."""
    config = small(tmp_path, save_every=None)
    process = start(config)
    until(lambda: rows(tmp_path) > 5, alive=process.is_alive)
    os.kill(process.pid, number)
    process.join(60)
    assert process.exitcode != 0
    done = rows(tmp_path)
    (saved,) = files(tmp_path / "checkpoints")
    assert saved.name == f"step-{done:09d}.ckpt"
    run(config)
    facts = json.loads((tmp_path / "provenance.json").read_text())
    assert [entry["images"] for entry in facts["resumed"]] == [done * BATCH]
    assert len(read_rows(tmp_path)) == STEPS


class Send(Callback):
    """Sends its own process a signal while the run prepares itself, and others in its first step."""

    def __init__(self, first: int, others: list[int]) -> None:
        self.first, self.others = first, others

    def on_test_start(self, *_: Any) -> None:
        os.kill(os.getpid(), self.first)

    def on_test_batch_start(self, *_: Any) -> None:
        for number in self.others:
            os.kill(os.getpid(), number)


@pytest.mark.parametrize(
    "others", [[], [signal.SIGINT, signal.SIGTERM]], ids=["SIGTERM", "and passed on as Ctrl-C"]
)
def test_sigterm_before_the_first_step(tmp_path: Path, others: list[int]) -> None:
    """Not lost, and not the end of a run in good order: its first step is saved."""
    numbers = {"first": int(signal.SIGTERM), "others": [int(n) for n in others]}
    send = {"class_path": f"{__name__}.Send", "init_args": numbers}
    process = start(small(tmp_path, send, save_every=None))
    process.join(60)
    assert process.exitcode != 0
    assert [path.name for path in files(tmp_path / "checkpoints")] == ["step-000000001.ckpt"]
    assert not (tmp_path / "summary.json").exists()


def full_disk(config: dict[str, Any]) -> None:
    """A run that cannot make any file longer than `limit` bytes."""
    torch.set_num_threads(1)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (config.pop("limit"), limits[1]))
    try:
        run(config)
    except HoldfastError as error:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        (Path(config["out"]) / "sentence").write_text(str(error))


@pytest.mark.parametrize("limit", [2_000, 60_000])
def test_full_disk(cut: Path, limit: int) -> None:
    """No room for the record, or for a checkpoint: one sentence, and the last checkpoint intact."""
    before = {path: path.read_bytes() for path in files(cut / "checkpoints")}
    finish(start({**small(cut), "limit": limit}, full_disk))
    assert (cut / "sentence").read_text().count("cannot be written") == 1
    assert all(path.read_bytes() == content for path, content in before.items())


# ---- in this process ------------------------------------------------------------------------------


class CutOff(Exception):
    """Ends a run after its last checkpoint, before its end."""


class Cut(Callback):
    """Cuts a run off when this step begins."""

    def __init__(self, at: int) -> None:
        self.at = at

    def on_test_batch_start(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        if pl_module.step_count == self.at:
            raise CutOff


def cut_off(out: Path, at: int) -> None:
    """A run, or its continuation, that ends with checkpoints of the last two even steps up to `at`."""
    with pytest.raises(CutOff):
        run(small(out, {"class_path": f"{__name__}.Cut", "init_args": {"at": at}}))


@pytest.fixture(scope="module")
def cut_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("cut")
    cut_off(folder, 12)
    return folder


@pytest.fixture
def cut(cut_once: Path, tmp_path: Path) -> Path:
    """A run that was cut off in the middle, with checkpoints of steps 10 and 12."""
    return shutil.copytree(cut_once, tmp_path / "run")


class Interrupted:
    """A file of which a write ends as a signal ends it, when a process that makes batches has died."""

    def __init__(self, file: Any) -> None:
        self.file, self.flush = file, file.flush

    def write(self, data: Any) -> int:
        if self.file.tell() > 10_000:
            raise RuntimeError("DataLoader worker (pid 7) is killed by signal: Killed. ")
        return self.file.write(data)


def test_a_worker_that_dies_during_a_checkpoint_is_no_full_disk(
    cut: Path, monkeypatch: Any
) -> None:
    before, save = files(cut / "checkpoints"), torch.save
    monkeypatch.setattr(torch, "save", lambda content, file: save(content, Interrupted(file)))
    with pytest.raises(WorkerDied, match="killed by signal"):
        run(small(cut))
    assert files(cut / "checkpoints") == before


def test_damaged_and_foreign_checkpoints(cut: Path) -> None:
    config = small(cut)
    second, first = files(cut / "checkpoints")
    whole = second.read_bytes()
    other = small(cut)
    other["data"]["init_args"]["batch_size"] = 4
    with pytest.raises(HoldfastError, match=r"batch_size is 8, not 4"):
        run(other)
    with pytest.raises(HoldfastError, match=r"method is BNAdapt, not Tent"):
        run({**config, "model": {"class_path": "Tent", "init_args": {"backbone": "digits"}}})
    with pytest.raises(HoldfastError, match="another run: weights is"):
        run({**config, "model": {"class_path": "BNAdapt", "init_args": {"backbone": "glyphs"}}})
    second.write_bytes(b"")
    first.write_bytes(whole[:1000])
    with (
        pytest.warns(UserWarning, match="cannot be used"),
        pytest.raises(HoldfastError, match=r"No checkpoint .* can be used"),
    ):
        run(config)


@pytest.mark.parametrize("damage", ["truncated", "foreign"])
def test_the_checkpoint_before_is_used(cut: Path, damage: str) -> None:
    config = small(cut)
    last, _ = files(cut / "checkpoints")
    if damage == "truncated":
        last.write_bytes(last.read_bytes()[:-500])
    else:
        torch.save({"callbacks": {}, "state_dict": {}}, last)
    with pytest.warns(UserWarning, match="step-000000012.ckpt cannot be used"):
        run(config)
    facts = json.loads((cut / "provenance.json").read_text())
    assert [entry["images"] for entry in facts["resumed"]] == [10 * BATCH]
    assert [row["step"] for row in read_rows(cut)] == list(range(STEPS))


def test_a_checkpoint_without_a_stream_checkpoint_holds_weights_for_any_run(tmp_path: Path) -> None:
    """As Lightning's users expect; but no run goes on from it, since it knows no position."""
    path, images = tmp_path / "weights.ckpt", torch.rand(3, 6, 3, 8, 8)
    first, second = (Tent(tiny_net(), partial(SGD, lr=0.1)) for _ in range(2))
    trainer = plain_trainer()
    trainer.test(first, datamodule=TensorStream(images), verbose=False)
    trainer.save_checkpoint(path)
    plain_trainer(limit_test_batches=0).test(
        second, TensorStream(images[:1]), str(path), verbose=False, weights_only=True
    )
    pairs = zip(first.parameters_with_source(), second.parameters_with_source(), strict=True)
    assert all(torch.equal(one, p) and not torch.equal(p, s) for (one, _), (p, s) in pairs)
    trainer = plain_trainer(callbacks=[StreamCheckpoint(tmp_path / "checkpoints")])
    stream = Corrupted(Digits(), ["fog"], each=8, table="cifar", num_workers=0)
    with pytest.raises(HoldfastError, match="StreamCheckpoint did not write this"):
        trainer.test(second, stream, str(path), weights_only=True)


def test_only_checkpoints_of_now_are_kept_and_nothing_else_is_removed(cut: Path) -> None:
    """A damaged one, of step 20, does not stay; other files in the folder do."""
    folder = cut / "checkpoints"
    (folder / "step-000000020.ckpt").write_text("damaged")
    (folder / "notes.txt").write_text("mine")
    with pytest.warns(UserWarning, match="step-000000020.ckpt cannot be used"):
        cut_off(cut, 14)
    names = [path.name for path in files(folder)]
    assert names == ["step-000000014.ckpt", "step-000000012.ckpt"]
    run(small(cut))
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]


def test_a_run_does_not_begin_among_checkpoints(cut: Path) -> None:
    (cut / "record.jsonl").unlink()
    before = files(cut / "checkpoints")
    with pytest.raises(HoldfastError, match="contains the checkpoints of a run"):
        run(small(cut))
    assert files(cut / "checkpoints") == before


def test_rows_before_the_checkpoint_are_needed_and_those_behind_it_dropped(cut: Path) -> None:
    config = small(cut)
    record = cut / "record.jsonl"
    whole = record.read_bytes()
    record.write_bytes(whole[:100])
    with pytest.raises(HoldfastError, match=r"lacks rows .*checkpoint"):
        run(config)
    record.write_bytes(whole + b'{"torn')
    run(config)
    assert [row["step"] for row in read_rows(cut)] == list(range(STEPS))


def test_every_environment_of_a_run_is_noted(cut: Path) -> None:
    """With the step it begins at; the report says so, and what a crash discarded is not listed."""
    config, path = small(cut), cut / "provenance.json"
    facts = json.loads(path.read_text())
    crashed = {**facts["ran_on"][0], "step": 13, "images": 13 * BATCH, "threads": 3}
    path.write_text(json.dumps(facts | {"ran_on": [*facts["ran_on"], crashed]}))
    torch.set_num_threads(2)
    with pytest.warns(UserWarning, match="threads 2, not 1"):
        run(config)
    facts = json.loads(path.read_text())
    found = [(entry["step"], entry["images"], entry["threads"]) for entry in facts["ran_on"]]
    assert found == [(0, 0, 1), (12, 12 * BATCH, 2)]
    assert torch.__version__.startswith(facts["ran_on"][1]["versions"]["torch"])
    assert "at step 12" in remarks(collect(cut))[0]


def test_resume_by_words_and_to_a_limit(cut: Path, capsys: pytest.CaptureFixture) -> None:
    """--out and --resume are enough; a finished run says so."""
    path = cut / "config.yaml"
    limited = path.read_text().replace("limit_test_batches: null", "limit_test_batches: 16")
    path.write_text(limited.replace("at: 12", "at: 99"))
    words = ["test", "--out", str(cut), "--resume"]
    assert main(words) == 0
    assert len(read_rows(cut)) == 16
    assert main(words) == 0
    assert "is finished: accuracy" in capsys.readouterr().out
    (cut / "summary.json").write_text("")
    assert main(words) == 2
    assert "run/summary.json" in capsys.readouterr().err
    assert main(["test", "--model", "Source", "--model.backbone", "digits", "--resume"]) == 2
    assert "--out FOLDER" in capsys.readouterr().err


def test_unwritable_folder(tmp_path: Path) -> None:
    blocked = tmp_path / "checkpoints"
    blocked.write_text("a file where the folder should be")
    with pytest.raises(HoldfastError, match="/checkpoints"):
        run(small(tmp_path))
