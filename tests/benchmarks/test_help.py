"""What `--help` shows, of `holdfast test` soon and what is really there; what shells complete."""

import configparser
import gc
import inspect
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

from holdfast import callbacks, datamodules, methods
from holdfast.benchmarks.cli import main
from holdfast.benchmarks.run import cli_help as help
from holdfast.callbacks import AccuracyEstimator, PeriodicObserver, Recovery
from holdfast.commands import COMMANDS, GROUPS, imported
from holdfast.datamodules import ImageSource, Stream
from holdfast.methods import TTAMethod

BASES = (
    (methods, TTAMethod),
    (datamodules, Stream),
    (datamodules, ImageSource),
    (callbacks, AccuracyEstimator),
    (callbacks, PeriodicObserver),
    (callbacks, Recovery),
)


@pytest.mark.parametrize(("kind", "where"), zip(help.KINDS, BASES, strict=True))
def test_the_sources_tell_what_the_classes_are(kind: help.Kind, where: tuple) -> None:
    """The choices in the help are the exported classes that are not abstract."""
    package, base = where
    things = {name: getattr(package, name) for name in package.__all__}
    below = {n for n, t in things.items() if inspect.isclass(t) and issubclass(t, base)}
    expected = {name for name in below if not inspect.isabstract(things[name])} - {base.__name__}
    found = help.choices(kind)
    assert set(found) == expected
    assert all(found.values())


def test_help_comes_soon() -> None:
    """In less than 2 s of processor time, with all methods, and without Lightning's many options."""
    call = (
        "import sys; from holdfast.benchmarks.cli import main; sys.exit(main(['test', '--help']))"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = subprocess.run(
        [sys.executable, "-c", call + "\n"], capture_output=True, text=True, env=dict(os.environ)
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert found.returncode == 0, found.stderr
    assert after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime < 2
    text = found.stdout
    for word in ("RoTTA", "CCC", "AETTA", "PeriodicReset", "--resume", "--trainer.help"):
        assert word in text
    assert len(text.splitlines()) < 130
    assert max(map(len, text.splitlines())) <= 108


def test_lists_and_lightnings_options(capsys: pytest.CaptureFixture) -> None:
    assert main(["test", "--model.help"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("methods (--model):\n  AdaContrast")
    assert "PeriodicReset" not in text.replace("ETA with a PeriodicReset", "")
    assert main(["test", "--trainer.callbacks.help"]) == 0
    assert "PeriodicReset" in capsys.readouterr().out
    assert main(["test", "--trainer.help"]) == 0
    text = capsys.readouterr().out
    assert "--trainer.gradient_clip_val" in text
    assert help.OPTIONS["save_every"] in " ".join(text.split())
    for option, name, shown in (
        ("data", "CCC", "speed"),
        ("trainer.callbacks", "PeriodicReset", "every"),
    ):
        assert main(["test", f"--{option}.help", name]) == 0
        assert f".{shown} " in capsys.readouterr().out


def test_the_version_is_that_of_the_package(tmp_path: Path) -> None:
    """Of the installed one, which a checkout's egg-info would hide: not in this folder."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    words = [str(Path(sys.executable).with_name("holdfast")), "--version"]
    shown = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert shown.stdout.split() == ["holdfast", setup["metadata"]["version"]]


def test_an_import_leaves_the_garbage_collector_as_it_was() -> None:
    assert gc.isenabled()
    try:
        for before in (gc.disable, gc.enable):
            before()
            as_it_was = gc.isenabled()
            imported("benchmarks.streams.ccc_paths")
            assert gc.isenabled() == as_it_was
    finally:
        gc.enable()


def test_the_page_has_the_groups_of_the_help(capsys: pytest.CaptureFixture) -> None:
    """docs/guides/command-line.md and `holdfast --help`: the same groups, commands and sentences."""
    page = (ROOT / "docs" / "guides" / "command-line.md").read_text()
    sections = re.findall(r"^## (.+)\n\n\| command .*\n.*\n((?:\|.*\n)+)", page, re.M)
    tables = {
        name.lower(): dict(re.findall(r"^\| `(\S+)` \| (.+?) \|", rows, re.M))
        for name, rows in sections
    }
    assert tables == {
        name: {command: row.help for command, row in rows.items()} for name, rows in GROUPS.items()
    }
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = re.findall(r"^([a-z ]+):\n((?:  .+\n)+)", capsys.readouterr().out, re.M)
    found = {name: re.findall(r"^  (\S+)", rows, re.M) for name, rows in shown}
    assert {name: found[name] for name in GROUPS} == {n: list(rows) for n, rows in GROUPS.items()}


def every_command() -> dict[str, Any]:
    """The module of each command that has a parser, by the command's words."""
    parts = {name: row.parts or {"": row} for name, row in COMMANDS.items() if name != "test"}
    return {
        f"{name} {part}".strip(): row.load()
        for name, rows in parts.items()
        for part, row in rows.items()
    }


def shown_example(words: list[str], capsys: pytest.CaptureFixture) -> list[str]:
    """The arguments of the example that `--help` shows."""
    with pytest.raises(SystemExit):
        main([*words, "--help"])
    text = " ".join(capsys.readouterr().out.split())
    _, found, example = text.rpartition("example: holdfast ")
    assert found
    return shlex.split(example.partition(" holdfast ")[0].partition(" > ")[0])


@pytest.mark.parametrize("name", every_command())
def test_the_help_of_each_command_has_an_example(name: str, capsys: pytest.CaptureFixture) -> None:
    """The command's parser accepts the example."""
    words = name.split()
    example = shown_example(words, capsys)
    assert example[: len(words)] == words
    assert every_command()[name].parser().parse_args(example[len(words) :])


@pytest.mark.parametrize("name", [name for name, row in COMMANDS.items() if row.parts])
def test_the_help_of_commands_with_parts(name: str, capsys: pytest.CaptureFixture) -> None:
    """The help lists all subcommands with descriptions; each has its own help."""
    with pytest.raises(SystemExit):
        main([name, "--help"])
    text = capsys.readouterr().out
    for part, row in COMMANDS[name].parts.items():
        assert re.search(rf"^{part} +{re.escape(row.help)}$", text, re.M)
        assert f"holdfast {name} {part}" in row.load().parser().format_help()


def test_shells_complete_commands_options_and_classes(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    """bash, with the script alone: no Python is started at the tab key."""
    assert main(["completion", "bash"]) == 0
    script = tmp_path / "holdfast.bash"
    script.write_text(capsys.readouterr().out)
    asked = {
        ("rep",): ["report"],
        ("cite", "s"): ["score", "show"],
        ("report", "runs", "--ht"): ["--html"],
        ("test", "--model", "R"): ["RDumb", "REM", "RMT", "ROID", "RPL", "RoTTA"],
        ("test", "--data", "CI"): ["CIFARC", "CIN3DCC", "CINC", "CINCHoldout"],
        ("estimators", "agree", "--t"): ["--together"],
    }
    lines = [f". {script}", "export PATH="]
    for words in asked:
        lines.append(f"COMP_WORDS=(holdfast {shlex.join(words)}); COMP_CWORD={len(words)}")
        lines.append(f"COMPREPLY=(); _shtab_holdfast holdfast {words[-1]}; echo ${{COMPREPLY[@]}}")
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("needs bash")
    done = subprocess.run(
        [bash, "-c", "\n".join(lines)], capture_output=True, text=True, timeout=60
    )
    assert not done.stderr
    found = [sorted(line.split(), key=str.lower) for line in done.stdout.splitlines()]
    assert found == [sorted(words, key=str.lower) for words in asked.values()]
