"""Methods that select images: by which limit, and what is said of one that never updates."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import TensorStream, plain_trainer, tiny_net

from holdfast.callbacks import RunRecord
from holdfast.methods import EATA, ETA, RDumb
from holdfast.methods.functional import redundancy_limit
from holdfast.run_folder import PROVENANCE


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
            if isinstance(default, EATA):
                for method in (default, explicit, other):
                    method.fit_fisher([images])
            logits = default.adapt(images)
            assert torch.equal(logits, explicit.adapt(images))
            other.adapt(images)
            differs |= int(default.trace["selected"]) != int(other.trace["selected"])
        assert differs, "the limit matters"
        assert (default.chosen, explicit.chosen) == ({"redundancy": limit}, {})


def test_the_limit_is_in_the_provenance(tmp_path: Path) -> None:
    data, trainer = (
        TensorStream(torch.rand(4, 8, 3, 8, 8)),
        plain_trainer(callbacks=[RunRecord(tmp_path)]),
    )
    trainer.test(ETA(tiny_net(10)), datamodule=data, verbose=False)
    facts = json.loads((tmp_path / PROVENANCE).read_text())
    assert facts["chosen"] == {"redundancy": 0.4}
    assert facts["arguments"]["redundancy"] is None
