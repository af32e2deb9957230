"""The leaderboard on a tiny track: what is added, what a check finds, and tiers; the committed entries."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from common import DATA, model

from holdfast import HoldfastError
from holdfast.benchmarks.leaderboard import check as checks
from holdfast.benchmarks.leaderboard.check import Replay, Window, compare, detection, windows
from holdfast.benchmarks.leaderboard.entry import (
    Entry,
    check_configuration,
    check_form,
    entry_of,
    read_entry,
)
from holdfast.benchmarks.leaderboard.page import PAGE, read_entries, rows, text
from holdfast.benchmarks.leaderboard.tiers import pairs
from holdfast.benchmarks.leaderboard.track import Track
from holdfast.benchmarks.results.runs import Run, find
from holdfast.benchmarks.suites.grid import cells, merged, read_suite
from holdfast.benchmarks.test import run as start
from holdfast.files import read_json, write_json

SEEDS = [1, 2]
CLEAN = "0" * 40  # a commit
RATE = {"class_path": "torch.optim.SGD", "init_args": {"lr": 0.05, "momentum": 0.9}}


@pytest.fixture(scope="module")
def track(tmp_path_factory: pytest.TempPathFactory) -> Track:
    """Source and Tent on 12 batches of digits with two seeds, finished."""
    folder = tmp_path_factory.mktemp("track")
    tiny = {
        "out": str(folder / "runs"),
        "common": {"threads": 1, "progress": False, "trainer": {"accelerator": "cpu"}},
        "streams": {"ccc": DATA},
        "methods": {"Source": model("Source"), "Tent": model("Tent", optimizer=RATE)},
        "seeds": SEEDS,
    }
    path = folder / "tiny.yaml"
    path.write_text(yaml.safe_dump({"scales": {"tiny": tiny}}))
    for cell in cells(read_suite(path, "tiny")):
        run_cell(cell.folder, cell.names, cell.config)
    return Track("tiny", str(path), folder / "entries")


def run_cell(folder: Path, names: dict[str, Any], config: dict[str, Any]) -> Path:
    """A finished run in a suite's folder; the tests' own commit may have changed code."""
    folder.mkdir(parents=True)
    write_json(folder / "cell.json", {"names": names, "factors": {}, "config": config})
    start(merged(config, {"out": str(folder)}))
    change(folder / "provenance.json", lambda facts: facts["ran_on"][0].update(commit=CLEAN))
    return folder


def change(path: Path, function: Callable[[dict[str, Any]], object]) -> None:
    content = read_json(path)
    function(content)
    write_json(path, content)


def runs_of(track: Track, method: str) -> list[Run]:
    folder = next(iter(track.cells(method).values())).folder.parents[1]
    return [run for run in find(folder) if run.method == method]


@pytest.fixture(scope="module")
def tent(track: Track) -> Entry:
    return entry_of(runs_of(track, "Tent"), track)


def test_an_entry_has_what_its_runs_have(track, tent, tmp_path):
    entry = read_entry(tent.write(tmp_path))
    check_form(entry, track)
    check_configuration(entry, track)
    assert entry == tent
    assert entry.configuration["model"]["init_args"]["optimizer"] == RATE
    for run, result in zip(runs_of(track, "Tent"), entry.runs, strict=True):
        assert result.key == (run.stream, run.seed)
        assert result.accuracies == pytest.approx(run.column("accuracy"), abs=1e-6)
        assert result.accuracy == pytest.approx(run.accuracy)
        assert result.last_eighth == pytest.approx(run.accuracy_last_eighth)
        assert result.commits == [CLEAN]


def ran_on(**facts: Any) -> Callable[[dict[str, Any]], object]:
    return lambda provenance: provenance["ran_on"][0].update(**facts)


OTHER_STREAM = merged(DATA, {"init_args": {"difficulty": 60}})
OTHER_RATE = merged(RATE, {"init_args": {"lr": 0.01}})


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"summary.json": None}, "is unfinished on ccc, seed 1"),
        ({"provenance.json": ran_on(commit=f"{CLEAN}-dirty")}, "code that is not committed"),
        ({"provenance.json": ran_on(commit=None)}, "an installation without a commit"),
        (
            {"cell.json": lambda cell: cell["config"].update(data=OTHER_STREAM)},
            "data.difficulty 60.*streams differ",
        ),
        (
            {
                "cell.json": lambda cell: cell["names"].update(seed=3),
                "provenance.json": lambda facts: facts.update(seed=3),
            },
            "another stream .ccc, seed 3",
        ),
        (
            {"cell.json": lambda c: c["config"]["model"]["init_args"].update(optimizer=OTHER_RATE)},
            r"model.optimizer.lr 0.01, but .* 0.05. It was tuned by another rule",
        ),
    ],
)
def test_refused(changes, reason, track, tmp_path):
    """By what is wrong in the first of two runs."""
    for run in runs_of(track, "Tent"):
        shutil.copytree(run.folder, tmp_path / str(run.seed))
    for name, function in changes.items():
        path = tmp_path / str(SEEDS[0]) / name
        change(path, function) if function else path.unlink()
    with pytest.raises(HoldfastError, match=reason):
        entry_of(find(tmp_path), track)


def test_a_method_that_the_track_lacks(track, tmp_path):
    with pytest.raises(HoldfastError, match=r"has no method Mine\. Add it to"):
        track.cells("Mine")


def test_an_honest_entry_passes(track, tent):
    replayer = lambda entry, window: checks.replay(entry, window, track)  # noqa: E731
    sentences = [*checks.check(tent, 1.0, np.random.default_rng(0), replayer)]
    assert len(sentences) == len(SEEDS)
    assert all(sentence.endswith("from the start: equal") for sentence in sentences)


def forged(entry: Entry, **counts: str) -> Entry:
    """The entry with other right answers in its first run."""
    first = entry.runs[0].model_copy(update=counts)
    return entry.model_copy(update={"runs": [first, *entry.runs[1:]]})


def more_right(entry: Entry, batch: int) -> Entry:
    counts = entry.runs[0].counts
    counts[batch] += 1 if counts[batch] < entry.runs[0].sizes[batch] else -1
    return forged(entry, correct=" ".join(map(str, counts)))


def test_one_answer_more_is_found(track, tent):
    wrong = more_right(tent, 5)
    before = checks.replay(wrong, Window(wrong.runs[0], 0, 5), track)
    compare(wrong, wrong.runs[0], before)
    after = checks.replay(wrong, Window(wrong.runs[0], 4, 6), track)
    with pytest.raises(HoldfastError, match="right answers in batch 5, but the replay has"):
        compare(wrong, wrong.runs[0], after)


def test_another_rate_or_stream_is_found(track, tent, tmp_path):
    """Numbers of a run with another rate, or of another seed."""
    cell = track.cells("Tent")["ccc", 1]
    rate = {"model": {"init_args": {"optimizer": {"init_args": {"lr": 0.5}}}}}
    folder = run_cell(tmp_path / "run", cell.names, merged(cell.config, rate))
    fast = Run.load(folder).column("accuracy") * tent.runs[0].sizes
    whole = Window(tent.runs[0], 0, len(fast))
    replayed = checks.replay(tent, whole, track)
    for correct in (fast.round().astype(int), tent.runs[1].counts):
        wrong = forged(tent, correct=" ".join(map(str, correct)))
        with pytest.raises(HoldfastError, match="but the replay has"):
            compare(wrong, wrong.runs[0], replayed)
    with pytest.raises(HoldfastError, match="states stream_id x, but the track gives"):
        checks.replay(tent, Window(forged(tent, stream_id="x").runs[0], 0, 1), track)


def test_a_shortened_entry_is_found(track, tent, tmp_path):
    """Without the end of a stream, where accuracy may be low."""
    size = tent.runs[0].batch_size
    shorter = " ".join(map(str, tent.runs[0].counts[:4]))
    short = forged(tent, correct=shorter, images=4 * size)
    with pytest.raises(HoldfastError, match=f"states images {4 * size}, but the track gives"):
        checks.replay(short, Window(short.runs[0], 0, 2), track)
    folder = Track("tiny", track.suite, tmp_path)
    short.write(folder.folder)
    entry_of(runs_of(track, "Source"), track).write(folder.folder)
    with pytest.raises(HoldfastError, match="but other entries have"):
        read_entries(folder)


def test_elsewhere_small_differences_pass(tent):
    """In another environment a batch may differ a little, and the mean less."""
    result = tent.runs[0]
    noise = np.resize([1, -1], len(result.counts))
    compare(tent, result, Replay(0, result.counts + noise, exact=False))
    with pytest.raises(HoldfastError, match="batch 0"):
        compare(tent, result, Replay(0, result.counts + noise, exact=True))
    with pytest.raises(HoldfastError, match="points from the replay over the batches 0 to 11"):
        compare(tent, result, Replay(0, result.counts - 1, exact=False))


def long_entry(batches: int, runs: int) -> Entry:
    """An entry whose numbers no run has."""
    environment = {"device": "d", "processor": "p", "threads": 1, "versions": {}}
    result = {"stream": "s", "stream_id": "i", "images": 10 * batches, "batch_size": 10}
    result |= {"lasting": 5, "step_ms": 1.0, "commits": [CLEAN], "environments": [environment]}
    result |= {"correct": " ".join(["5"] * batches)}
    facts = {"track": "t", "method": "M", "backbone": "b", "weights": "w", "version": "0"}
    results = [result | {"seed": seed} for seed in range(runs)]
    return Entry.model_validate({**facts, "configuration": {}, "runs": results})


@pytest.mark.parametrize(("share", "changed", "first"), [(0.01, 6, 64), (0.1, 1, 0), (0.3, 2, 100)])
def test_the_stated_probability_is_the_measured_one(share, changed, first):
    entry, random, draws = long_entry(128, 6), np.random.default_rng(0), 3000
    hits = sum(
        any(w.result.seed < changed and w.last > first for w in windows(entry, share, random))
        for _ in range(draws)
    )
    stated = detection(entry, share, changed, first)
    assert hits / draws == pytest.approx(stated, abs=4 * np.sqrt(stated * (1 - stated) / draws))


def test_the_share_is_drawn():
    entry, random = long_entry(128, 6), np.random.default_rng(0)
    for share in (0.001, 0.01, 0.2, 0.5, 1.0):
        drawn = [*windows(entry, share, random)]
        assert len({w.result.seed for w in drawn}) == len(drawn)
        assert sum(w.last - w.first for w in drawn) >= round(share * 6 * 128)
        assert all(0 <= w.first < w.last <= 128 for w in drawn)


def test_from_a_checkpoint(track, tent, tmp_path):
    """With the run's checkpoints a replay begins at the last one before the window."""
    cell = track.cells("Tent")["ccc", 1]
    config = merged(cell.config, {"save_every": 3, "keep_checkpoints": True})
    run = Run.load(run_cell(tmp_path / "run", cell.names, config))
    replayed = checks.replay(tent, Window(tent.runs[0], 7, 9), track, run)
    assert replayed.first == 6
    assert len(replayed.counts) == 3
    compare(tent, tent.runs[0], replayed)
    wrong = more_right(tent, 8)
    with pytest.raises(HoldfastError, match="batch 8"):
        compare(wrong, wrong.runs[0], replayed)


def test_tiers(track, tent):
    """A method that is better in all batches is a tier above; equal ones share a tier."""
    source = entry_of(runs_of(track, "Source"), track)
    entries = {"Source": source, "Tent": tent, "Twin": tent.model_copy(update={"method": "Twin"})}
    best = [run.model_copy(update={"correct": "16 " * 11 + "11"}) for run in tent.runs]
    entries["Best"] = tent.model_copy(update={"runs": best})
    ((stream, table),) = rows(entries).items()
    assert stream == "ccc"
    tiers = {row["method"]: row["tier"] for row in table}
    assert tiers["Best"] == 1
    assert tiers["Tent"] == tiers["Twin"] > 1
    assert table[0]["accuracy"] == table[0]["worst_seed"] == 1
    assert {row["method"]: row["collapsed"] for row in table}["Best"] == "0 of 2"
    twins = pairs({name: entries[name].runs for name in ("Tent", "Twin")})
    assert not twins[0].distinct
    assert twins[0].difference.mean == 0


def test_score_under_a_deadline():
    """At 1.5 times Source's time; half of the accuracy if a step takes 2.5 times as long as that."""
    entry = long_entry(16, 2)

    def timed(ready: float, step: float, **changes: Any) -> Entry:
        update = {"ready_ms": ready, "step_ms": step, **changes}
        return entry.model_copy(update={"runs": [r.model_copy(update=update) for r in entry.runs]})

    entries = {"Source": timed(10, 10), "fast": timed(15, 15), "slow": timed(37.5, 37.5)}
    entries |= {"late update": timed(15, 37.5), "elsewhere": timed(15, 15, environments=[])}
    entries["untimed"] = entry
    ((_, table),) = rows(entries).items()
    scores = {row["method"]: row["deadline_utility"] for row in table}
    assert scores["Source"] == scores["fast"] == pytest.approx(0.5)
    assert scores["slow"] == pytest.approx(0.25)
    # The first batch is in time; each later one waits for 22.5 ms, for which a prediction counts half.
    assert scores["late update"] == pytest.approx(0.5 * (1 + 15 / 2) / 16)
    assert scores["elsewhere"] is scores["untimed"] is None


def test_a_damaged_entry_is_a_sentence(track, tent, tmp_path):
    path = tent.write(tmp_path)
    content = json.loads(path.read_text())
    content["runs"][0]["correct"] = "12 x"
    write_json(path, content)
    with pytest.raises(HoldfastError, match="runs/0/correct String should match"):
        read_entry(path)
    too_many = forged(tent, correct=" ".join(["17"] * 12))
    with pytest.raises(HoldfastError, match="impossible numbers"):
        check_form(too_many, track)
    missing = tent.model_copy(update={"runs": tent.runs[:1]})
    with pytest.raises(HoldfastError, match="Add an entry with each of them once"):
        check_form(missing, track)


def test_committed_entries():
    """Their forms are those of the track, the page has them, and one window of one is repeated."""
    track = Track()
    entries = read_entries(track)
    for entry in entries.values():
        check_configuration(entry, track)
    assert {"Source", "BNAdapt", "Tent"} <= entries.keys()
    page = PAGE.read_text(encoding="utf-8")
    for part in text(track, "markdown"):
        assert part in page
    entry = entries["Tent"]
    window = Window(entry.runs[0], 0, 10)
    compare(entry, entry.runs[0], checks.replay(entry, window, track))
