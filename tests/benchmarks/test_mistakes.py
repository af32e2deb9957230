"""A wrong word on the command line gets one sentence, before anything is computed or written."""

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from common import DATA, ROOT, model
from small_suites import small_stream, write_suite

from holdfast.benchmarks.cli import main
from holdfast.datamodules import Calibration

RUN = "test --config data.yaml --out run --model.backbone digits"
TWO = "--trainer.devices 2 --trainer.strategy sync"
CORRUPTIONS = "corruptions --backbone digits --source digits"
MISTAKES = [
    ("reprot", "Did you mean holdfast report?"),
    ("test --model Tent --backbone digits --data CCC", "Did you mean --model.backbone?"),
    (f"{RUN} --model Tant", "'Tant' is unknown. Did you mean Tent?"),
    (f"{RUN} --model Tent --data Mine", "'Mine' is unknown. Choose one of CCC"),
    (f"{RUN} --model Tent --data.source Glyfs", "Did you mean Glyphs?"),
    (f"{RUN} --model Tent --trainer.callbacks+=Periodic", "PeriodicReset"),
    (f"{RUN} --model Tent --model.backbone glyfs", "Choose glyphs, digits"),
    (f"{RUN} --model Tent --model.lr 1", "Tent has no option 'lr'. List its options with "),
    (f"{RUN} --model Tent --data.imges 1", "--data.help CCC."),
    (f"{RUN} --model Tent --modle 1", "unrecognized arguments: --modle"),
    (f"{RUN} --model own.Margn", "'own.Margn': module 'own' has no"),
    (f"{RUN} --model owm.Margin", "No module named 'owm'"),
    (f"{RUN} --model broken.Margin", "broken.Margin: the file is broken"),
    (f"{RUN} --model own.MarginScore", "does not correspond to a subclass of TTA"),
    ("stress Tent --budget 0", "--budget must be at least 1"),
    ("stress Tentt", "Tent"),
    ("test --config twice.yaml --out run", "the key 'model' is in line 1 and again in line 3"),
    (f"{RUN} --preset tint --data CCC", "no preset 'tint'. Choose from adacontrast, "),
    (f"{RUN} --model Tent --data.images many", "images"),
    (f"{RUN} --model Tent --data.difficulty hrad", "easy, medium, hard"),
    (f"{RUN} --model Tent --trainer.precision bf16-true", "32-true or bf16-mixed"),
    (f"{RUN} --model RDumb --model.every 0", "at least 1"),
    (f"{RUN} --model Tent --trainer.limit_test_batches 0.5", "limit_test_batches"),
    (f"{RUN} --model Tent --trainer.devices 2", "Pass strategy='sync'"),
    (f"{RUN} --model Tent {TWO} --compile true", "--compile"),
    (f"{CORRUPTIONS} --severity 7", "7.0"),
    (f"{CORRUPTIONS} --corruptions fogg", "fogg"),
    (f"{CORRUPTIONS} --methods RDum", "RDum"),
    (f"{CORRUPTIONS} --images 0", "images"),
    (f"{CORRUPTIONS} --backbone digitz", "digitz"),
    ("suite suite.yaml --jobs 0", "--jobs must"),
    ("suite suite.yaml --shard 4/4", "0/4"),
    ("suite suite.yaml --out suite.yaml", "cannot be written"),
    ("tune rdumb/tuning --out tuned --methods Tint", "methods='Tint' is unknown. Choose "),
    ("suite suite.yaml --methods Tint", "methods='Tint' is unknown. Choose Source."),
    ("train digits --out /dev/null/w.safetensors", "cannot be written"),
    ("tune rdumb/interval --out tuned", "use CINCHoldout"),
    ("tune rdumb/tuning --out tuned --steps 200", "--steps must be above 200"),
    ("tune rdumb/tuning --out tuned --estimator Nothing", "no estimator Nothing"),
    ("tune rdumb/tuning --out tuned --budget 2", "at least 3"),
    ("paper T2.1", "Did you mean rdumb/T2.1?"),
    ("paper rdumb/T9", "'rdumb/T9'"),
    ("paper agreement/Fig1 --scale full", "embedded"),
    ("paper rdumb/T2.4 --show --scale full", "--runs"),
    ("estimators warnings none", "no adapting run with labels"),
    ("estimators quality none", "no run with labels and an estimator"),
    ("estimators agree none", "Found neither two runs"),
    ("train cifar100 --data cifar", "cifar/cifar-100-python"),
    ("train cifar10 --data cifar --epochs 0", "epochs=0"),
    ("train glyphs --steps 1", "steps=1"),
    ("calibrate --merge none.npz --out c.npz", "none.npz cannot be read"),
    ("calibrate --merge two.npz other.npz --out c.npz", "differ"),
    ("calibrate --images 0 --out c.npz", "images=0"),
    ("calibrate --corruptions fog --out c.npz", "--corruptions"),
    ("calibrate --source digits --backbone digits --out /dev/null/c.npz", "cannot be written"),
    ("calibrate --source none --out c.npz", "no images in"),
    ("bench steps --batch 0 --device cpu", "batch=0"),
    ("bench steps --methods Tint --device cpu", "no method Tint"),
    ("bench steps --backbone nothing --device cpu", "'nothing'"),
    ("bench loader --images 0 --device cpu", "images=0"),
]
if not torch.accelerator.is_available():
    MISTAKES.append(("bench steps --device cuda", "PyTorch finds no GPU"))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the commands name."""
    folder = tmp_path_factory.mktemp("mistakes")
    (folder / "data.yaml").write_text(
        yaml.safe_dump({"data": DATA, "trainer": {"accelerator": "cpu"}})
    )
    write_suite(folder, {"Source": model("Source")}, {"digits": small_stream()})
    (folder / "twice.yaml").write_text("model: Tent\ndata: CCC\nmodel: Source\n")
    (folder / "none").mkdir()
    shutil.copy(ROOT / "docs" / "examples" / "own.py", folder)
    (folder / "broken.py").write_text("raise RuntimeError('the file is broken')\n")
    (folder / "none.npz").write_bytes(b"no archive")
    for name, images in (("two", 5), ("other", 6)):
        facts = {"weights": "same", "images": images}
        table = np.zeros((2, 2, 21, 21))
        Calibration(("fog", "frost"), table, facts).save(folder / f"{name}.npz")
    return folder


@pytest.mark.parametrize(("words", "sentence"), MISTAKES)
def test_a_mistake_gets_one_sentence(words, sentence, place, registry, monkeypatch, capfd):
    monkeypatch.chdir(place)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # beside own.py
    before = {*place.iterdir()} - {place / "run"}
    try:
        status = main(words.split())
    except SystemExit as end:  # argparse's own
        status = int(end.code or 0)
    assert status == 2
    error = capfd.readouterr().err
    assert sentence in error.splitlines()[-1]
    assert "Traceback" not in error
    assert {*place.iterdir()} - {place / "run"} == before
    assert not (place / "run" / "record.jsonl").exists()
