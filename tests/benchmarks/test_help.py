"""What `holdfast test --help` shows: what matters, soon, and what is really there."""

import gc
import inspect
import os
import resource
import subprocess
import sys

import pytest

from holdfast import callbacks, datamodules, methods
from holdfast.benchmarks import cli, help
from holdfast.benchmarks.cli import main
from holdfast.callbacks import AccuracyEstimator, PeriodicObserver, Recovery
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
    """All that is exported and can be made."""
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
    for word in ("RoTTA", "CCC", "AETTA", "PeriodicReset", "--resume", "--trainer.help shows all"):
        assert word in text
    assert len(text.splitlines()) < 80
    assert max(map(len, text.splitlines())) <= 108


def test_lists_and_lightnings_options(capsys: pytest.CaptureFixture) -> None:
    assert main(["test", "--model.help"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("methods (--model):\n  BNAdapt")
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


def test_an_import_leaves_the_garbage_collector_as_it_was() -> None:
    assert gc.isenabled()
    try:
        for before in (gc.disable, gc.enable):
            before()
            as_it_was = gc.isenabled()
            cli.imported(".paths")
            assert gc.isenabled() == as_it_was
    finally:
        gc.enable()
