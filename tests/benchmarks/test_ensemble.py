"""Ensembles from a file to the tables of their estimates, on a few images."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from holdfast import HoldfastError
from holdfast.benchmarks.cli import main
from holdfast.benchmarks.results.model_agreement import estimate, from_files
from holdfast.benchmarks.results.predictions import Predictions, load, save
from holdfast.benchmarks.train import ensemble
from holdfast.benchmarks.train.bases import Resized, base_model, features_of, reinitialised
from holdfast.benchmarks.train.members import (
    DEFAULTS,
    batches,
    members,
    new_head,
    probe,
    subset_of,
)
from holdfast.benchmarks.train.training import data_of, features_of_data

FILE = """
out: {out}
seeds: [0]
data:
  train: {{source: {{class_path: Digits, init_args: {{split: train}}}}, images: 200}}
  validation: {{source: {{class_path: Digits, init_args: {{split: train}}}}, first: 200, images: 150}}
  shifts:
    "{{c}}": {{each: {{c: [fog, contrast]}}, class_path: Corrupted, init_args:
      {{source: Digits, corruptions: ["{{c}}"], severities: [3], each: 100, table: cifar}}}}
ensembles:
  probe: {{base: "relu:50", training: probe, diversity: {{head: [1], subset: [0.3]}},
    budgets: [5, 40], members: 2, projnorm: 6}}
  tune: {{base: digits, training: finetune, diversity: {{head: [1]}}, budgets: [1, 2], members: 1}}
  scratch: {{base: digits, training: scratch, diversity: {{order: [0.5]}}, budgets: [2], members: 2}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three small ensembles."""
    path = tmp_path_factory.mktemp("ensembles")
    (path / "e.yaml").write_text(FILE.format(out=path / "out"))
    assert main(["ensemble", str(path / "e.yaml"), "--jobs", "1"]) == 0
    return path


def test_every_member_has_predictions(folder: Path) -> None:
    files = sorted((folder / "out").rglob("*.npz"))
    groups = {file.parent.relative_to(folder / "out").as_posix() for file in files}
    assert groups == {
        *("probe/seed0/head-1", "probe/seed0/subset-0.3"),
        *("tune/seed0/head-1", "scratch/seed0/order-0.5"),
    }
    assert len(files) == 4 + 4 + 2 + 2
    sets = load(files[0])
    assert list(sets) == ["validation", "fog", "contrast"]
    assert len(sets["validation"].ids) == 150
    assert len(sets["fog"].ids) == 100
    longest = load(sorted((folder / "out/probe/seed0/head-1").glob("*-steps40.npz"))[0])
    own = longest["validation"]
    assert (own.classes == own.labels).mean() > 0.5


def test_projnorm_of_probes(folder: Path) -> None:
    """It is the distance of two heads that torch's SGD trains, with labels and with predictions."""
    config = ensemble.load(str(folder / "e.yaml"))
    job = ensemble.jobs(config)[0]
    member = members("head", 1, [5, 40], 2, seed=0)[3]
    inputs, data = (
        features_of_data("relu:50", json.dumps(job.data), 0),
        data_of(json.dumps(job.data), 0),
    )
    own = load(job.file(member))
    heads = []
    for name, labels in (("train", data.train.labels), ("fog", torch.tensor(own["fog"].classes))):
        head = nn.Linear(50, 10)
        head.weight.data, head.bias.data = new_head(member, 50, 10, 0.3).T.clone(), torch.zeros(10)
        optimizer = torch.optim.SGD(head.parameters(), lr=0.03)
        for rows in batches(member._replace(budget=6), len(labels), 64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(head(inputs[name][rows]), labels[rows].long()).backward()
            optimizer.step()
        heads.append(head)
    first, second = (torch.cat([p.detach().flatten() for p in h.parameters()]) for h in heads)
    assert own["fog"].projnorm == pytest.approx(float((first - second).norm()), rel=1e-4)
    assert own["validation"].projnorm is None
    models = from_files(sorted(job.folder.glob("*.npz")), "")
    assert all(one.projnorm is not None and one.projnorm.shape == (4,) for one in models)


def test_what_is_there_is_not_trained_again(folder: Path) -> None:
    files = sorted((folder / "out").rglob("*.npz"))
    before = {file: file.stat().st_mtime_ns for file in files}
    again = [files[0], next(file for file in files if "tune" in str(file))]
    kept = {file: file.read_bytes() for file in again}
    for file in again:
        file.unlink()
    assert main(["ensemble", str(folder / "e.yaml"), "--jobs", "1"]) == 0
    changed = {file for file in files if file.stat().st_mtime_ns != before[file]}
    assert changed == set(again)
    for file, old in kept.items():  # resumed members are those of an uninterrupted run
        (file.parent / "old").write_bytes(old)
        with np.load(file) as new, np.load(file.parent / "old") as other:
            assert all((new[key] == other[key]).all() for key in new.files)


def test_tables_and_figure_of_an_ensemble(folder: Path, capsys: pytest.CaptureFixture) -> None:
    probe_folder = str(folder / "out" / "probe")
    picture = folder / "lines.png"
    assert main(["estimators", "agree", probe_folder, "--figure", str(picture)]) == 0
    shown = capsys.readouterr().out
    for word in (
        "MAPE",
        "ATC-MC (oracle)",
        "DoC_T",
        "ALine-D",
        "accuracy slope",
        "seed0/head-1 fog",
    ):
        assert word in shown
    assert picture.stat().st_size > 10_000
    assert main(["estimators", "agree", probe_folder, "--together", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [len(one["models"]) for one in found] == [8, 8]
    assert found[0]["accuracy_line"]["slope"] > 0


def test_members_differ_in_one_source_only() -> None:
    for source in ("head", "order", "subset"):
        found = members(source, 0.5, [3], 4, seed=2)
        for name in ("head", "order", "subset"):
            assert len({getattr(m, name) for m in found}) == (4 if name == source else 1)
    same = members("head", 0.5, [6], 2, seed=0)
    assert torch.equal(*(torch.stack(list(batches(m, 40, 5))) for m in same))
    own = members("subset", 0.5, [6], 2, seed=0)
    first, second = (set(subset_of(m, 40).tolist()) for m in own)
    assert len(first) == len(second) == 20
    assert first != second
    seen = torch.cat(list(batches(own[0], 40, 5)))[
        :20
    ]  # an epoch has every image of the subset once
    assert set(seen.tolist()) == first


def test_probe_is_sgd() -> None:
    """All heads at once are what torch's SGD makes of each."""
    torch.manual_seed(0)
    features, labels = torch.randn(60, 5), torch.randint(3, (60,))
    settings = {**DEFAULTS["probe"], "batch": 8, "lr": 0.5, "weight_decay": 0.1}
    own = members("head", 1, [4, 9], 1, seed=0)
    found = probe(own, features, labels, 3, settings)
    start = probe([m._replace(budget=0) for m in own], features, labels, 3, settings)
    for member, weight, first in zip(own, found, start, strict=True):
        head = nn.Linear(5, 3)
        head.weight.data, head.bias.data = first[:-1].T.clone(), first[-1].clone()
        optimizer = torch.optim.SGD(head.parameters(), lr=0.5, weight_decay=0.1)
        for rows in batches(member, 60, 8):
            optimizer.zero_grad()
            nn.functional.cross_entropy(head(features[rows]), labels[rows]).backward()
            optimizer.step()
        torch.testing.assert_close(weight[:-1], head.weight.data.T, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(weight[-1], head.bias.data, rtol=1e-4, atol=1e-5)


def test_bases_by_name() -> None:
    images = torch.rand(3, 3, 32, 32)
    shapes = {"pixels": 3072, "relu:20": 20, "digits": 64, "torchvision/resnet18": 512}
    for name, size in shapes.items():
        assert base_model(name).eval()(images).shape == (3, size)
    with pytest.raises(HoldfastError, match="not Linear"):
        features_of(nn.Sequential(nn.Conv2d(3, 4, 3)))
    net = base_model("digits")
    one, other, again = (reinitialised(net, seed).eval()(images) for seed in (1, 2, 1))
    assert torch.equal(one, again)
    assert not torch.allclose(one, other)


def test_images_of_another_size() -> None:
    images = torch.rand(2, 3, 8, 8)
    assert Resized((8, 8))(images) is images
    larger = Resized((16, 16))(images)
    assert larger.shape == (2, 3, 16, 16)
    assert larger.mean() == pytest.approx(float(images.mean()), abs=0.02)


def test_descriptions_in_the_documentation(tmp_path: Path) -> None:
    """All are whole, and so are those that come with Holdfast."""
    text = (Path(ensemble.__file__).parents[2] / "docs" / "ensembles.md").read_text()
    described = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert len(described) == 5
    for number, own in enumerate(described):
        (tmp_path / f"{number}.yaml").write_text(own)
        config = ensemble.load(str(tmp_path / f"{number}.yaml"))
        assert ensemble.jobs(config)
    for name in ("glyphs", "digits"):
        config = ensemble.load(name)
        whole = [job for job in ensemble.jobs(config) if len(job.config["budgets"]) == 5]
        assert len(whole) == len(ensemble.jobs(config))
        assert config["seeds"] == [0, 1, 2]


def model(classes: np.ndarray, labels: np.ndarray | None = None) -> Predictions:
    return Predictions(np.arange(len(classes)), classes, labels, {})


def test_predictions_made_elsewhere(tmp_path: Path) -> None:
    """Samples in any order, a shift without labels, a damaged file."""
    random, labels = np.random.default_rng(0), np.arange(200) % 4
    for number, error in enumerate((0.1, 0.3, 0.5)):
        classes = np.where(random.random(200) < error, 9, labels)
        shift = np.where(random.random(200) < 0.2, 8, classes)
        order = random.permutation(200)
        sets = {"validation": model(classes, labels), "new": model(shift)}
        mixed = {k: p.at(order) for k, p in sets.items()}
        save(tmp_path / f"m{number}.npz", mixed)
    files = sorted(tmp_path.glob("*.npz"))
    (models,) = from_files(files, "mine")
    assert (models.val_labels == labels).all()
    result = estimate(models)
    assert result.truth is None
    assert result.accuracy_line is None
    assert set(result.estimates) == {"agreement", "ALine-S", "ALine-D"}
    assert main(["estimators", "agree", str(tmp_path)]) == 0
    files[0].write_bytes(b"PK")
    with pytest.raises(HoldfastError, match=re.escape(str(files[0]))):
        load(files[0])
    np.savez(files[0], **{"new/ids": [1], "new/predictions": [1]})
    with pytest.raises(HoldfastError, match="no set 'validation'"):
        load(files[0])


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("training: probe", "training: prob", "training should be 'probe', "),
        ("subset: [0.3]", "subset: [30]", "diversity/subset/0"),
        ("subset: [0.3]", "subsets: [0.3]", "diversity/subsets"),
        ("images: 200", "images: 2000", "images=2000 with first=0 exceeds the 1000 images"),
        ("projnorm: 6", "projnorm: 0", "projnorm should be greater"),
        ("members: 1}", "members: 1, projnorm: 6}", "training: probe"),
        ("relu:50", "reelu", "Unknown network"),
        ("class_path: Digits", "class_path: Digit", "'Digit' is unknown. Choose one of"),
    ],
)
def test_what_is_wrong_is_told(
    old: str, new: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    (tmp_path / "e.yaml").write_text(FILE.format(out=tmp_path / "out").replace(old, new))
    assert main(["ensemble", str(tmp_path / "e.yaml"), "--jobs", "1"]) == 2
    assert sentence in capsys.readouterr().err
