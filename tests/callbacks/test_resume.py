"""Killed runs resume with the same results as uninterrupted ones."""

import contextlib
import json
import multiprocessing
import os
import random
import resource
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import DATA, TensorStream, plain_trainer, tiny_net, without_times
from lightning.pytorch import Callback
from processes import until
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.optim import SGD

from holdfast import HoldfastError, methods
from holdfast.benchmarks.cli import main
from holdfast.benchmarks.results.report import remarks
from holdfast.benchmarks.results.runs import collect
from holdfast.benchmarks.test import run
from holdfast.callbacks import StreamCheckpoint, newest
from holdfast.callbacks.checkpoint import files, random_state
from holdfast.datamodules import Corrupted, Digits
from holdfast.methods import Tent
from holdfast.run_folder import read_rows

STEPS, BATCH = 36, 8
IMAGES = STEPS * BATCH - 5
METHODS = sorted(
    set(methods.__all__) - {"TTAMethod", "TeacherMethod", "load_backbone", "normalised"}
)
FORK = multiprocessing.get_context("forkserver")  # children share one import of torch
FORK.set_forkserver_preload(["holdfast.benchmarks.test", "torch.utils.tensorboard", "ot"])

DIGITS = {"class_path": "holdfast.datamodules.Digits"}
HELD = {"class_path": "Corrupted", "init_args": {"source": "Digits", "corruptions": ["fog"]}}
OTHER = {"class_path": "holdfast.methods.Tent", "init_args": {"backbone": "digits"}}
WATCHING: list[dict[str, Any]] = [
    {"class_path": "AETTA", "init_args": {"passes": 3, "also": [4]}},
    {"class_path": "DropoutCalibration"},
    {"class_path": "GDE"},
    {"class_path": "SoftmaxScore"},
    {"class_path": "IndependentGDE", "init_args": {"others": [OTHER]}},
    {"class_path": "AdvPerturb"},
    {"class_path": "SrcValid", "init_args": {"images": 32, "source": DIGITS}},
    {"class_path": "WeightedFlips", "init_args": {"f": None, "held": 40, "stop": 9, "at_once": 20}},
    {"class_path": "DatasetEstimates", "init_args": {"validation": DIGITS, "adapting": True}},
    {"class_path": "WeightMagnitude", "init_args": {"every": 3}},
    {"class_path": "HoldOut", "init_args": {"stream": HELD, "images": 20, "every": 5}},
    {"class_path": "PredictionStatistics", "init_args": {"window": 4}},
    {"class_path": "Concentration", "init_args": {"stream": HELD, "images": 40}},
    {"class_path": "Alarm", "init_args": {"floor": 0.5}},
    {"class_path": "RiskMonitor", "init_args": {"start": 7}},
]
RESETS: list[dict[str, Any]] = [
    {"class_path": "AccuracyReset", "init_args": {"floor": 0.5}},
    {"class_path": "SegmentReset"},
    {"class_path": "StochasticRestore"},
]


def settings(name: str, out: Path, **changes: Any) -> dict[str, Any]:
    """A run with half of the estimators; which half, which resets and workers depends on the method."""
    number = METHODS.index(name)
    watching = [WATCHING[0], *WATCHING[1 + number // 2 % 2 :: 2]]  # AccuracyReset listens to AETTA
    data = {**DATA["init_args"], "images": IMAGES, "batch_size": BATCH}
    data["num_workers"] = number % 3
    return {
        "model": {"class_path": name, "init_args": {"backbone": "digits"}},
        "data": {"class_path": "CCC", "init_args": data},
        "trainer": {"accelerator": "cpu", "callbacks": [*watching, *RESETS[: number % 4]]},
        "out": str(out),
        "progress": False,
        "save_every": 2,
        "resume": True,
        **changes,
    }


def go(config: dict[str, Any], file_limit: int | None = None) -> None:
    """A run in a process of its own; leaves its last state, and that of the random numbers."""
    torch.set_num_threads(1)
    multiprocessing.set_start_method("fork", force=True)  # of the workers
    if file_limit is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, file_limit))
    cli = run(config)
    final = {"method": cli.model.state_dict(), "random": random_state()}
    torch.save(final, Path(config["out"]) / "final.pt")


def start(config: dict[str, Any]) -> Any:
    process = FORK.Process(target=go, args=(config,))
    process.start()
    return process


def finish(process: Any) -> None:
    process.join(240)
    process.kill()
    assert process.exitcode == 0


def rows(folder: Path) -> int:
    path = folder / "record.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def results(folder: Path) -> dict[str, Any]:
    """Everything that a run writes, except times."""
    events = EventAccumulator(str(folder))
    events.Reload()
    curves = {t: [(e.step, e.value) for e in events.Scalars(t)] for t in events.Tags()["scalars"]}
    return {
        "rows": without_times(folder),
        "summary": json.loads((folder / "summary.json").read_text()),
        "curves": curves,
        "final": torch.load(folder / "final.pt", weights_only=True),
    }


def check_equal(ours: Any, other: Any, place: str = "") -> None:
    """Whether nested containers are equal to the last bit."""
    if isinstance(ours, torch.Tensor):
        assert torch.equal(ours, other), place
    elif isinstance(ours, dict):
        assert ours.keys() == other.keys(), place
        for key in ours:
            check_equal(ours[key], other[key], f"{place}/{key}")
    elif isinstance(ours, (list, tuple)):
        assert len(ours) == len(other), place
        for number, (one, two) in enumerate(zip(ours, other, strict=True)):
            check_equal(one, two, f"{place}/{number}")
    else:
        assert ours == other or (ours != ours and other != other), place


# Not before the first checkpoint, and not near the end: it would be missed.
EARLY, LATE = (4, STEPS // 2), (STEPS // 2, STEPS - 12)
# With views and a teacher, with what is learnt of the source, with a memory; tests/methods/test_methods.py
# resumes every method at any step, in one process.
KILLED = ["CoTTA", "EATA", "NOTE"]
MOMENTS = {name: ((EARLY, LATE), (EARLY,), (LATE,))[n % 3] for n, name in enumerate(KILLED)}


def killed(name: str, folder: Path) -> int:
    """Runs a method to its end, and again with SIGKILLs; returns the number of torn files."""
    finish(start(settings(name, folder / "whole")))
    cut, torn = folder / "cut", 0
    chance = random.Random(name)
    for low, high in MOMENTS[name]:
        last, pause = chance.randint(low, high), chance.random() / 50
        process = start(settings(name, cut))
        until(lambda last=last: rows(cut) >= last, alive=process.is_alive)  # type: ignore[misc]
        time.sleep(pause)
        assert process.is_alive()
        process.kill()
        process.join(60)
        torn += len(list(cut.glob("checkpoints/*.partial")))
    finish(start(settings(name, cut)))
    check_equal(results(folder / "whole"), results(cut))
    assert [row["step"] for row in read_rows(cut)] == list(range(STEPS))
    assert len(json.loads((cut / "provenance.json").read_text())["resumed"]) >= 1
    assert not (cut / "checkpoints").exists()
    return torn


@pytest.mark.slow
def test_kills_leave_no_trace(tmp_path: Path) -> None:
    """A SIGKILL in the run of every kind of method, or two, at random moments."""
    known = [settings(name, tmp_path)["trainer"]["callbacks"] for name in KILLED]
    assert all(any(one in callbacks for callbacks in known) for one in [*WATCHING, *RESETS])
    with ThreadPoolExecutor(2) as pool:
        torn = list(pool.map(lambda name: killed(name, tmp_path / name), KILLED))
    print(
        f"{sum(map(len, MOMENTS.values()))} kills, {sum(torn)} of them while a checkpoint was written"
    )


@pytest.mark.slow
def test_killed_while_saving(tmp_path: Path) -> None:
    """A SIGKILL while a checkpoint is written leaves the previous one, from which the run
    resumes."""
    config = settings("Tent", tmp_path, save_every=1)
    saving = tmp_path / "checkpoints"
    for _ in range(10):
        process = start(config)
        until(
            lambda: len(files(saving)) > 1 and any(saving.glob("*.partial")),
            alive=process.is_alive,
            pause=0.001,
        )
        process.kill()
        process.join(60)
        torn = list(saving.glob("*.partial"))
        if torn:
            break
    assert torn
    assert newest(saving) is not None
    finish(start(config))
    assert [row["step"] for row in read_rows(tmp_path)] == list(range(STEPS))


def stopped(config: dict[str, Any], number: signal.Signals) -> int:
    """Send a signal in the middle of a run; returns its exit status."""
    process = start(config)
    until(lambda: rows(Path(config["out"])) > 5, alive=process.is_alive)
    os.kill(process.pid, number)
    process.join(60)
    return process.exitcode


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_save_the_step_at_hand(tmp_path: Path, number: signal.Signals) -> None:
    """With checkpoints a minute apart, nothing is computed twice."""
    config = settings("RDumb", tmp_path, save_every=None)
    assert stopped(config, number) != 0
    done = rows(tmp_path)
    (saved,) = files(tmp_path / "checkpoints")
    assert saved.name == f"step-{done:09d}.ckpt"
    finish(start(config))
    facts = json.loads((tmp_path / "provenance.json").read_text())
    assert [entry["images"] for entry in facts["resumed"]] == [done * BATCH]
    assert len(read_rows(tmp_path)) == STEPS


class Send(Callback):
    """Sends its own process a signal while the run prepares itself, and others in its first step."""

    def __init__(self, first: int, *others: int) -> None:
        self.first, self.others = first, others

    def on_test_start(self, *_: Any) -> None:
        os.kill(os.getpid(), self.first)

    def on_test_batch_start(self, *_: Any) -> None:
        for number in self.others:
            os.kill(os.getpid(), number)


def run_until_told(config: dict[str, Any], *numbers: int) -> None:
    torch.set_num_threads(1)
    with contextlib.suppress(KeyboardInterrupt):
        run(config, Send(*numbers))
        os._exit(1)


@pytest.mark.parametrize(
    "numbers",
    [(signal.SIGTERM,), (signal.SIGTERM, signal.SIGINT, signal.SIGTERM)],
    ids=["SIGTERM", "and passed on as Ctrl-C"],
)
def test_sigterm_before_the_first_step(tmp_path: Path, numbers: tuple[int, ...]) -> None:
    """Not lost, and not the end of a run in good order: its first step is saved."""
    config = small(tmp_path, save_every=None)
    process = FORK.Process(target=run_until_told, args=(config, *numbers))
    process.start()
    finish(process)
    assert [path.name for path in files(tmp_path / "checkpoints")] == ["step-000000001.ckpt"]
    assert not (tmp_path / "summary.json").exists()


def small(out: Path, **changes: Any) -> dict[str, Any]:
    """A run without estimators and workers, in this process."""
    config = settings("BNAdapt", out, **changes)
    config["trainer"]["callbacks"], config["data"]["init_args"]["num_workers"] = [], 0
    return config


def cut(out: Path) -> dict[str, Any]:
    """A run that was cut off in the middle, with checkpoints of steps 22 and 24."""
    config = small(out)
    config["trainer"]["limit_test_batches"] = 24
    go_without_end(config)
    return small(out)


def go_without_end(config: dict[str, Any]) -> None:
    """As if killed after the last checkpoint, before the end."""
    process = FORK.Process(target=die_at_the_end, args=(config,))
    process.start()
    process.join(120)
    assert process.exitcode == 9


def die_at_the_end(config: dict[str, Any]) -> None:
    from holdfast.callbacks import RunRecord

    torch.set_num_threads(1)
    RunRecord.on_test_end = lambda *_: os._exit(9)  # type: ignore[method-assign, assignment]
    run(config)


def test_damaged_and_foreign_checkpoints(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    config = cut(tmp_path)
    second, first = files(tmp_path / "checkpoints")
    whole = second.read_bytes()

    other = small(tmp_path)
    other["data"]["init_args"]["batch_size"] = 4
    with pytest.raises(HoldfastError, match=r"batch_size.* 8, not 4"):
        run(other)
    with pytest.raises(HoldfastError, match=r"method.* BNAdapt, not Tent"):
        run({**config, "model": {"class_path": "Tent", "init_args": {"backbone": "digits"}}})
    with pytest.raises(HoldfastError, match="another run, whose weights"):
        run({**config, "model": {"class_path": "BNAdapt", "init_args": {"backbone": "glyphs"}}})
    second.write_bytes(b"")
    first.write_bytes(whole[:1000])
    with pytest.raises(HoldfastError, match=r"No checkpoint .* can be used"):
        run(config)


def test_a_checkpoint_without_a_stream_checkpoint_holds_weights_for_any_run(tmp_path: Path) -> None:
    """As Lightning's users expect; but no run goes on from it, since it knows no position."""
    path, images = tmp_path / "weights.ckpt", torch.rand(3, 6, 3, 8, 8)
    first, second = (Tent(tiny_net(), partial(SGD, lr=0.1)) for _ in range(2))
    trainer = plain_trainer()
    trainer.test(first, datamodule=TensorStream(images), verbose=False)
    trainer.save_checkpoint(path)
    adapted = [p.detach().clone() for p, _ in first.parameters_with_source()]
    plain_trainer(limit_test_batches=0).test(
        second, TensorStream(images[:1]), str(path), verbose=False, weights_only=True
    )
    for (p, source), other in zip(second.parameters_with_source(), adapted, strict=True):
        assert torch.equal(p, other)
        assert not torch.equal(p, source)
    trainer = plain_trainer(callbacks=[StreamCheckpoint(tmp_path / "checkpoints")])
    stream = Corrupted(Digits(), ["fog"], each=8, table="cifar", num_workers=0)
    with pytest.raises(HoldfastError, match="No StreamCheckpoint wrote this"):
        trainer.test(second, stream, str(path), weights_only=True)


@pytest.mark.parametrize("damage", ["truncated", "foreign"])
def test_the_checkpoint_before_is_used(tmp_path: Path, damage: str) -> None:
    config = cut(tmp_path)
    last, _ = files(tmp_path / "checkpoints")
    if damage == "truncated":
        last.write_bytes(last.read_bytes()[:-500])
    else:
        torch.save({"callbacks": {}, "state_dict": {}}, last)
    with pytest.warns(UserWarning, match="step-000000024.ckpt cannot be used"):
        run(config)
    facts = json.loads((tmp_path / "provenance.json").read_text())
    assert [entry["images"] for entry in facts["resumed"]] == [22 * BATCH]
    assert [row["step"] for row in read_rows(tmp_path)] == list(range(STEPS))


def test_later_checkpoints_do_not_outlive_those_of_now(tmp_path: Path) -> None:
    """One that cannot be used, of step 30, is not kept in place of steps 24 and 26."""
    config = cut(tmp_path)
    (tmp_path / "checkpoints" / "step-000000030.ckpt").write_text("damaged")
    config["trainer"]["limit_test_batches"] = 26
    go_without_end(config)
    names = [path.name for path in files(tmp_path / "checkpoints")]
    assert names == ["step-000000026.ckpt", "step-000000024.ckpt"]


def test_a_run_does_not_begin_among_checkpoints(tmp_path: Path) -> None:
    cut(tmp_path)
    (tmp_path / "record.jsonl").unlink()
    before = files(tmp_path / "checkpoints")
    with pytest.raises(HoldfastError, match="contains the checkpoints of a run"):
        run(small(tmp_path))
    assert files(tmp_path / "checkpoints") == before


def test_only_checkpoints_are_removed(tmp_path: Path) -> None:
    """A finished run leaves other files in its checkpoint folder."""
    config = cut(tmp_path)
    other = tmp_path / "checkpoints" / "notes.txt"
    other.write_text("mine")
    run(config)
    assert list(other.parent.iterdir()) == [other]


def test_rows_before_the_checkpoint_are_needed_and_those_behind_it_dropped(tmp_path: Path) -> None:
    config = cut(tmp_path)
    record = tmp_path / "record.jsonl"
    whole = record.read_bytes()
    record.write_bytes(whole[:100])
    with pytest.raises(HoldfastError, match=r"lacks rows .*checkpoint"):
        run(config)
    record.write_bytes(whole + b'{"torn')
    run(config)
    assert [row["step"] for row in read_rows(tmp_path)] == list(range(STEPS))


def test_every_environment_of_a_run_is_noted(tmp_path: Path) -> None:
    """With the step it begins at; the report says so, and what a crash discarded is not listed."""
    config, path = cut(tmp_path), tmp_path / "provenance.json"
    facts = json.loads(path.read_text())
    crashed = {**facts["ran_on"][0], "step": 25, "images": 25 * BATCH, "threads": 3}
    path.write_text(json.dumps(facts | {"ran_on": [*facts["ran_on"], crashed]}))
    torch.set_num_threads(2)
    with pytest.warns(UserWarning, match="threads 2, not 1"):
        run(config)
    facts = json.loads(path.read_text())
    found = [(entry["step"], entry["images"], entry["threads"]) for entry in facts["ran_on"]]
    assert found == [(0, 0, 1), (24, 24 * BATCH, 2)]
    assert torch.__version__.startswith(facts["ran_on"][1]["versions"]["torch"])
    assert "at step 24" in remarks(collect(tmp_path))[0]


def test_limited_runs_go_on_to_their_limit(tmp_path: Path) -> None:
    cut(tmp_path)
    config = small(tmp_path)
    config["trainer"]["limit_test_batches"] = 30
    run(config)
    assert len(read_rows(tmp_path)) == 30


def test_resume_by_words(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """--out and --resume are enough; a finished run says so; a run that is there is not run over."""
    cut(tmp_path)
    words = ["test", "--out", str(tmp_path), "--resume"]
    assert main(words) == 0
    assert len(read_rows(tmp_path)) == 24  # its config.yaml has the limit
    assert "accuracy" in capsys.readouterr().out
    assert main(words) == 0
    assert "is finished: accuracy" in capsys.readouterr().out
    assert main(["test", "--config", str(tmp_path / "config.yaml")]) == 2
    assert "already contains a run. Continue it with --resume" in capsys.readouterr().err
    assert main(["test", *WORDS, "--resume"]) == 2
    assert "--out FOLDER" in capsys.readouterr().err


WORDS = [
    "--model",
    "Source",
    "--model.backbone",
    "digits",
    "--data",
    "CCC",
    "--data.source",
    "Digits",
]


@pytest.mark.parametrize("limit", [2_000, 60_000])
def test_full_disk(tmp_path: Path, limit: int) -> None:
    """No room for the record, or for a checkpoint: one sentence, and the last checkpoint intact."""
    cut(tmp_path)
    before = {path: path.read_bytes() for path in files(tmp_path / "checkpoints")}
    process = FORK.Process(target=full_disk, args=(small(tmp_path), limit))
    process.start()
    process.join(60)
    assert process.exitcode == 0
    assert (tmp_path / "sentence").read_text().count("cannot be written") == 1
    assert all(path.read_bytes() == content for path, content in before.items())
    run(small(tmp_path))
    assert [row["step"] for row in read_rows(tmp_path)] == list(range(STEPS))


def full_disk(config: dict[str, Any], limit: int) -> None:
    """A run that cannot make any file longer than `limit` bytes."""
    torch.set_num_threads(1)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        run(config)
    except HoldfastError as error:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        (Path(config["out"]) / "sentence").write_text(str(error))


def test_unwritable_folder(tmp_path: Path) -> None:
    blocked = tmp_path / "checkpoints"
    blocked.write_text("a file where the folder should be")
    with pytest.raises(HoldfastError, match="/checkpoints"):
        run(small(tmp_path))
