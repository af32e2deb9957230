"""Methods that select images: by which limit, and what is said of one that never updates."""

import json
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from common import TensorStream, plain_trainer, tiny_net
from torch.optim import SGD

from holdfast.benchmarks.cli import main
from holdfast.callbacks import RunRecord
from holdfast.methods import EATA, ETA, SAR, BNAdapt, DeYO, RDumb, RoTTA, SoTTA, Source, Tent
from holdfast.methods.activity import PATIENCE
from holdfast.methods.functional import redundancy_limit
from holdfast.methods.testing import io_copy
from holdfast.run_folder import PROVENANCE, SUMMARY


@pytest.mark.parametrize(
    ("classes", "limit"), [(1000, 0.05), (10, 0.4), (100, 0.225), (2, 0.8944), (4000, 0.025)]
)
def test_the_limit_goes_with_the_number_of_classes(classes: int, limit: float) -> None:
    assert redundancy_limit(classes) == (
        limit if classes in (10, 1000) else pytest.approx(limit, abs=1e-4)
    )
    assert redundancy_limit(classes) > classes**-0.5, (
        "certain predictions pass beside a balanced mean"
    )


@pytest.mark.parametrize("kind", [ETA, EATA, RDumb])
def test_a_limit_that_is_not_given_is_that_of_the_classes(kind: Any) -> None:
    for classes, limit in ((1000, 0.05), (10, 0.4)):
        net = tiny_net(classes)
        net[-1].weight.data *= 50
        default, explicit, other = (
            kind(net, entropy_factor=1.0, **given)
            for given in ({}, {"redundancy": limit}, {"redundancy": 1.1})
        )
        differs = False
        for images in torch.rand(6, 8, 3, 8, 8):
            for method in (default, explicit, other):
                method.fit([images])
            logits = default.adapt(images)
            assert torch.equal(logits, explicit.adapt(images))
            other.adapt(images)
            differs |= int(default.trace["selected"]) != int(other.trace["selected"])
        assert differs, "the limit matters"
        assert (default.chosen, explicit.chosen) == ({"redundancy": limit}, {})


# ---- a method that never updates --------------------------------------------------------------------

quiet = pytest.mark.filterwarnings("ignore:EATA takes its Fisher", "ignore:skip_top has no effect")
NEVER = {
    "ETA": partial(ETA, entropy_factor=0.1),
    "EATA": partial(EATA, entropy_factor=0.1),
    "RDumb": partial(RDumb, entropy_factor=0.1, every=20),
    "DeYO": partial(DeYO, filter_factor=0.1, skip_top=False),
    "SAR": partial(SAR, entropy_factor=0.1, skip_top=False),
    "SAR-decay": partial(SAR, optimizer=partial(SGD, lr=0.1, weight_decay=0.1), entropy_factor=0.1),
    "SoTTA": partial(SoTTA, confidence=0.9, every=4, skip_top=False),
    "Tent-rate-0": partial(Tent, optimizer=partial(SGD, lr=0.0)),
}
MOVING = {
    "ETA": partial(ETA, entropy_factor=1.0),
    "RDumb": partial(RDumb, entropy_factor=1.0, every=PATIENCE - 1),
    "Tent": Tent,
    "RoTTA": partial(RoTTA, every=8),
    "RoTTA-collects": partial(RoTTA, every=1000),
    "Source": Source,
    "BNAdapt": BNAdapt,
}


@quiet
@pytest.mark.parametrize("name", NEVER)
def test_a_method_that_never_updates_says_so_once(name: str) -> None:
    make = NEVER[name]
    sentence = "learning rate" if name == "Tent-rate-0" else "selected no image"
    method = make(tiny_net())
    with warnings.catch_warnings():
        warnings.filterwarnings("error", f"{type(method).__name__} (selected no|changed no)")
        for images in torch.rand(PATIENCE - 1, 4, 3, 8, 8):
            method.adapt(images)
    resumed = make(tiny_net())
    resumed.load_state_dict(io_copy(method.state_dict()))
    with pytest.warns(UserWarning, match=sentence):
        resumed.adapt(torch.rand(4, 3, 8, 8))
    assert resumed.never_updated == (name != "SAR-decay")
    with warnings.catch_warnings():
        warnings.filterwarnings("error", f"{type(method).__name__} (selected no|changed no)")
        resumed.adapt(torch.rand(4, 3, 8, 8))


@quiet
@pytest.mark.parametrize("name", MOVING)
def test_a_method_that_updates_or_has_nothing_to_update_does_not(name: str) -> None:
    method = MOVING[name](tiny_net())
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*(selected no|changed no)")
        for images in torch.rand(PATIENCE + 1, 2, 3, 8, 8):
            method.adapt(images)
    method.reset()
    assert method.never_updated == (name == "RoTTA-collects")


@pytest.mark.filterwarnings("ignore:ETA selected no image")
def test_reports_mark_a_method_that_never_updates(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    def run(name: str, method: Any) -> dict[str, Any]:
        trainer = plain_trainer(callbacks=[RunRecord(tmp_path / name)])
        data = TensorStream(torch.rand(4, 8, 3, 8, 8, generator=torch.Generator().manual_seed(0)))
        trainer.test(method, datamodule=data, verbose=False)
        return json.loads((tmp_path / name / SUMMARY).read_text())

    net = tiny_net()
    some = run("some", ETA(net, entropy_factor=1.0))
    facts = json.loads((tmp_path / "some" / PROVENANCE).read_text())
    assert facts["chosen"] == {"redundancy": redundancy_limit(5)}
    assert facts["arguments"]["redundancy"] is None
    assert some["images_used"] > 0
    assert "never_updated" not in some
    assert not {"images_used", "never_updated"} & run("source", Source(net)).keys()
    assert main(["report", str(tmp_path)]) == 0
    assert "never updated" not in capsys.readouterr().out
    none = run("none", RDumb(net, entropy_factor=0.1))
    assert (none["images_used"], none["never_updated"]) == (0, True)
    assert main(["report", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    marks = {row["method"]: (row["images_used"], row["never_updated"]) for row in found["runs"]}
    assert marks == {
        "ETA": (some["images_used"], False),
        "RDumb": (0, True),
        "Source": (None, False),
    }
    page = tmp_path / "page.html"
    assert main(["report", str(tmp_path), "--html", str(page)]) == 0
    assert main(["report", str(tmp_path)]) == 0
    for text in (capsys.readouterr().out, page.read_text()):
        assert "never updated" in text
        assert "images used" in text
