"""The command line as a user meets it: runs, reports, mistakes."""

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from common import BATCH, DATA, STEPS, model, plain_trainer
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from small_suites import small_stream
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from holdfast import HoldfastError, methods
from holdfast.benchmarks.cli import main
from holdfast.benchmarks.test import run
from holdfast.callbacks import PeriodicReset, RunRecord, SoftmaxScore
from holdfast.datamodules import Clean, Corrupted, Digits
from holdfast.files import read_json
from holdfast.methods import Source, Tent
from holdfast.methods.backbones.compiled import compile_network
from holdfast.run_folder import read_rows


def command(folder: Path, *words: str) -> list[str]:
    """The arguments of `holdfast test` on the small stream."""
    file = folder / "data.yaml"
    file.write_text(yaml.safe_dump({"data": DATA, "trainer": {"accelerator": "cpu"}}))
    base = ["--config", str(file), "--out", str(folder / "run"), "--model.backbone", "digits"]
    return ["test", *base, *words]


def test_one_run(tmp_path, capsys):
    words = ["--model", "RDumb", "--model.every", "5", "--trainer.callbacks+=SoftmaxScore"]
    assert main(command(tmp_path, *words)) == 0
    folder = tmp_path / "run"
    rows = read_rows(folder)
    assert [row["step"] for row in rows] == list(range(STEPS))
    assert rows[-1]["images"] == STEPS * BATCH - 5
    assert [row["step"] for row in rows if row["reset"]] == [5, 10]
    assert all(0 <= row["SoftmaxScore"] <= 1 for row in rows)
    assert {"accuracy", "segment", "corruptions", "reliable", "selected"} <= rows[0].keys()
    ((name, severity), *_) = rows[0]["corruptions"]
    assert name in DATA["init_args"]["corruptions"]
    assert 0 < severity <= 5
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["accuracy"] == pytest.approx(np.mean([row["accuracy"] for row in rows]))
    assert f"{summary['accuracy']:.2%}" in capsys.readouterr().out
    facts = json.loads((folder / "provenance.json").read_text())
    assert facts["resets"] == [{"class": "PeriodicReset", "every": 5, "keep_memory": False}]
    assert facts["stream"] == "CCC"
    assert len(facts["weights"]) == 12
    again = yaml.safe_load((folder / "config.yaml").read_text())
    assert again["model"]["init_args"]["every"] == 5


def accuracy_curve(folder: Path) -> list:
    """The points in the only event file there is."""
    (file,) = folder.rglob("events.out.tfevents.*")
    events = EventAccumulator(str(file))
    events.Reload()
    return events.Scalars("stream/accuracy")


def test_curves_lie_on_the_images_axis(tmp_path):
    """A point for every 25 batches, and one for the rest."""
    config = {"data": small_stream(images=60 * BATCH), "trainer": {"accelerator": "cpu"}}
    run({**config, "model": model("Tent"), "out": str(tmp_path)})
    points = accuracy_curve(tmp_path)
    assert [point.step for point in points] == [25 * BATCH, 50 * BATCH, 60 * BATCH]
    accuracies = [row["accuracy"] for row in read_rows(tmp_path)]
    for point, those in zip(points, (slice(25), slice(25, 50), slice(50, 60)), strict=True):
        assert point.value == pytest.approx(np.mean(accuracies[those]))


@pytest.mark.parametrize("logger", ["none", "the default", "there", "below", "elsewhere"])
def test_a_record_brings_its_curves(tmp_path, monkeypatch, logger):
    """In the run's folder, once, whatever logger there is; a short run has a point for each batch."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "runs" / "mine"
    loggers: dict[str, Any] = {
        "none": False,
        "the default": True,
        "there": TensorBoardLogger("runs", name="mine", version=""),
        "below": TensorBoardLogger(folder, name="curves"),
        "elsewhere": CSVLogger("logs"),
    }
    trainer = plain_trainer(logger=loggers[logger], callbacks=[RunRecord(folder)])
    data = Clean(Digits(), images=3 * BATCH, batch_size=BATCH, num_workers=0)
    trainer.test(Source("digits"), datamodule=data, verbose=False)
    assert [point.step for point in accuracy_curve(folder)] == [BATCH, 2 * BATCH, 3 * BATCH]


def test_a_logger_alone_shows_curves(tmp_path):
    """Without a record, of each step: accuracy, loss, resets and estimates against the images seen."""
    loggers = [TensorBoardLogger(tmp_path / "tb", name=""), CSVLogger(tmp_path / "csv", name="")]
    watch = [SoftmaxScore(), PeriodicReset(every=2)]
    trainer = plain_trainer(logger=loggers, callbacks=watch)
    data = Clean(Digits(), images=4 * BATCH, batch_size=BATCH, num_workers=0)
    trainer.test(Tent("digits"), datamodule=data, verbose=False)
    points = accuracy_curve(tmp_path / "tb")
    assert [point.step for point in points] == [n * BATCH for n in (1, 2, 3, 4)]
    (file,) = (tmp_path / "csv").rglob("metrics.csv")
    rows = pd.read_csv(file).set_index("step").filter(like="stream/").dropna(how="all")
    assert list(rows.index) == [point.step for point in points]
    assert list(rows["stream/reset"]) == [0, 0, 1, 0]
    assert list(rows["stream/accuracy"]) == pytest.approx([point.value for point in points])
    assert rows[["stream/loss", "stream/SoftmaxScore"]].notna().all(axis=None)


@pytest.mark.parametrize(
    "option", ["channels_last", pytest.param("compile", marks=pytest.mark.slow)]
)
def test_free_speed_changes_little(tmp_path, option, monkeypatch):
    """At the paper's learning rate the losses stay the same to three digits; of a few whole batches."""
    # What the compiler keeps from a run under other instructions does not compile.
    cache = f"{tempfile.gettempdir()}/inductor-{torch.backends.cpu.get_cpu_capability()}"
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", cache)
    if option == "compile" and shutil.which("g++") is None:
        pytest.skip("torch.compile needs a C++ compiler")
    net = {"class_path": "holdfast.methods.testing.batch_norm_net"}
    config = {
        "model": model("Tent", backbone={**net, "init_args": {"classes": 10}}),
        "data": DATA,
        "trainer": {"accelerator": "cpu", "limit_test_batches": 4},
    }
    run({**config, "out": str(tmp_path / "plain")})
    run({**config, "out": str(tmp_path / "fast"), option: True})
    plain, fast = read_rows(tmp_path / "plain"), read_rows(tmp_path / "fast")
    for one, other in zip(plain, fast, strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-3)


def test_a_network_that_does_not_compile_runs_without(tmp_path, monkeypatch):
    monkeypatch.setattr("torch._inductor.config.cpp.cxx", ("/no/compiler",))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    network, images = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Tanh()), torch.rand(4, 3)
    expected = network(images)
    compile_network(network)
    with pytest.warns(UserWarning, match="which runs without it .*No working C"):
        assert torch.equal(network(images), expected)


def test_a_folder_holds_one_run(tmp_path, capfd):
    """Of one batch, a number that Lightning would take for the share of all."""
    words = command(tmp_path, "--model", "Source", "--trainer.limit_test_batches", "1")
    assert main(words) == 0
    assert len(read_rows(tmp_path / "run")) == 1
    before = (tmp_path / "run" / "record.jsonl").read_bytes()
    assert main(words) == 2
    assert "already contains a run. Continue it with --resume" in capfd.readouterr().err
    assert (tmp_path / "run" / "record.jsonl").read_bytes() == before


def test_a_script_may_replace_its_run(tmp_path):
    """The second time it says how; what others put into the folder stays."""
    stream = Corrupted(Digits(), ["fog"], each=64, table="cifar", num_workers=0)

    def script(**options: Any) -> None:
        trainer = plain_trainer(callbacks=[RunRecord(tmp_path, **options)])
        trainer.test(Source("digits"), datamodule=stream)

    script()
    before = read_json(tmp_path / "provenance.json")["started"]
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "outputs.npz").write_bytes(b"of the run before")
    with pytest.raises(HoldfastError, match=r"overwrite=True"):
        script()
    assert read_json(tmp_path / "provenance.json")["started"] == before
    script(overwrite=True)
    assert read_json(tmp_path / "provenance.json")["started"] > before
    assert len(list(tmp_path.glob("events.out.tfevents.*"))) == 1
    assert (tmp_path / "notes.txt").exists()
    assert not (tmp_path / "outputs.npz").exists()


@pytest.mark.parametrize("name", ["Source", "RDumb", "RMT"])
def test_help_of_a_method(name, capsys):
    assert main(["test", "--model.help", name]) == 0
    text = capsys.readouterr().out
    assert "--model.backbone" in text
    assert len(text.splitlines()) < 120


def test_methods_are_listed_as_they_are_exported(capsys):
    assert main([]) == 0
    assert "  methods  " in capsys.readouterr().out
    assert main(["methods"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.split("\n\n")[0].splitlines()]
    assert set(names) == {name for name in vars(methods) if name[0].isupper()} - {"TTAMethod"}
