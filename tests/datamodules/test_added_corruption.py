"""Adding a corruption: what it requires, and that it changes no protocol and no seed's stream."""

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from holdfast import HoldfastError
from holdfast.datamodules import CCC, CIN3DCC, CINC, CINCHoldout, Corrupted, Digits
from holdfast.datamodules.ccc import EASY, HARD, MEDIUM
from holdfast.datamodules.corruptions import corrupt, register
from holdfast.datamodules.corruptions.parameters import TABLES

ROOT = Path(__file__).resolve().parents[2]
FUNCTION = '''

def drizzle(x: Tensor, rng: Rng, share: float) -> Tensor:
    """Some pixels become grey."""
    return x.masked_fill(rng.uniform(0, 1, 1, *x.shape[2:]) < share, 0.5)
'''
ROW = "imagenet drizzle 0 0.1 0.2 0.3 0.4 0.5\n"


def protocols() -> str:
    """What every protocol consists of, and a hash of the first pixels of some seeds."""
    facts = [CINC.orders, CINCHoldout.orders, CIN3DCC.orders, EASY, MEDIUM, HARD]
    digest = hashlib.sha256(json.dumps(facts).encode())
    digits = Digits()
    for seed in (0, 7, 43):
        streams = [
            CCC(digits, "hard", speed=2, seed=seed, calibration="digits", quality=None),
            CINC(digits, seed=seed, each=2),
            CINCHoldout(digits, seed=seed, each=2),
            Corrupted(digits, each=1, seed=seed, table="cifar"),
        ]
        for stream in streams:
            for part in stream.batch(torch.arange(6)):
                digest.update(part.numpy().tobytes())
    return digest.hexdigest()


def test_adding_one_changes_no_stream(tmp_path: Path) -> None:
    """In a copy of the package: one function and one row, the first of a table."""
    package = tmp_path / "holdfast"
    shutil.copytree(ROOT / "core", package)
    shutil.copytree(ROOT / "datamodules", package / "datamodules")
    folder = package / "datamodules/corruptions"
    with (folder / "noise.py").open("a") as file:
        file.write(FUNCTION)
    tables = (folder / "parameters.txt").read_text()
    (folder / "parameters.txt").write_text(ROW + tables)
    shutil.copy(__file__, tmp_path / "added.py")
    code = (
        "import added, torch; from holdfast.datamodules import corruptions\n"
        "torch.set_num_threads(1)\n"
        "image = torch.zeros(1, 3, 50, 50)\n"
        "print(corruptions.corrupt(image, 'drizzle', 5, 0).mean().item(), added.protocols())"
    )
    found = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    mean, digest = found.stdout.split()
    assert 0.2 < float(mean) < 0.3
    assert digest == protocols()


ROWS = tuple((share / 10,) for share in range(6))


def test_one_table_is_enough(registry: None) -> None:
    @register(imagenet=ROWS)
    def dusk(x: torch.Tensor, rng: object, darker: float) -> torch.Tensor:
        return x * (1 - darker)

    white = torch.ones(1, 3, 2, 2)
    assert corrupt(white, "dusk", 2.5, 0).flatten().tolist() == pytest.approx([0.75] * 12)
    with pytest.raises(HoldfastError, match=r"dusk has no parameters in table='cifar'.*net'"):
        corrupt(white, "dusk", 1, 0, table="cifar")
    with pytest.raises(HoldfastError, match=r"dusk has no parameters in table='cifar'"):
        Corrupted(Digits(), ["dusk"], table="cifar")


@pytest.mark.parametrize(
    ("tables", "sentence"),
    [
        ({"imagenet": ROWS[:5]}, "six rows"),
        ({"imagenet": (*ROWS[:5], (1, 2))}, "six rows of parameters of equal length"),
        ({"mnist": ROWS}, "imagenet, cifar"),
        ({}, "imagenet or cifar"),
    ],
)
def test_rows_are_checked(registry: None, tables: dict, sentence: str) -> None:
    with pytest.raises(HoldfastError, match=sentence):
        register(**tables)(lambda x, rng: x)


def test_names_are_not_taken_twice(registry: None) -> None:
    def fog() -> None: ...

    with pytest.raises(HoldfastError, match="corruption named fog exists"):
        register(imagenet=ROWS)(fog)  # type: ignore[type-var]
    assert len(TABLES["imagenet"]["fog"][0]) == 2


def test_one_is_found_by_its_path(
    registry: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = "from holdfast.datamodules.corruptions import register\n\n"
    own += f"@register(imagenet={ROWS})\ndef dawn(x, rng, share):\n    return x + share\n"
    (tmp_path / "own_weather.py").write_text(own)
    monkeypatch.syspath_prepend(tmp_path)
    assert corrupt(torch.zeros(1, 3, 2, 2), "own_weather.dawn", 5, 0).unique().item() == 0.5
    for name in ("own_wether.dawn", "..dawn"):
        with pytest.raises(HoldfastError, match="cannot be imported"):
            corrupt(torch.zeros(1, 3, 2, 2), name, 5, 0)
    with pytest.raises(HoldfastError, match="Unknown corruption 'rain'"):
        corrupt(torch.zeros(1, 3, 2, 2), "own_weather.rain", 5, 0)
