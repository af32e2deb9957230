"""Adding a corruption: what it requires, and that it changes no protocol and no seed's stream."""

import hashlib
import json
from pathlib import Path

import pytest
import torch

from holdfast import HoldfastError
from holdfast.datamodules import CCC, CIN3DCC, CINC, CINCHoldout, Corrupted, Digits
from holdfast.datamodules.ccc import EASY, HARD, MEDIUM
from holdfast.datamodules.corruptions import corrupt, register
from holdfast.datamodules.corruptions.parameters import TABLES
from holdfast.datamodules.corruptions.random import Rng


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


ROWS = tuple((share / 10,) for share in range(6))


def test_adding_one_changes_no_stream(registry: None) -> None:
    before = protocols()

    @register(imagenet=ROWS)
    def drizzle(x: torch.Tensor, rng: Rng, share: float) -> torch.Tensor:
        return x.masked_fill(rng.uniform(0, 1, 1, *x.shape[2:]) < share, 0.5)

    assert 0.2 < corrupt(torch.zeros(1, 3, 50, 50), "drizzle", 5, 0).mean() < 0.3
    assert protocols() == before


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
        ({}, "in a table: imagenet, cifar"),
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
