"""The protocol of a run, from its provenance, and what may be in one mean."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from common import plain_trainer, tiny_net
from made_up import made_up
from torch import Tensor

from holdfast import HoldfastError
from holdfast.benchmarks.papers.accuracy import accuracy
from holdfast.benchmarks.results.groups import groups
from holdfast.benchmarks.results.run_protocol import (
    AT_EACH,
    CONTINUAL,
    EPISODIC,
    Protocol,
    protocol,
)
from holdfast.benchmarks.results.runs import collect
from holdfast.benchmarks.results.tables import matrix, means, records
from holdfast.callbacks import PeriodicReset, SegmentReset
from holdfast.callbacks.provenance import identity
from holdfast.datamodules import (
    CCC,
    ClassImbalance,
    CorrelatedLabels,
    Corrupted,
    Glyphs,
    MixedDomains,
    Recurring,
    ReorderingWrapper,
    Stream,
)
from holdfast.methods import MEMO, RDumb, Tent


def stretches() -> Corrupted:
    return Corrupted(Glyphs(), each=64, table="imagenet", quality=None)


def ccc() -> CCC:
    return CCC(Glyphs(), calibration="glyphs", images=640, table="imagenet", quality=None)


class Sorted(ReorderingWrapper):
    def find_order(self, number: int) -> Tensor:
        positions = super().find_order(number)
        return positions[self.known_labels(positions).argsort()]


class OneImage(Corrupted):
    def source_index(self, index: Tensor, numbers: Tensor) -> Tensor:
        return torch.zeros_like(index)


EACH = "64 images of each corruption"
STREAMS = {  # each with the protocol that its provenance is to give
    "i.i.d.": (ccc, "i.i.d. labels"),
    "stretches": (stretches, f"i.i.d. labels, {EACH}"),
    "correlated": (
        lambda: CorrelatedLabels(ccc(), window=640),
        "labels correlated (delta 0.1), 62 classes in a batch of 64 (60 at random)",
    ),
    "sorted, mixed": (
        lambda: CorrelatedLabels(MixedDomains(stretches()), delta=0),
        f"corruptions mixed, labels sorted, {EACH}, 29 classes in a batch of 64 (60 at random)",
    ),
    "recurring": (lambda: Recurring(ccc(), visits=4), "i.i.d. labels, 4 visits"),
    "imbalanced": (lambda: ClassImbalance(stretches()), f"classes imbalanced 10 to 1, {EACH}"),
    "mine": (lambda: Recurring(Sorted(stretches(), 64), visits=2), f"Sorted, 2 visits, {EACH}"),
    "a user's stream": (lambda: OneImage(Glyphs(), each=64), f"OneImage, {EACH}"),
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_has_a_protocol(name):
    make, expected = STREAMS[name]
    stream: Stream = make()
    facts = json.loads(json.dumps({**stream.identity, "setting": list(stream.identity)}))
    assert protocol(facts).measured == expected
    for wrapper in facts.get("wrappers", ()):  # as earlier versions recorded them
        del wrapper["order"]
    assert protocol(facts).measured == expected


@pytest.mark.parametrize(
    ("make", "callbacks", "expected"),
    [
        (Tent, [], CONTINUAL),
        (RDumb, [], CONTINUAL),
        (MEMO, [], EPISODIC),
        (partial(MEMO, episodic=False), [], CONTINUAL),
        (Tent, [SegmentReset()], AT_EACH),
        (partial(Tent, recovery=SegmentReset()), [], AT_EACH),
        (Tent, [PeriodicReset(every=1)], EPISODIC),
        (Tent, [PeriodicReset(every=9)], CONTINUAL),
    ],
)
def test_when_a_model_starts_anew(make, callbacks, expected):
    """From the identity that a run writes into its provenance."""
    trainer = plain_trainer(callbacks=callbacks)
    trainer.datamodule = ccc()  # type: ignore[attr-defined]
    assert protocol(identity(trainer, make(tiny_net()))).recovery == expected


def two(folder: Path, facts: dict[str, Any], **names: str) -> None:
    """Runs of two streams, the second of which has these facts in its provenance."""
    both = {"setting": ["stream"]}
    made_up(folder, "Tent", [0.4] * 20, stream="one", setting="one", facts=both)
    second = {"stream": "two", "setting": "two", **names}
    made_up(folder, "Tent", [0.2] * 20, **second, facts={**both, **facts})


CORRELATED = {"wrappers": [{"wrapper": "CorrelatedLabels", "delta": 0.1}]}
UNKNOWN = {"wrappers": [{"wrapper": "SortedByClass"}]}


@pytest.mark.parametrize(
    "facts",
    [
        CORRELATED,
        UNKNOWN,
        {"resets": [{"class": "SegmentReset"}]},
        {"parts": [[0, "", 5000], [1, "", 5000]]},
        {"parts": [[0, "", 5000]]},  # a run of one corruption begins with the source model
    ],
)
def test_settings_of_different_protocols_have_no_mean(tmp_path, facts):
    two(tmp_path, facts)
    runs = collect(tmp_path)
    alone = (
        len(facts.get("parts", ())) == 2
    )  # the other stream has no number of images: no contradiction
    (shown,) = matrix(means(groups(runs)))["Average"]
    assert shown == ("30.0" if alone else "-")
    if alone:
        assert len(accuracy(runs, average=True).frame)
        return
    with pytest.raises(HoldfastError, match="average"):
        accuracy(runs, average=True)


def test_streams_of_one_setting_are_apart_if_their_protocols_are(tmp_path):
    two(tmp_path, CORRELATED, setting="one")
    one, other = records(means(groups(collect(tmp_path))))
    assert (one["setting"], one["accuracy"]) == ("one (i.i.d. labels)", pytest.approx(0.4))
    assert other["setting"] == "one (labels correlated (delta 0.1))"
    assert other["accuracy"] == pytest.approx(0.2)
    assert one["runs_wanted"] == other["runs_wanted"] == 1
    assert one["protocol"] == str(Protocol(CONTINUAL, "i.i.d. labels"))
