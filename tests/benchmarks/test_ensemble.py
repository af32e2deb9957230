"""Ensembles from a file to the tables of their estimates, on a few images."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from common import ROOT
from torch import nn

from holdfast import HoldfastError
from holdfast.benchmarks.cli import main
from holdfast.benchmarks.results.model_agreement import estimate, from_files
from holdfast.benchmarks.results.predictions import Predictions, read_predictions, write_predictions
from holdfast.benchmarks.train import ensemble
from holdfast.benchmarks.train.ensemble import task_of
from holdfast.benchmarks.train.image_task import base_model, features_of, reinitialised
from holdfast.benchmarks.train.members import batches, members, new_head, probe, subset_of
from holdfast.callbacks.provenance import commit
from holdfast.files import read_json

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
    assert main(["train", "ensemble", str(path / "e.yaml"), "--jobs", "1"]) == 0
    return path


def test_every_member_has_predictions(folder):
    files = sorted((folder / "out").rglob("*.npz"))
    groups = [file.parent.relative_to(folder / "out").as_posix() for file in files]
    assert {group: groups.count(group) for group in groups} == {
        "probe/seed0/head-1": 4,
        "probe/seed0/subset-0.3": 4,
        "tune/seed0/head-1": 2,
        "scratch/seed0/order-0.5": 2,
    }
    sets = read_predictions(sorted((folder / "out/probe/seed0/head-1").glob("*-steps40.npz"))[0])
    sizes = {name: len(own.ids) for name, own in sets.items()}
    assert sizes == {"validation": 150, "fog": 100, "contrast": 100}
    assert (sets["validation"].classes == sets["validation"].labels).mean() > 0.5
    origin = read_json(files[0].parent / "provenance.json")
    assert {key: origin[key] for key in ("commit", "threads", "weights")} == {
        "commit": str(commit()),
        "threads": 1,
        "weights": "base relu:50",
    }


def test_what_is_there_is_not_trained_again(folder):
    """Resumed members are those of an uninterrupted run."""
    files = sorted((folder / "out").rglob("*.npz"))
    before = {file: file.stat().st_mtime_ns for file in files}
    again = [files[0], next(file for file in files if "tune" in str(file))]
    kept = {file: dict(np.load(file)) for file in again}
    for file in again:
        file.unlink()
    assert main(["train", "ensemble", str(folder / "e.yaml"), "--jobs", "1"]) == 0
    assert {file for file in files if file.stat().st_mtime_ns != before[file]} == set(again)
    for file, old in kept.items():
        assert all((new == old[key]).all() for key, new in np.load(file).items())


def by_sgd(
    member: ensemble.Member, features: torch.Tensor, labels: torch.Tensor, **settings: float
) -> torch.Tensor:
    """The member's head [D+1,C] as torch's SGD trains it, bias last."""
    size, classes = features.shape[1], int(labels.max()) + 1
    head = nn.Linear(size, classes)
    head.weight.data = new_head(member, size, classes, 0.3).T.clone()
    head.bias.data.zero_()
    optimizer = torch.optim.SGD(head.parameters(), **settings)
    for rows in batches(member, len(labels), 64):
        optimizer.zero_grad()
        nn.functional.cross_entropy(head(features[rows]), labels[rows].long()).backward()
        optimizer.step()
    return torch.cat([head.weight.detach().T, head.bias.detach()[None]])


def test_probes_and_their_projnorm_are_those_of_sgd(folder):
    """ProjNorm is the distance of two heads, trained with labels and with predictions."""
    job = ensemble.jobs(ensemble.load(str(folder / "e.yaml")))[0]
    own = members("head", 1, [5, 40], 2, seed=0)
    task = task_of(json.dumps(job.data), "relu:50", 0)
    features, labels = task.features["train"], task.sets["train"].labels
    settings = {"lr": 0.5, "batch": 64, "weight_decay": 0.1, "init": 0.3}
    found = probe(own, features, labels, 10, settings)
    for member, weight in zip(own, found, strict=True):
        expected = by_sgd(member, features, labels, lr=0.5, weight_decay=0.1)
        torch.testing.assert_close(weight, expected, rtol=1e-4, atol=1e-5)
    sets, short = read_predictions(job.file(own[3])), own[3]._replace(budget=6)
    predicted = torch.tensor(sets["fog"].classes)
    heads = (
        by_sgd(short, features, labels, lr=0.03),
        by_sgd(short, task.features["fog"], predicted, lr=0.03),
    )
    assert sets["fog"].projnorm == pytest.approx(float((heads[0] - heads[1]).norm()), rel=1e-4)
    assert sets["validation"].projnorm is None


def test_tables_and_figure_of_an_ensemble(folder, capsys):
    probe_folder, picture = str(folder / "out" / "probe"), folder / "lines.png"
    assert main(["estimators", "agree", probe_folder, "--figure", str(picture)]) == 0
    shown = capsys.readouterr().out
    words = ("ATC-MC (oracle)", "DoC_T", "ALine-D", "accuracy line", "seed0/head-1 fog")
    assert all(word in shown for word in words)
    assert picture.stat().st_size > 10_000
    assert main(["estimators", "agree", probe_folder, "--together"]) == 0
    names, errors = capsys.readouterr().out.split("\n\n")[:2]
    assert [names.count(f"\n{shift} ") for shift in ("fog", "contrast")] == [8, 8]
    assert len(errors.splitlines()) == 2 + 2


def test_members_differ_in_one_source_only():
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
    epoch = torch.cat(list(batches(own[0], 40, 5)))[:20]
    assert set(epoch.tolist()) == first


def test_bases_by_name():
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


def test_descriptions_in_the_documentation(tmp_path):
    """All are whole, and so are those that come with Holdfast."""
    text = (ROOT / "docs" / "ensembles.md").read_text()
    described = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert len(described) == 6
    for own in described:
        (tmp_path / "e.yaml").write_text(own)
        assert ensemble.jobs(ensemble.load(str(tmp_path / "e.yaml")))
    for name in ("glyphs", "digits"):
        assert ensemble.load(name)["seeds"] == [*range(10)]


def test_predictions_made_elsewhere(tmp_path):
    """Samples in any order, a shift without labels, a damaged file."""
    random, labels, ids = np.random.default_rng(0), np.arange(200) % 4, np.arange(200)
    for number, error in enumerate((0.1, 0.3, 0.5)):
        classes = np.where(random.random(200) < error, 9, labels)
        shift = np.where(random.random(200) < 0.2, 8, classes)
        order = random.permutation(200)
        known = Predictions(ids[order], classes[order], labels[order], {})
        new = Predictions(ids[order], shift[order], None, {})
        write_predictions(tmp_path / f"m{number}.npz", {"validation": known, "new": new})
    files = sorted(tmp_path.glob("*.npz"))
    (models,) = from_files(files, "mine")
    assert (models.val_labels == labels).all()
    result = estimate(models)
    assert (result.truth, result.accuracy_line) == (None, None)
    assert set(result.estimates) == {"agreement", "ALine-S", "ALine-D"}
    assert main(["estimators", "agree", str(tmp_path)]) == 0
    files[0].write_bytes(b"PK")
    with pytest.raises(HoldfastError, match=re.escape(str(files[0]))):
        read_predictions(files[0])


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("training: probe", "training: prob", "ensembles/probe/training should be 'probe'"),
        ("subset: [0.3]", "subset: [30]", "ensembles/probe/diversity/subset/0 should be less than"),
        ("projnorm: 6", "settings: {rate: 6}", "ensembles/probe/settings"),
        ("images: 200", "images: 2000", "images=2000 with first=0 exceeds the 1000 images"),
        ("members: 1}", "members: 1, projnorm: 6}", "training: probe"),
        ("relu:50", "reelu", "Neither torchvision nor timm has 'reelu'"),
        ("class_path: Digits", "class_path: Digit", "Digit"),
    ],
)
def test_what_is_wrong_is_told(old, new, sentence, tmp_path, capsys):
    (tmp_path / "e.yaml").write_text(FILE.format(out=tmp_path / "out").replace(old, new))
    assert main(["train", "ensemble", str(tmp_path / "e.yaml"), "--jobs", "1"]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1
