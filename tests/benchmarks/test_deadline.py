"""Scores under a deadline: TEMPORA's three utilities, the times in records, and recovery times."""

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from common import GOLDEN, plain_trainer, without_times
from lightning.pytorch import Callback
from made_up import made_up, put

from holdfast import HoldfastError
from holdfast.benchmarks.cli import main
from holdfast.benchmarks.papers.field.deadline import under_a_clock
from holdfast.benchmarks.results.deadline import Limit, continuous, discrete
from holdfast.benchmarks.results.recovery_time import recovery_time
from holdfast.benchmarks.results.runs import collect
from holdfast.benchmarks.results.tables import run_row
from holdfast.callbacks import OverheadBudget, PeriodicReset, RunRecord, StreamCheckpoint, newest
from holdfast.datamodules import Corrupted, Deadline, Digits
from holdfast.datamodules.deadline import Pipeline
from holdfast.methods import LAME, BNAdapt, CoTTA, Source, Tent
from holdfast.run_folder import read_rows

STREAMS = json.loads((GOLDEN / "deadline" / "tempora.json").read_text())
BATCH = 16


@pytest.mark.parametrize("stream", STREAMS)
def test_utilities_are_those_of_the_official_code(stream):
    """To the last digit; times of starts are rounded in the golden file."""
    accuracy = np.array(stream["correct"]) / stream["batches"]
    ready, rest = np.array(stream["prediction_ms"]), np.array(stream["adaptation_ms"])
    wanted = stream["continuous"]
    limits = wanted["response_budget_ms"], wanted["decay_threshold_ms"]
    scores = continuous(accuracy, ready, rest, *limits)
    assert scores._asdict() == {name: wanted[name] for name in scores._fields}
    for wanted in stream["discrete"]:
        pipeline = Pipeline(wanted["interval_ms"], wanted["queue"], len(ready))
        starts, correct = [], 0
        while (number := pipeline.begin()) is not None:
            starts.append(pipeline.started)
            correct += stream["correct"][number]
            pipeline.finish(ready[number] + rest[number])
        assert starts == pytest.approx(wanted["starts_ms"], abs=1e-9)
        utility, availability = discrete(correct, BATCH * len(starts), BATCH * len(ready))
        assert (utility, availability) == (wanted["utility"], wanted["availability"])
        assert correct / (BATCH * len(starts)) == wanted["served"]
    wanted = stream["amortised"]
    budget = OverheadBudget(wanted["overhead_budget_ms"], wanted["response_budget_ms"])
    steps = 0
    for seconds in ready + rest:
        steps += not budget.frozen
        budget.spend(seconds)
    assert steps == wanted["batches_before_freezing"]


def test_what_waits_precedes_what_arrives_as_a_step_ends():
    """With a queue of one; a step takes two intervals, so every second batch is dropped."""
    pipeline, starts = Pipeline(1.0, 1, 7), []
    while (number := pipeline.begin()) is not None:
        starts.append((number, pipeline.started))
        pipeline.finish(2.0)
    assert starts == [(0, 0), (1, 2), (3, 4), (5, 6), (6, 8)]


def stream(images: int = 12 * BATCH, **options: Any) -> Corrupted:
    settings: dict[str, Any] = {"each": 4 * BATCH, "batch_size": BATCH, "num_workers": 0}
    settings["epochs"] = images / (8 * BATCH)
    return Corrupted(Digits(), ["fog", "contrast"], [3], **settings | options)


@pytest.mark.parametrize("kind", [Source, BNAdapt, Tent, LAME, CoTTA])
def test_logits_are_ready_before_the_update_ends(kind, tmp_path):
    """A method that adapts has its logits before; one that computes them last has them at the end."""
    kwargs = {"views": 1} if kind is CoTTA else {}
    trainer = plain_trainer(callbacks=[RunRecord(tmp_path / "run")])
    trainer.test(kind("digits", **kwargs), stream(), verbose=False)
    rows = read_rows(tmp_path / "run")
    assert len(rows) == 12
    for row in rows:
        assert 0 < row["logits_ready"] <= row["update_ended"] < row["seconds"] + 1
    ready, ended = (sum(row[name] for row in rows) for name in ("logits_ready", "update_ended"))
    if kind is Tent:
        assert ready < ended
    if kind is LAME:
        assert ready == ended


def test_dropped_batches_are_neither_seen_nor_adapted_to(tmp_path):
    """With a step of two intervals every other batch is processed, and the rest are those of the stream."""
    data = Deadline(stream(), interval=1, times=2)
    assert data.images == 6 * BATCH
    batches = list(data.test_dataloader())
    rows = torch.cat([torch.arange(n, n + BATCH) for n in range(0, 12 * BATCH, 2 * BATCH)])
    whole = stream().batch(rows)
    assert torch.equal(torch.cat([batch.images for batch in batches]), whole.images)
    assert torch.equal(torch.cat([batch.segment for batch in batches]), whole.segment)
    assert data.order == "i.i.d. labels, a batch each 1 (times 2)"
    trainer = plain_trainer(callbacks=[RunRecord(tmp_path)])
    (scores,) = trainer.test(Tent("digits"), data, verbose=False)
    (result,) = collect(tmp_path)
    row = run_row(result)
    assert row["availability"] == 0.5
    # Dropped images count as wrong.
    assert row["discrete_utility"] == pytest.approx(scores["accuracy_per_image"] / 2, abs=1e-6)
    assert result.images == 6 * BATCH
    corruptions = [row["corruptions"][0][0] for row in result.rows]
    assert corruptions == ["fog", "fog", "contrast", "contrast", "fog", "fog"]


@pytest.mark.parametrize(
    ("images", "times", "queue", "processed"),
    [
        (12 * BATCH - 5, 2.5, 0, [0, 3, 6, 9]),
        (12 * BATCH - 5, 1.3, 1, [0, 1, 2, 3, 5, 6, 7, 9, 10, 11]),
        (5 * BATCH - 5, [3.0, 0.5], 1, [0, 2, 4]),
    ],
)
def test_the_batches_that_are_processed(images, times, queue, processed):
    data = Deadline(stream(images), 1, queue, times)
    firsts = data.positions(torch.arange(0, data.images or 0, BATCH)) // BATCH
    pipeline, expected = Pipeline(1, queue, -(-images // BATCH)), []
    while (number := pipeline.begin()) is not None:
        expected.append(number)
        pipeline.finish(times if isinstance(times, float) else times[number % 2])
    assert firsts.tolist() == expected == processed
    assert sum(len(b.labels) for b in data.test_dataloader()) == data.images
    endless = Deadline(stream(epochs=None), 1, queue, times)
    assert endless.positions(torch.tensor([0])).tolist() == [0]


class CutOff(Exception):
    """Ends a run before its end."""


class Cut(Callback):
    def on_test_batch_start(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        if pl_module.step_count == 5:
            raise CutOff


def attempt(folder: Path, times: Any, *more: Callback, resume: bool = False) -> list[Any]:
    """The rows of a run of Tent under a deadline and a budget, which resets after three steps."""
    torch.manual_seed(1)
    budget = OverheadBudget(4.5, 1.0, None if times is None else 2.0)
    attached = [budget, PeriodicReset(3), *more]
    attached += [RunRecord(folder), StreamCheckpoint(folder / "checkpoints", every=2)]
    trainer = plain_trainer(callbacks=attached)
    data = Deadline(stream(), 1.0 if times else 1e-6, 1, times)
    path = newest(folder / "checkpoints") if resume else None
    trainer.test(Tent("digits"), data, ckpt_path=path, verbose=False)
    return without_times(folder)


def test_given_times_repeat_and_resume(tmp_path):
    """A run that is cut off and resumed has the rows of one that is not; the budget lasts five steps."""
    times = [2.0, 0.5, 1.5]
    whole = attempt(tmp_path / "whole", times)
    assert attempt(tmp_path / "again", times) == whole
    with pytest.raises(CutOff):
        attempt(tmp_path / "cut", times, Cut())
    assert attempt(tmp_path / "cut", times, resume=True) == whole
    frozen = [row["OverheadBudget_frozen"] for row in whole]
    assert frozen == [0.0] * 5 + [1.0] * (len(whole) - 5)
    assert whole[-1]["OverheadBudget_spent"] == 5.0
    # The reset before the seventh step is left out.
    assert [row["step"] for row in whole if row["reset"]] == [3]


@pytest.mark.filterwarnings("ignore:.*continues from the end")
def test_a_frozen_method_predicts_as_it_is():
    """With no budget Tent never changes, and predicts as BNAdapt; its next run adapts."""
    budget, method = OverheadBudget(0.0, 1.0, 2.0), Tent("digits")
    (first,) = plain_trainer(callbacks=[budget]).test(method, stream(), verbose=False)
    (second,) = plain_trainer().test(BNAdapt("digits"), stream(), verbose=False)
    assert first == second
    assert method.never_updated
    plain_trainer().test(method, stream(), verbose=False)
    assert not method.never_updated


def test_measured_times_drop_batches_and_resume(tmp_path):
    """An interval far below the time of a step leaves the first batch and the one that waits last."""
    rows = attempt(tmp_path / "whole", None)
    assert len(rows) == 2
    data = Deadline(stream(), 1e6)
    (scores,) = plain_trainer().test(Tent("digits"), data, verbose=False)
    (whole,) = plain_trainer().test(Tent("digits"), stream(), verbose=False)
    assert scores == whole
    assert [int(batch.index[0]) for batch in Deadline(stream(), 1e-9).test_dataloader()] == [0]


def test_a_measured_run_continues_with_its_queue():
    data = Deadline(stream(), 1e-9, 2)
    batches = iter(data.test_dataloader())
    data.passed(next(batches))
    state = data.state_dict()
    assert list(state["pipeline"]["waiting"]) == []
    following = Deadline(stream(), 1e-9, 2)
    following.load_state_dict(state)
    firsts = [int(b.index[0]) // BATCH for b in following.test_dataloader()]
    assert firsts == [int(b.index[0]) // BATCH for b in batches] == [10, 11]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Deadline(stream(), 0.0, -1), "queue"),
        (lambda: Deadline(stream(), 1.0, times=[]), "times is empty"),
        (lambda: Deadline(stream(), 1.0, times=2.0, start=3), "within a batch"),
        (lambda: Deadline(stream(epochs=None), 1.0), "needs a stream that ends"),
        (lambda: OverheadBudget(1.0, times=2.0), "response"),
        (lambda: OverheadBudget(1.0, times=[]), "times is empty"),
        (lambda: Limit.parse("fast"), "multiple of the source"),
        (lambda: Limit.parse("-1"), "multiple of the source"),
    ],
)
def test_what_is_refused(make, sentence):
    with pytest.raises(HoldfastError, match=sentence):
        make()


def test_limits():
    assert Limit.parse("50ms") == (0.05, True)
    assert Limit.parse("0.1s") == (0.1, True)
    assert Limit.parse("1.5") == (1.5, False)


# ---- reports ----------------------------------------------------------------------------------------


def times(ready: float, ended: float, count: int) -> list[dict[str, float]]:
    return [{"logits_ready": ready, "update_ended": ended}] * count


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Source in 10 ms; Tent has its logits as soon and takes 15 ms more; RDumb's records have no times."""
    made_up(tmp_path, "Source", [0.3, 0.5] * 20, columns=times(0.01, 0.01, 40))
    made_up(tmp_path, "Tent", [0.5, 0.7] * 20, columns=times(0.01, 0.025, 40))
    made_up(tmp_path, "RDumb", [0.6, 0.6] * 20)
    return tmp_path


def test_the_report_scores_late_predictions(runs, capsys):
    main(["report", str(runs), "--deadline", "1", "--json"])
    report = json.loads(capsys.readouterr().out)
    by_method = {row["method"]: row for row in report["runs"]}
    assert by_method["Source"]["deadline_utility"] == pytest.approx(0.4)
    assert by_method["Source"]["deadline_timeliness"] == 1
    assert by_method["RDumb"]["deadline_utility"] is None
    # All batches but the first are 15 ms late, which at a threshold of 25 ms are worth half.
    row = by_method["Tent"]
    discounts = np.r_[1.0, np.full(39, 0.5)]
    covariance = np.cov([0.5, 0.7] * 20, discounts)[0, 1]
    assert row["deadline_timeliness"] == pytest.approx(discounts.mean())
    assert row["deadline_alignment"] == pytest.approx(covariance)
    assert row["deadline_utility"] == pytest.approx(0.6 * discounts.mean() + covariance)
    curve = {r["rho"]: r["utility"] for r in report["deadline_curve"] if r["method"] == "Tent"}
    assert curve[1.0] == pytest.approx(row["deadline_utility"])
    assert list(curve.values()) == sorted(curve.values())
    assert curve[2.8] == pytest.approx(0.6)
    main(["report", str(runs), "--deadline", "10ms", "--json"])
    absolute = json.loads(capsys.readouterr().out)
    assert absolute["summary"] == report["summary"]
    main(["report", str(runs), "--json"])
    assert json.loads(capsys.readouterr().out)["runs"][0]["deadline_utility"] is None


def test_the_report_as_text(runs, capsys):
    main(["report", str(runs), "--deadline", "1"])
    printed = capsys.readouterr().out
    assert "deadline utility" in printed
    assert "deadline timeliness" in printed
    assert "deadline alignment" in printed
    assert f"utility over response times: {runs / 'deadline.png'}" in printed
    assert (runs / "deadline.png").stat().st_size > 1000
    main(["report", str(runs), "--runs"])
    assert "deadline" not in capsys.readouterr().out


def test_recovery_times(tmp_path, capsys):
    """Ten batches of ten images of each corruption; three and one batches below the level of the others."""
    fast, slow = [0.5] + [0.8] * 9, [0.5] * 3 + [0.8] * 7
    made_up(tmp_path, "Tent", [0.8] * 10 + slow + fast + fast)
    (result,) = collect(tmp_path)
    assert recovery_time(result) == (10.0, 30)
    assert run_row(result)["recovery_images_worst"] == 30
    main(["report", str(tmp_path), "--columns", "method", "recovery_images"])
    assert "10, at most 30" in capsys.readouterr().out


def test_no_recovery_time(tmp_path):
    """Of the first corruption alone; and a corruption that never gets back counts as a whole."""
    made_up(tmp_path / "a", "Tent", [0.5] * 10)
    made_up(tmp_path / "b", "Tent", [0.5] * 10 + [0.4] * 5 + [1.0, 0.0, 0.0, 0.0, 1.0])
    (first,), (second,) = collect(tmp_path / "a"), collect(tmp_path / "b")
    assert recovery_time(first) is None
    assert recovery_time(second) == (0.0, 0)


def test_the_table_of_methods_under_a_clock(tmp_path):
    """CMF is best without a clock; at the source model's pace it classifies a fifth of the images."""
    shares: dict[str, dict[Any, float]] = {
        "Source": {"offline": 1},
        "BNAdapt": {"offline": 1, 2: 1, 1: 0.9},
    }
    shares |= {"CMF": {"offline": 1, 2: 0.4, 1: 0.2}, "Tent": {"offline": 1, 2: 0.7, 1: 0.35}}
    level = {"Source": 0.2, "BNAdapt": 0.4, "CMF": 0.5, "Tent": 0.3}
    for (method, paces), seed in product(shares.items(), (1, 2, 3)):
        for pace, share in paces.items():
            names = {"method": method, "override": str(pace), "stream": "s", "setting": "s"}
            folder = tmp_path / f"{method}-{pace}-{seed}"
            wrapper = {"wrapper": "Deadline", "arriving": round(200 / share)}
            accuracy = [level[method] + 0.01 * seed] * 20
            put(folder, names | {"seed": seed}, {}, accuracy, facts={"wrappers": [wrapper]})
            cell = json.loads((folder / "cell.json").read_text())
            (folder / "cell.json").write_text(json.dumps(cell | {"factors": {"pace": pace}}))
    table = under_a_clock(collect(tmp_path))
    assert table.mean("utility, %", "CMF", "1") == pytest.approx(52 * 0.2)
    assert table.mean("utility, %", "Source", "1") == pytest.approx(22)
    ranks = {x: table.mean("rank", "CMF", x) for x in ("offline", "2", "1")}
    assert ranks == {"offline": 1, "2": 4, "1": 4}
    assert "over 4 methods with offline at interval 1" in table.notes[1]
    (part,) = under_a_clock.claim_of("ranks-flip").parts(table)
    assert part.name == "BNAdapt - CMF"
    assert part.number.mean == pytest.approx(42 * 0.9 - 52 * 0.2, abs=0.2)
