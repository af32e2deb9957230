"""A suite's files and arguments are checked before the first of its runs starts."""

from pathlib import Path
from typing import Any

import pytest
from conftest import BATCH, model
from made_up import put
from small_suites import small_stream, write_suite

from holdfast import HoldfastError, methods
from holdfast.benchmarks.cli import main
from holdfast.benchmarks.suites import grid
from holdfast.benchmarks.suites.check import check_cells
from holdfast.files import read_json


def changed(**data: Any) -> dict[str, Any]:
    """The small stream, shorter, with other arguments."""
    return small_stream(**{"images": 2 * BATCH, **data})


def write(folder: Path, **keys: Any) -> Path:
    """A suite of a run of Source and whatever else is given."""
    return write_suite(folder, ["Source"], {"digits": changed()}, **keys)


def second(**method: Any) -> dict[str, Any]:
    return {"methods": {"Source": model("Source"), "other": method}}


def with_callback(**callback: Any) -> dict[str, Any]:
    return {"overrides": {"plain": {}, "watched": {"trainer": {"callbacks": [callback]}}}}


NEGATIVE = {"class_path": "SGD", "init_args": {"lr": -1.0}}


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        (second(**model("Tent", lr=1)), "'lr' is not accepted by Tent. Choose one of backbone, "),
        (second(**model("Tant")), "'Tant' is unknown. Choose one of AdaContrast"),
        (second(**model("Tent", backbone="glyfs")), "Choose glyphs, digits"),
        (second(**model("RDumb", every=0)), "every=0: pass at least 1"),
        (second(**model("Tent", optimizer=NEGATIVE)), "Invalid learning rate: -1.0"),
        (second(class_path="Tent", init_args=None), "model: init_args"),
        ({"streams": {"a": changed(), "b": changed(imges=3)}}, "'imges' is not accepted by CCC"),
        ({"streams": {"a": changed(), "b": changed(difficulty="hrad")}}, "easy, medium, hard"),
        ({"streams": {"a": changed(), "b": changed(batch_size=0)}}, "batch_size=0: pass at least"),
        ({"streams": {"a": changed(), "b": changed(source="Glyfs")}}, "CIFAR, Data"),
        (with_callback(class_path="PeriodicRest"), "PeriodicReset"),
        (with_callback(class_path="PeriodicReset", init_args={"evry": 1}), "by PeriodicReset"),
        (with_callback(class_path="PeriodicReset", init_args={"every": 0}), "every=0: pass at"),
        ({"common": {"trainer": {"max_step": 1}}}, "'max_step' is not accepted by Trainer"),
        ({"common": {"trainer": None}}, "trainer should be a mapping"),
        (
            {"common": {"trane": {"max_steps": 1}}},
            "'trane' is not an option. Choose one of model, ",
        ),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else "",
)
def test_all_runs_are_checked_before_the_first_starts(
    tmp_path: Path, capfd: pytest.CaptureFixture, keys: dict[str, Any], sentence: str
) -> None:
    assert main(["suite", str(write(tmp_path, **keys))]) == 2
    error = capfd.readouterr().err
    assert sentence in error
    assert "cannot be run: " in error
    assert "Traceback" not in error
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"methods": {}}, "methods is empty"),
        ({"streams": None}, "streams.*mapping, not None"),
        ({"seeds": []}, "seeds is empty"),
        ({"seed": [43]}, "has seed"),
        ({"streams": {"n": {**changed(), "each": {"n": []}}}}, "n/each/n List.*at least 1"),
        (
            second(class_path="Tent", init_arg={}),
            "methods/other has init_arg:.*class_path",
        ),
        (
            {"streams": {"s": {**changed(), "ech": {}}}},
            "streams/s has ech:.*class_path, ",
        ),
    ],
)
def test_empty_and_unknown_keys_are_named(
    tmp_path: Path, keys: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(HoldfastError, match=sentence):
        grid.load(write(tmp_path, **keys))


def test_a_corrected_suite_takes_over_a_failed_start(tmp_path: Path) -> None:
    """Its folder holds no row; one that has rows is another run, and stays."""
    assert (
        main(["suite", str(write(tmp_path, **second(**model("Tent", backbone="n.safetensors"))))])
        == 1
    )
    folder = tmp_path / "runs/digits-seed43"
    assert (folder / "other/error.txt").exists()
    assert main(["suite", str(write(tmp_path, **second(**model("Tent"))))]) == 0
    assert not (folder / "other/error.txt").exists()
    assert read_json(folder / "other/cell.json")["config"]["model"] == model("Tent")
    assert (folder / "other/summary.json").exists()
    assert main(["suite", str(write(tmp_path, **second(**model("ETA"))))]) == 2


def test_every_method_can_be_checked(tmp_path: Path) -> None:
    """The stand-ins do for all of them: with the arguments that they have, nothing is refused."""
    names = [name for name in methods.__all__ if name[0].isupper() and name != "TTAMethod"]
    suite = grid.load(write(tmp_path, methods={name: model(name) for name in names}))
    check_cells(grid.cells(suite))


@pytest.mark.parametrize("name", ["demo", "digits", "aetta/estimators"])
def test_the_suites_that_come_with_holdfast_pass(name: str) -> None:
    check_cells(grid.cells(grid.load(name)))


def test_a_misspelt_method_is_named_before_its_old_run(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    """Whose folder holds a finished run of the right one; that says so once the name is right."""

    names = {"method": "other", "stream": "digits", "seed": 43, "override": ""}
    put(tmp_path / "runs" / "digits-seed43" / "other", names, {"model": model("RDumb")}, [0.5])
    file = write(tmp_path, methods={"other": model("RDum")})
    assert main(["suite", str(file)]) == 2
    assert "'RDum' is unknown" in capsys.readouterr().err
    assert main(["suite", str(write(tmp_path, methods={"other": model("Tent")}))]) == 2
    assert "different configuration" in capsys.readouterr().err
