"""The protocol of a run: from its provenance, from its configuration, and what may be in one mean."""

import json
from pathlib import Path
from typing import Any

import pytest
from made_up import made_up

from holdfast import HoldfastError
from holdfast.benchmarks.papers.tables import accuracy
from holdfast.benchmarks.results import summary_tables
from holdfast.benchmarks.results.aggregate import average, groups
from holdfast.benchmarks.results.run_protocol import (
    AT_EACH,
    CONTINUAL,
    EPISODIC,
    Protocol,
    protocol,
)
from holdfast.benchmarks.results.runs import collect
from holdfast.benchmarks.suites.cell import Cell
from holdfast.benchmarks.suites.settings import protocol_facts
from holdfast.datamodules import (
    CCC,
    ClassImbalance,
    CorrelatedLabels,
    Corrupted,
    Glyphs,
    MixedDomains,
    Recurring,
    Stream,
)

ARGS = {"source": "Glyphs", "table": "imagenet", "quality": None}
SHORT = {"class_path": "Corrupted", "init_args": {**ARGS, "each": 64}}


def stretches() -> Corrupted:
    return Corrupted(Glyphs(), each=64, table="imagenet", quality=None)


def ccc() -> CCC:
    return CCC(Glyphs(), calibration="glyphs", images=640, table="imagenet", quality=None)


def wrapped(name: str, stream: dict[str, Any], **args: Any) -> dict[str, Any]:
    return {"class_path": name, "init_args": {"stream": stream, **args}}


OF_CCC = {"class_path": "CCC", "init_args": {**ARGS, "calibration": "glyphs", "images": 640}}
STREAMS = {  # each as an object, as a suite has it, and what is to come of both
    "i.i.d.": (ccc, OF_CCC, "i.i.d. labels"),
    "stretches": (stretches, SHORT, "i.i.d. labels, 64 images of each corruption"),
    "correlated": (
        lambda: CorrelatedLabels(ccc(), window=640),
        wrapped("CorrelatedLabels", OF_CCC, window=640),
        "labels correlated (delta 0.1)",
    ),
    "sorted, mixed": (
        lambda: CorrelatedLabels(MixedDomains(stretches()), delta=0),
        wrapped("CorrelatedLabels", wrapped("MixedDomains", SHORT), delta=0),
        "corruptions mixed, labels sorted, 64 images of each corruption",
    ),
    "recurring": (
        lambda: Recurring(ccc(), visits=4),
        wrapped("Recurring", OF_CCC, visits=4),
        "i.i.d. labels, 4 visits",
    ),
    "imbalanced": (
        lambda: ClassImbalance(stretches(), ratio=10),
        wrapped("ClassImbalance", SHORT, ratio=10),
        "classes imbalanced 10 to 1, 64 images of each corruption",
    ),
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_and_its_configuration_have_one_protocol(name: str) -> None:
    make, data, expected = STREAMS[name]
    stream: Stream = make()
    facts = json.loads(json.dumps({**stream.identity, "setting": list(stream.identity)}))
    cell = Cell({}, Path(), {"data": data, "model": {"class_path": "Tent"}}, {})
    assert protocol(facts).stream == protocol(protocol_facts(cell)).stream == expected


@pytest.mark.parametrize(
    ("model", "callbacks", "expected"),
    [
        ({"class_path": "Tent"}, [], CONTINUAL),
        ({"class_path": "RDumb"}, [], CONTINUAL),
        ({"class_path": "MEMO"}, [], EPISODIC),
        ({"class_path": "MEMO", "init_args": {"episodic": False}}, [], CONTINUAL),
        ({"class_path": "Tent"}, [{"class_path": "SegmentReset"}], AT_EACH),
        (
            {"class_path": "Tent", "init_args": {"recovery": {"class_path": "SegmentReset"}}},
            [],
            AT_EACH,
        ),
        (
            {"class_path": "Tent"},
            [{"class_path": "PeriodicReset", "init_args": {"every": 1}}],
            EPISODIC,
        ),
        (
            {"class_path": "Tent"},
            [{"class_path": "PeriodicReset", "init_args": {"every": 9}}],
            CONTINUAL,
        ),
    ],
)
def test_when_a_model_starts_anew(
    model: dict[str, Any], callbacks: list[dict[str, Any]], expected: str
) -> None:
    config = {"data": SHORT, "model": model, "trainer": {"callbacks": callbacks}}
    assert protocol(protocol_facts(Cell({}, Path(), config, {}))).recovery == expected


def two(folder: Path, facts: dict[str, Any], **names: str) -> None:
    """Runs of two streams, the second of which has these facts in its provenance."""
    both = {"setting": ["stream"]}
    made_up(folder, "Tent", [0.4] * 20, stream="one", setting="one", facts=both)
    second = {"stream": "two", "setting": "two", **names}
    made_up(folder, "Tent", [0.2] * 20, **second, facts={**both, **facts})


CORRELATED = {"wrappers": [{"wrapper": "CorrelatedLabels", "delta": 0.1}]}


@pytest.mark.parametrize(
    "facts", [CORRELATED, {"resets": [{"class": "SegmentReset"}]}, {"parts": [[0, "", 5000]]}]
)
def test_settings_of_different_protocols_have_no_mean(
    tmp_path: Path, facts: dict[str, Any]
) -> None:
    two(tmp_path, facts)
    runs = collect(tmp_path)
    found = groups(runs)
    alone = facts.keys() == {"parts"}  # the other stream has no number of images: no contradiction
    assert (average(found) is not None) == alone
    if alone:
        assert accuracy(runs, average=True).rows
        return
    with pytest.raises(HoldfastError, match="average"):
        accuracy(runs, average=True)


def test_streams_of_one_setting_are_apart_if_their_protocols_are(tmp_path: Path) -> None:
    two(tmp_path, CORRELATED, setting="one")
    found = groups(collect(tmp_path))
    assert [(g.setting, g.accuracy) for g in found] == [
        ("one (i.i.d. labels)", pytest.approx(0.4)),
        ("one (labels correlated (delta 0.1))", pytest.approx(0.2)),
    ]
    assert [g.wanted for g in found] == [1, 1]
    assert summary_tables.facts(found[0])["protocol"] == str(Protocol(CONTINUAL, "i.i.d. labels"))
