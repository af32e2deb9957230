"""What all callbacks promise: a run stays as it is, in any precision, and continues from their state."""

import inspect
import io
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from common import tiny_net
from digit_runs import BATCH, fast, flat, run
from lightning.pytorch import Callback

from holdfast import callbacks as cb
from holdfast.alarms import Drop
from holdfast.benchmarks.papers.aetta.passes import AETTAPasses, DropoutCalibration
from holdfast.benchmarks.papers.flips.embedding_clusters import EmbeddingClusters
from holdfast.benchmarks.papers.flips.hold_out import HoldOut
from holdfast.benchmarks.papers.flips.limited_flips import LimitedFlips
from holdfast.benchmarks.papers.rdumb.weight_magnitude import WeightMagnitude
from holdfast.callbacks.observer import name_apart
from holdfast.datamodules import Corrupted, Digits
from holdfast.methods import Tent

SOURCE = Digits()


def synthetic() -> Corrupted:
    return Corrupted(SOURCE, ["spatter"], [1, 3, 5], each=BATCH, num_workers=0)


WATCHING: dict[str, Callable[[], list[Callback]]] = {
    "AETTA": lambda: [AETTAPasses([2], passes=3), DropoutCalibration()],
    "GDE": lambda: [cb.GDE()],
    "IndependentGDE": lambda: [cb.IndependentGDE([fast("Tent"), fast("CoTTA")])],
    "SoftmaxScore": lambda: [
        cb.SoftmaxScore(),
        cb.Alarm("SoftmaxScore", Drop(window=1, margin=0.0)),
    ],
    "AdvPerturb": lambda: [cb.AdvPerturb(fast("Source").backbone)],
    "SrcValid": lambda: [cb.SrcValid(SOURCE, 8)],
    "SourceAgreement": lambda: [cb.SourceAgreement()],
    "CalibratedConfidence": lambda: [cb.CalibratedConfidence(SOURCE, 20)],
    "DoC": lambda: [cb.DoC(SOURCE, 20)],
    "ATC": lambda: [cb.ATC(SOURCE, 20)],
    "MaNo": lambda: [cb.MaNo(synthetic())],
    "NuclearNorm": lambda: [cb.NuclearNorm(synthetic())],
    "Concentration": lambda: [cb.Concentration(synthetic())],
    "WeightedFlips": lambda: [cb.WeightedFlips(None, held=24, stop=4, at_once=12, also=[3])],
    "WeightedFlips, limited": lambda: [LimitedFlips(40, f=None, held=40, stop=4, at_once=20)],
    "DatasetEstimates": lambda: [cb.DatasetEstimates(SOURCE, 64, 40, adapting=True)],
    "PredictionStatistics": lambda: [cb.PredictionStatistics(window=4)],
    "WeightMagnitude": lambda: [WeightMagnitude(every=2, layers=True)],
    "HoldOut": lambda: [HoldOut(synthetic(), images=20, every=2)],
    "EmbeddingClusters": lambda: [EmbeddingClusters(SOURCE, every=3, held=30, images=200)],
    "RiskMonitor": lambda: [cb.RiskMonitor(SOURCE, 40, refit=3)],
    "RiskMonitor, running": lambda: [cb.RiskMonitor(start=3, rule="running", unit="batch")],
    "RiskMonitor, concentration": lambda: [cb.RiskMonitor(start=3, proxy="concentration")],
}
RESETS: dict[str, Callable[[], list[Callback]]] = {
    "PeriodicReset": lambda: [cb.PeriodicReset(2)],
    "SegmentReset": lambda: [cb.SegmentReset()],
    "MRS": lambda: [cb.MRS(floor=1.5)],
    "StochasticRestore": lambda: [cb.StochasticRestore(0.5)],
    "FisherRestore": lambda: [cb.FisherRestore(0.5)],
    "ASR": lambda: [cb.ASR(start=1.0)],
    "EntropyDrift": lambda: [cb.EntropyDrift(0.5, warm_up=1, cool_down=1)],
    "KLDrift": lambda: [cb.KLDrift(0.001, 0.4, warm_up=1, cool_down=1)],
    "DisagreementReset": lambda: [cb.DisagreementReset(0.01)],
    "OverheadBudget": lambda: [cb.PeriodicReset(2), cb.OverheadBudget(2.5, 1.0, 2.0)],
    "AccuracyReset": lambda: [
        cb.SoftmaxScore(),
        cb.AccuracyReset("SoftmaxScore", window=1, margin=0.0),
    ],
    "AlarmReset": lambda: [
        cb.SoftmaxScore(),
        cb.Alarm("SoftmaxScore", Drop(floor=1.0)),
        cb.AlarmReset(),
    ],
}


def all_that_watch() -> list[Callback]:
    attached = [callback for make in WATCHING.values() for callback in make()]
    name_apart(attached)
    return attached


def through_a_file(state: dict[str, Any]) -> dict[str, Any]:
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@cache
def outcome(watched: bool) -> tuple[Any, ...]:
    """What watches a run, the run, and its logits, state and random numbers, bit for bit."""
    method, attached = fast("Tent"), all_that_watch() if watched else []
    torch.manual_seed(5)
    whole = run(method, attached)
    bits = flat(whole[0]), flat(method.state_dict()), torch.get_rng_state().tolist()
    return attached, whole, bits


@pytest.mark.filterwarnings("ignore:.*to this batch alone")
def test_the_run_stays_as_it_is() -> None:
    """Bit for bit: logits, state and global random numbers; and estimates lie in [0,1].

    For other methods see tests/methods/test_border_contracts.py.
    """
    attached, _, bits = outcome(watched=True)
    assert bits == outcome(watched=False)[-1]
    for callback in attached:
        if isinstance(callback, cb.AccuracyEstimator) and callback.of_batches:
            assert callback.latest is not None
            assert 0 <= callback.latest <= 1


@pytest.mark.parametrize("precision", ["64-true", "bf16-mixed"])
def test_other_precisions(precision: str) -> None:
    """Everything that is stored, loaded or computed follows the Trainer's precision."""
    run(fast("Tent"), all_that_watch(), precision=precision, limit_test_batches=5)


@pytest.mark.parametrize("name", ["all that watch", *RESETS])
def test_a_run_continues_from_a_state(name: str) -> None:
    """With the same bits, from a file that is loaded with weights_only."""
    make = RESETS.get(name, all_that_watch)
    whole = run(fast("Tent"), make()) if name in RESETS else outcome(watched=True)[1]
    method, attached = fast("Tent"), make()
    begun = run(method, attached, limit_test_batches=2)
    again, fresh = fast("Tent"), make()
    again.load_state_dict(through_a_file(method.state_dict()))
    for old, new in zip(attached, fresh, strict=True):
        new.load_state_dict(through_a_file(old.state_dict()))
    rest = run(again, fresh, start=2 * BATCH)
    assert flat([*begun[0], *rest[0]]) == flat(whole[0])
    assert flat([*begun[1], *rest[1]]) == flat(whole[1])
    assert flat(rest[2]) == flat(whole[2])


def test_every_callback_has_a_row() -> None:
    bases = {"Alarming", "DriftReset", "PeriodicObserver", "Reset", "Restore"}
    known = {
        name
        for name, kind in vars(cb).items()
        if inspect.isclass(kind)
        and issubclass(kind, (cb.Observer, cb.Recovery))
        and not inspect.isabstract(kind)
    }
    made = [callback for make in (WATCHING | RESETS).values() for callback in make()]
    rows = {type(callback).__name__ for callback in made if type(callback).__name__ in vars(cb)}
    assert known - bases - {"Observer", "Recovery"} == rows | {"AETTA"}


def test_a_compiled_network_is_watched_like_another() -> None:
    net, images, found = tiny_net(), torch.rand(2, 6, 3, 8, 8), []
    for compiled in (False, True):
        watch = cb.Watch(Tent(net), [cb.AETTA(passes=2, layers=["2", "5"]), cb.GDE()])
        if compiled:
            watch.method.backbone.compile(backend="eager")
        found.append(
            [(watch.step(batch), [e.latest for e in watch.estimators]) for batch in images]
        )
    assert flat(found[0]) == flat(found[1])
