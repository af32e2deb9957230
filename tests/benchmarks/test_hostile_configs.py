"""Untrusted configurations: none imports, calls or reads more than the user has named."""

import json
import sys
from itertools import cycle
from pathlib import Path
from typing import Any

import jsonargparse
import pytest
import yaml
from conftest import DATA, model
from small_suites import small_stream

from holdfast import HoldfastError
from holdfast.benchmarks.cli import main
from holdfast.benchmarks.run import config_guard as guard
from holdfast.benchmarks.suites import grid
from holdfast.class_paths import typed
from holdfast.files import parse_yaml
from holdfast.methods.backbones import load_backbone

SHELL = "{class_path: os.system, init_args: {command: touch called}}"
MODULE = """
from pathlib import Path
from torch import nn
Path("called").touch()

class Net(nn.Linear):
    pass
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stranger's folder, as the current one, with a module that says when it is imported."""
    (tmp_path / "stranger.py").write_text(MODULE)
    (tmp_path / "owned").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "stranger", raising=False)
    return tmp_path


def suite(**parts: Any) -> dict[str, Any]:
    return {
        "out": "out",
        "methods": {"Source": parts.get("model", model("Source"))},
        "streams": {"ccc": parts.get("data", DATA)},
        "common": {"trainer": {"accelerator": "cpu", **parts.get("trainer", {})}},
    }


def of(class_path: str, **init_args: Any) -> dict[str, Any]:
    return {"class_path": class_path, "init_args": init_args}


def source(class_path: str, **init_args: Any) -> dict[str, Any]:
    return small_stream(source=of(class_path, **init_args))


TOUCH = {"command": "touch called"}
HOSTILE = {
    "a shell command as a backbone": suite(model=model("Source", backbone=SHELL)),
    "the same, not as a text": suite(model=model("Source", backbone=of("os.system", **TOUCH))),
    "as an argument of load_backbone": suite(
        model=model("Source", backbone=of("holdfast.methods.load_backbone", name=SHELL))
    ),
    "as the method": suite(model=of("os.system", **TOUCH)),
    "as the stream": suite(data=of("os.system", **TOUCH)),
    "as a source": suite(data=source("os.system", **TOUCH)),
    "as an optimizer": suite(model=model("Tent", optimizer=of("subprocess.Popen", args="touch called"))),
    "as a function for an optimizer": suite(model=model("Tent", optimizer="os.system")),
    "as a callback": suite(trainer={"callbacks": [of("subprocess.Popen", args=["touch", "called"])]}),
    "LambdaCallback": suite(
        trainer={"callbacks": [of("lightning.pytorch.callbacks.LambdaCallback", setup="builtins.print")]}
    ),
    "its short name": suite(trainer={"callbacks": [of("LambdaCallback", setup="os.abort")]}),
    "as a logger": suite(trainer={"logger": of("os.system", **TOUCH)}),
    "as a strategy": suite(trainer={"strategy": of("os.system", **TOUCH)}),
    "another module's os": suite(model=model("Source", backbone="{class_path: torch.os.system}")),
    "a factory that reads pickles": suite(
        model=model("Source", backbone="{class_path: timm.create_model, init_args: {model_name: x}}")
    ),
    "a method that reads pickles": suite(
        model=model("Source", backbone=of("holdfast.methods.Tent.load_from_checkpoint"))
    ),
    "a module of Python's that does something": suite(
        model=model("Source", backbone="{class_path: this.d}")
    ),
    "a module here, as a backbone": suite(model=model("Source", backbone="stranger.Net")),
    "the same, in YAML": suite(model=model("Source", backbone="{class_path: stranger.Net}")),
    "as a mapping": suite(model=model("Source", backbone=of("stranger.Net"))),
    "of a method": suite(model=of("stranger.Net", backbone="digits")),
    "of a stream": suite(data=of("stranger.Net")),
    "of a source ": suite(data=source("stranger.Net")),
    "of a callback": suite(trainer={"callbacks": ["stranger.Net"]}),
    "of a corruption": suite(data=small_stream(corruptions=["stranger.fog"])),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_suites_run_no_code(folder: Path, capfd: pytest.CaptureFixture, case: str) -> None:
    (folder / "suite.yaml").write_text(yaml.safe_dump(HOSTILE[case]))
    assert main(["suite", "suite.yaml"]) in (1, 2)
    out, err = capfd.readouterr()
    assert not (folder / "called").exists()
    assert not {"stranger", "this"} & sys.modules.keys()
    assert "Traceback" not in out + err
    names = (
        "this.d",
        "os.",
        "subprocess",
        "LambdaCallback",
        "timm",
        "stranger",
        "load_from_checkpoint",
    )
    assert any(name in out + err for name in names)


@pytest.mark.parametrize("case", ["a shell command as a backbone", "a module here, as a backbone"])
def test_files_of_holdfast_test_run_no_code(
    folder: Path, capfd: pytest.CaptureFixture, case: str
) -> None:
    found = HOSTILE[case]
    config = {"model": found["methods"]["Source"], "data": found["streams"]["ccc"]}
    (folder / "stranger.yaml").write_text(yaml.safe_dump(config))
    assert main(["test", "--config", "stranger.yaml", "--out", "run"]) == 2
    assert not (folder / "called").exists()
    (folder / "model.json").write_text(json.dumps(config["model"]))
    (folder / "data.json").write_text(json.dumps(config["data"]))
    assert main(["test", "--model", "model.json", "--data", "data.json", "--out", "run"]) == 2
    assert not (folder / "called").exists()
    assert "Traceback" not in capfd.readouterr().err


def test_what_is_named_is_imported(folder: Path, capfd: pytest.CaptureFixture) -> None:
    """By --allow for a file, and by typing it."""
    (folder / "suite.yaml").write_text(
        yaml.safe_dump(HOSTILE["a module here, as a backbone"] | {"seeds": [1]})
    )
    assert main(["suite", "suite.yaml", "--allow", "other"]) == 1
    assert not (folder / "called").exists()
    assert "--allow stranger" in capfd.readouterr().out
    main(["suite", "suite.yaml", "--allow=other,stranger"])
    assert (folder / "called").exists()
    (folder / "called").unlink()
    del sys.modules["stranger"]
    main(["bench", "steps", "--backbone", "stranger.Net", "--methods", "Source"])
    assert (folder / "called").exists()
    assert main(["suite", "suite.yaml", "--allow", "a-b"]) == 2


def test_what_counts_as_typed(folder: Path) -> None:
    (folder / "page.html").touch()
    words = ["--config", "suite.yaml", "--out", "a.b", "--html=page.html", "--model", "own.A"]
    words += ["--data=tide.B", "--trainer.callbacks+=mine.C", "--model.backbone", "nets.D:d.pt"]
    words += ["--data.source", "{class_path: there.E}", "--trainer.logger", "page.html"]
    assert list(typed(words)) == ["own.A", "tide.B", "mine.C", "nets.D", "there.E"]


BILLION = "a0: &a0 [1, 2]\n" + "".join(
    f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 9)}]\n" for n in range(9)
)
BOMBS = {
    "aliases": (BILLION, "1,000,000 values"),
    "a loop": ("model: &m {init_args: *m}", "contains itself"),
    "depth": ("model: " + "[" * 100_000 + "]" * 100_000, "100 levels"),
    "a number in base 60": ("seed_everything: 1" + ":1" * 300_000, "1,000 digits"),
    "length": ("model: " + "x" * 1_000_001, "1,000,000 bytes"),
}


@pytest.mark.parametrize(("bomb", "name"), zip(BOMBS, cycle(["l.txt", "l.YAML", "l"])))
def test_bombs_by_any_name(
    folder: Path, capfd: pytest.CaptureFixture, bomb: str, name: str
) -> None:
    (folder / name).write_text(BOMBS[bomb][0])
    for option in ("--config", "--data"):
        words = ["--model", "Source", "--model.backbone", "digits", option, name]
        assert main(["test", *words, "--out", "run"]) == 2
        assert BOMBS[bomb][1] in capfd.readouterr().err
    assert main(["suite", name]) == 2
    assert BOMBS[bomb][1] in capfd.readouterr().err
    with pytest.raises(ValueError, match=BOMBS[bomb][1]):
        parse_yaml(BOMBS[bomb][0])
    with pytest.raises(HoldfastError):
        load_backbone("{class_path: " + BOMBS[bomb][0] + "}")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("each", {name: [*range(1000)] for name in "abc"}),
        ("each", {name: [*range(10)] for name in "abcdefghi"}),
    ],
)
def test_grids_have_a_limit(key: str, value: Any) -> None:
    found = suite()
    found["streams"]["{a} {b} {c}"] = {**DATA, key: value}
    with pytest.raises(HoldfastError, match=r"1,000,000,001 runs.*100,000"):
        list(grid.cells(found))
    found = suite()
    found["methods"] = {str(n): model("Source") for n in range(500)}
    with pytest.raises(HoldfastError, match="500,000 runs"):
        list(grid.cells(found | {"seeds": [*range(1000)]}))


def test_texts_do_not_grow_without_end() -> None:
    found = suite()
    found["streams"] = {"{a}": {**DATA, "setting": "{a}" * 1000, "each": {"a": ["x" * 10_000]}}}
    with pytest.raises(HoldfastError, match="1,000,000 characters"):
        list(grid.cells(found))


def test_one_module_has_private_functions_of_jsonargparse() -> None:
    """Another version may have them otherwise: look at them, run these tests, then set KNOWN."""
    assert jsonargparse.__version__.startswith(f"{guard.KNOWN}.")
    folder = Path(guard.__file__).parent
    users = [p for p in folder.rglob("*.py") if "from jsonargparse import _" in p.read_text()]
    assert users == [Path(guard.__file__)]
