"""Reports on made-up runs with known answers: means, what is missing, intervals, order, pictures."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from common import plain_trainer
from made_up import made_up
from matplotlib.image import imread
from scipy import stats

from holdfast.benchmarks.cli import main
from holdfast.benchmarks.results import report
from holdfast.benchmarks.results.batch_means import mean_curve
from holdfast.benchmarks.results.collapse import gap, has_collapsed, stays_below
from holdfast.benchmarks.results.figure import draw
from holdfast.benchmarks.results.groups import groups
from holdfast.benchmarks.results.run_statistics import paired
from holdfast.benchmarks.results.runs import collect, find, with_results
from holdfast.benchmarks.results.tables import details, load, matrix, means, records, runs_table
from holdfast.benchmarks.results.text_table import formatted, points
from holdfast.callbacks import RunRecord
from holdfast.datamodules import CCC, Digits
from holdfast.drawing import DPI, GREY, METHODS, TWO, method_of, styles
from holdfast.methods import BNAdapt, Source

ROWS = 80
RNG = np.random.default_rng(0)
KEYS = (  # which scripts outside the project read
    *("method", "stream", "seed", "accuracy", "accuracy_last_eighth", "collapsed", "below_source"),
    *("images", "images_per_second", "accuracy_per_image", "collapse_step", "resets", "folder"),
    *("images_used", "never_updated", "finished", "protocol", "names"),
)


@pytest.fixture(scope="module")
def nine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two settings of three runs each; Tent collapses in one, RDumb lacks a run there."""
    folder = tmp_path_factory.mktemp("nine")
    for setting, base in (("easy", 0.4), ("hard", 0.2)):
        for seed in (1, 2, 3):
            where: dict[str, Any] = {"stream": f"{setting} 128", "setting": setting, "seed": seed}
            level = base + 0.01 * seed
            end = 0.0 if setting == "hard" else level + 0.1
            made_up(folder, "Tent", [level + 0.055] * 40 + [end] * 40, seconds=1.5, **where)
            made_up(folder, "Source", [level] * ROWS, **where)
            made_up(folder, "BNAdapt", [level + 0.1] * ROWS, **where)
            gone = setting == "hard" and seed == 3
            rdumb = None if gone else [level + 0.15 + 0.01 * seed] * ROWS
            made_up(folder, "RDumb", rdumb, resets=(20, 40, 60), **where)
    return folder


def test_means_over_runs(nine):
    found = {(row["setting"], row["method"]): row for row in rows_of(nine)}
    tent = found["hard", "Tent"]
    levels = [(0.2 + s / 100 + 0.055) / 2 for s in (1, 2, 3)]
    assert tent["accuracy"] == pytest.approx(np.mean(levels))
    assert tent["sd"] == pytest.approx(np.std(levels, ddof=1))
    assert (tent["collapsed"], tent["compared"], tent["below_source"]) == (3, 3, True)
    # The mean over 20 batches is 2 points below the source model's with the sixth of accuracy 0.
    assert tent["first_collapse_step"] == 45
    easy = found["easy", "Tent"]
    assert easy["collapsed"] == 0
    assert easy["time_in_sources"] == pytest.approx(1.5)
    rdumb = found["easy", "RDumb"]
    gains = [0.15 + s / 100 for s in (1, 2, 3)]
    interval = stats.ttest_1samp(gains, 0).confidence_interval(0.95)
    names = [f"gain_over_source{end}" for end in ("", "_low", "_high")]
    expected = (np.mean(gains), interval.low, interval.high)
    assert [rdumb[name] for name in names] == pytest.approx(expected)
    assert rdumb["gain_over_bnadapt"] == pytest.approx(np.mean(gains) - 0.1)
    assert found["easy", "BNAdapt"]["gain_over_bnadapt"] is None
    assert found["easy", "Source"]["gain_over_source"] is None


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """The means of the runs in a folder, in the order of the table."""
    runs = find(folder)
    with_results(runs)
    return records(means(groups(runs)))


def test_runs_are_a_data_frame(nine):
    found = load(nine).groupby(["setting", "method"])["accuracy"].mean()
    expected = {(row["setting"], row["method"]): row["accuracy"] for row in rows_of(nine)}
    assert found.to_dict() == pytest.approx(expected)


def test_missing_runs_are_marked(nine, capsys):
    assert main(["report", str(nine)]) == 0
    text = capsys.readouterr().out
    lines = text.splitlines()
    assert lines[0].split() == ["method", "easy", "hard", "Average"]
    assert [line.split()[0] for line in lines[1:5]] == ["Source", "BNAdapt", "RDumb", "Tent"]
    assert "38.0 ± 1.4 (2 of 3)" in lines[3]
    assert lines[3].endswith("(runs missing)")
    assert "14.0 ± 1.0" not in lines[4]
    assert "↓" in lines[4]
    assert "missing: hard 128, seed 3, RDumb" in text
    assert "3 of 3, step 45" in text
    row = "| RDumb | 59.0 ± 2.0 | 38.0 ± 1.4 (2 of 3) | 48.5 (runs missing) |"
    assert row in formatted(matrix(means(groups(find(nine)))), "markdown")


def test_json_and_csv(nine, capsys):
    assert main(["report", str(nine), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    first = facts["summary"][0]
    assert (first["setting"], first["method"], first["runs"]) == ("easy", "Source", 3)
    assert len(facts["runs"]) == 23
    assert facts.keys() == {"runs", "failed", "summary"}
    assert set(KEYS) <= facts["runs"][0].keys()
    assert {"sd", "gain_over_source_low", "time_in_sources", "protocol"} <= first.keys()
    assert [run["method"] for run in facts["runs"][:4]] == ["Source", "BNAdapt", "RDumb", "Tent"]
    for words, rows in (([], facts["summary"]), (["--runs"], facts["runs"])):
        assert main(["report", str(nine), "--format", "csv", *words]) == 0
        found = pd.read_csv(StringIO(capsys.readouterr().out))
        assert found["accuracy"].tolist() == pytest.approx([row["accuracy"] for row in rows])


def test_columns_and_pairs(nine, capsys):
    columns = ["--columns", "method", "accuracy", "gain_over_source"]
    assert main(["report", str(nine), "--format", "latex", *columns]) == 0
    lines = capsys.readouterr().out.splitlines()
    caption, label = lines[1:3]
    assert caption.startswith(r"\caption{protocol: continual; images as given; accuracy")
    assert label == rf"\label{{tab:{nine.name}}}"
    assert r"method & accuracy & over Source [95 \%] \\" in lines
    assert r"Tent & 13.8 $\pm$ 0.5 $\downarrow$ & -8.3 [-9.5, -7.0] \\" in lines
    assert sum(r"\textbf{" in line for line in lines) == 2  # the best of each setting
    assert main(["report", str(nine), "--format", "csv", "--columns", "method", "sd"]) == 0
    assert capsys.readouterr().out.startswith("method,sd\nSource,")
    for wrong in (["--columns", "speed"], ["--json", *columns], ["--pairs", *columns]):
        assert main(["report", str(nine), *wrong]) == 2
    assert main(["report", str(nine), "--pairs", "--format", "json"]) == 0


def test_methods_that_are_not_distinguishable(tmp_path, capsys):
    """By run, or by batch where there is one; the seeds' accuracies differ more than the methods'."""
    noise = RNG.normal(0, 0.02, (3, 80))
    for seed, level in ((1, 0.2), (2, 0.5), (3, 0.8)):
        where: dict[str, Any] = {"stream": f"s{seed}", "setting": "s", "seed": seed}
        for name, gain in (
            ("Tent", 0.0),
            ("RDumb", 0.05 + 0.01 * seed),
            ("ETA", 0.01 * (seed - 2)),
        ):
            made_up(tmp_path, name, [level + gain] * 80, **where)
    for name, gain in (("Tent", noise[0]), ("RDumb", noise[1] + 0.05), ("ETA", noise[2])):
        made_up(tmp_path, name, list(0.5 + gain), setting="one", stream="one")
    assert main(["report", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "contains 0: ETA and Tent in one, ETA and Tent in s; --pairs" in said
    assert main(["report", str(tmp_path), "--pairs", "--format", "csv"]) == 0
    table = pd.read_csv(StringIO(capsys.readouterr().out)).set_index(["setting", "method", "other"])
    found = table.loc["s", "RDumb", "Tent"]
    interval = stats.ttest_1samp([0.06, 0.07, 0.08], 0).confidence_interval(0.95)
    expected = (0.07, interval.low, interval.high, 3)
    assert tuple(found) == pytest.approx(expected)
    batches = gap([noise[1] + 0.05 - noise[0]], 10)
    assert tuple(table.loc["one", "RDumb", "Tent"]) == pytest.approx(batches)


def test_digits_that_an_error_allows():
    shown = {0.19: "86", 0.04: "86", 0.03: "86.3", 0.003: "86.31", 1e-9: "86.31", None: "86.3"}
    assert {error: points(0.86312, error) for error in shown} == shown


def test_an_unfinished_run_is_in_no_mean(tmp_path, capsys):
    made_up(tmp_path, "Source", [0.5] * 40)
    made_up(tmp_path, "Tent", [0.9] * 8, finished=False)
    assert main(["report", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "Tent    - (0 of 1)" in text
    assert "s, seed 1, Tent (unfinished): 90.0 % after 80 images" in text
    table = runs_table(collect(tmp_path))
    assert table[["method", "accuracy", "finished"]].to_numpy().tolist() == [
        ["Source", "50.0%", "yes"],
        ["Tent", "90.0%", "no"],
    ]


def test_a_small_last_batch_is_said_where_it_counts(tmp_path, capsys):
    """Ten images and then one; and the same of 100 batches, where it makes less than a point."""
    for name, values in (("short", [1.0, 0.0]), ("long", [1.0] * 100 + [0.5])):
        last = {"images": 10 * len(values) - 9}
        made_up(tmp_path / name, "Tent", values, columns=[{}] * (len(values) - 1) + [last])
    assert main(["report", str(tmp_path / "short")]) == 0
    assert "50.0 % as the mean over batches, 90.9 % over images" in capsys.readouterr().out
    assert main(["report", str(tmp_path / "long")]) == 0
    assert "over images" not in capsys.readouterr().out


def test_runs_of_one_name_on_the_same_images_are_not_averaged(tmp_path):
    """Trained by hand with two learning rates, say, so without a suite's names."""
    for name, level in (("slow", 0.2), ("fast", 0.4)):
        made_up(tmp_path / name, "Tent", [level] * 20)
        (tmp_path / name / "s-seed1" / "Tent" / "cell.json").unlink()
        (tmp_path / name / "s-seed1" / "Tent").rename(tmp_path / name / "s-seed1" / name)
    found = [(row["method"], row["accuracy"]) for row in rows_of(tmp_path)]
    assert found == [("Tent (fast)", pytest.approx(0.4)), ("Tent (slow)", pytest.approx(0.2))]


def test_paired_differences():
    assert paired({1: 0.5}, {2: 0.4}) is None
    assert paired({1: 0.5, 2: 0.3}, {2: 0.1}) == (pytest.approx(0.2), None, None, 1)


def test_bands_end_at_0_and_100_percent():
    band = mean_curve([pd.Series([0.0, 1.0], [10, 20]), pd.Series([0.2, 0.8], [10, 20])])
    assert band["low"].tolist() == pytest.approx([0, 0.9 - 0.2 / 2**0.5])
    assert band["high"].tolist() == pytest.approx([0.1 + 0.2 / 2**0.5, 1])


def test_a_collapse_lasts_to_the_end():
    source, falls = np.full(100, 0.5), np.r_[np.full(60, 0.6), np.zeros(40)]
    assert stays_below(falls, source, window=1) == 60
    assert stays_below(np.r_[falls, np.ones(30)], np.full(130, 0.5), window=5) is None


def test_many_settings_stand_below_each_other(tmp_path):
    """In the order of their numbers; the figure is one page."""
    names = [f"corr-{number}" for number in range(1, 11)]
    for name in reversed(names):
        for method in ("Source", "Tent"):
            made_up(tmp_path, method, [0.5, 0.6] * 4, stream=name, setting=name, resets=(3,))
    runs = collect(tmp_path)
    assert list(dict.fromkeys(run.stream for run in runs)) == names
    table = matrix(means(groups(runs)))
    assert list(table.columns) == ["setting", "Source", "Tent"]
    assert table["setting"].tolist() == [*names, "Average"]
    height, width, _ = imread(draw(runs, tmp_path / "accuracy.png")).shape
    assert width == round(TWO * DPI)
    assert height < 1.5 * width


@pytest.mark.parametrize(
    ("own", "source", "collapsed", "below"),
    [
        # An image fewer, if always the same, is below for sure.
        (0.98 - 1 / 6400, 0.98, False, True),
        (0.785, 0.8, False, True),
        (0.775, 0.8, True, True),
        (0.011, 0.013, True, True),  # a tenth of a source model that is nearly always wrong
        (0.0125, 0.013, False, True),
        (0.85, 0.8, False, False),
    ],
)
def test_below_the_source_model_and_collapsed_are_two_things(
    tmp_path, own, source, collapsed, below
):
    made_up(tmp_path, "Source", [source] * 80)
    made_up(tmp_path, "Tent", [own] * 80)
    (_, tent) = collect(tmp_path)
    assert (tent.collapsed, tent.below_source) == (collapsed, below)
    assert (tent.collapse_step is not None) == collapsed
    (_, row) = rows_of(tmp_path)
    assert (row["collapsed"], row["below_source"]) == (collapsed, below)


def test_what_noise_could_be_is_neither(tmp_path):
    """A mean that is 5 points lower, of batches that differ by 40."""
    noise = RNG.normal(0, 0.4, 80)
    made_up(tmp_path, "Source", [0.5] * 80)
    made_up(tmp_path, "Tent", list(0.45 + noise - noise.mean()))
    (_, tent) = collect(tmp_path)
    assert tent.below_source is False
    end = np.r_[np.full(9, 0.0), 1.0]
    assert has_collapsed(end, np.full(10, 0.15)) is False
    assert has_collapsed(np.zeros(10), np.full(10, 0.15)) is True
    assert has_collapsed(np.full(10, np.nan), np.full(10, 0.15)) is None


def test_intervals_allow_for_batches_that_are_alike():
    """Of 200 batches, ten at a time with the same corruption, 95 % intervals hold 0 that often."""
    found = {1: 0, 10: 0}
    for _ in range(200):
        differences = np.repeat(RNG.normal(0, 0.1, 20), 10) + RNG.normal(0, 0.02, 200)
        for block in found:
            own = gap([differences], block)
            assert own.mean == pytest.approx(differences.mean())
            found[block] += own.low <= 0 <= own.high
    assert 0.9 * 200 < found[10] < 0.995 * 200
    assert found[1] < 0.9 * 200
    one = gap([RNG.normal(0.1, 0.1, 200)])
    assert one.high - one.low == pytest.approx(2 * 1.96 * 0.1 / np.sqrt(200), rel=0.35)


def test_a_method_has_its_colour_whatever_else_is_shown():
    among = styles(name := ("Source", "Tent", "mine", "RDumb"), dict(zip(name, name, strict=True)))
    assert styles(["RDumb"])["RDumb"].colour == among["RDumb"].colour == METHODS["RDumb"]
    assert among["Source"].colour == GREY
    assert len({style.colour for style in among.values()}) == 4
    assert len(set(METHODS.values())) == len(METHODS)
    slow, fast = styles(["slow", "fast"], {"slow": "Tent", "fast": "Tent"}).values()
    assert slow.colour == fast.colour == METHODS["Tent"]
    assert slow.dashes != fast.dashes


def test_all_methods_of_the_package_have_a_colour():
    methods = json.loads((Path(__file__).parents[2] / "docs" / "curves.json").read_text())[
        "methods"
    ]
    assert not set(methods) - set(METHODS)


def test_names_of_curves_find_their_method():
    found = {name: method_of(name) for name in ("TENT", "RDumb, every 100", "SLR-SGD", "SLR-all")}
    assert [*found.values()] == ["Tent", "RDumb", "SLR-SGD", "SLR"]
    assert not any(map(method_of, ("shot_noise", "AETTA", "tents")))
    # Numbers in order; a curve that is no method has a colour that no method of the picture has.
    steps = [style.colour for style in styles(["top 0", "top 1", "top 50"]).values()]
    assert len({*steps, *METHODS.values()}) == 3 + len(METHODS)
    assert styles(["Tent", "stem", "ETA"])["stem"].colour not in (METHODS["Tent"], METHODS["ETA"])


def test_what_a_short_end_does_not_tell(tmp_path):
    """The last eighth of five batches is one, which has no interval."""
    for name, accuracy in (("Source", [0.5] * 5), ("Tent", [0.6, 0.6, 0.6, 0.6, 0.1])):
        made_up(tmp_path, name, accuracy)
    (tent,) = (run for run in collect(tmp_path) if run.adapts)
    assert tent.collapsed is None
    assert details(means(groups([tent])))["collapsed"].tolist() == ["?"]


def test_runs_of_one_corruption_each_are_no_seeds(tmp_path):
    """As `holdfast corruptions` leaves them: their interval is over batches, not over corruptions."""
    facts = {"setting": ["stream"], "parts": [[[["fog", 5]], "", 200]]}
    noise = np.tile([0.02, -0.02], 10)
    for stream, gain in (("fog 5", 0.3), ("snow 5", -0.1)):
        where: dict[str, Any] = {"stream": stream, "setting": "severity 5", "facts": facts}
        made_up(tmp_path, "Source", [0.4] * 20, **where)
        made_up(tmp_path, "Tent", list(0.4 + gain + noise), **where)
    table = means(groups(collect(tmp_path)))
    row = records(table)[1]
    assert 0.05 < row["gain_over_source_low"] < 0.1 < row["gain_over_source_high"] < 0.15
    assert row["over"] == "streams"
    protocol, note = report.notes(table)
    assert protocol.startswith("protocol: each corruption from the source model; ")
    assert "mean ± sd over streams; [95 %]: over batches" in note


def test_no_interval_ends_beyond_what_accuracy_can_be(tmp_path):
    for seed, gain in ((1, 0.3), (2, -0.1)):
        made_up(tmp_path, "Source", [0.4] * 20, stream=f"s{seed}", seed=seed)
        made_up(tmp_path, "Tent", [0.4 + gain] * 20, stream=f"s{seed}", seed=seed)
    (row,) = [row for row in records(means(groups(collect(tmp_path)))) if row["adapts"]]
    assert (row["gain_over_source_low"], row["gain_over_source_high"]) == (-1, 1)
    assert row["over"] == "streams and seeds"


def test_seeds_of_ones_own_runs_are_one_setting(tmp_path):
    """As the script in the docs leaves them; another stream of the same class is another setting."""
    options: dict[str, Any] = {"calibration": "digits", "batch_size": 16, "num_workers": 0}
    for images, seed in ((64, 1), (64, 2), (32, 1)):
        stream = CCC(Digits(), 40, images=images, seed=seed, **options)
        for method in (Source("digits"), BNAdapt("digits")):
            record = RunRecord(tmp_path / f"{images}-{seed}-{type(method).__name__}")
            plain_trainer(callbacks=[record]).test(method, datamodule=stream)
    found = {(row["setting"], row["method"]): row for row in rows_of(tmp_path)}
    names = ("CCC (images 64)", "CCC (images 32)")
    assert found.keys() == {(name, method) for name in names for method in ("Source", "BNAdapt")}
    both = found["CCC (images 64)", "BNAdapt"]
    assert (both["runs"], both["runs_wanted"]) == (2, 2)
    assert both["gain_over_source_low"] is not None
    for run in collect(tmp_path):
        assert run.nll == pytest.approx(run.summary["nll"])
        assert 0 < run.ece < 1
