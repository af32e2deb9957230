"""What `mutants.py` changes and reads, by name: each takes a folder and gives a reader for each draw."""

import io
import json
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from mutants import mutated, of_json, torn
from PIL import Image

from holdfast.benchmarks.run.dry_run import dry_run
from holdfast.benchmarks.suites import grid
from holdfast.benchmarks.suites.cell import check_folders
from holdfast.callbacks.checkpoint import newest
from holdfast.callbacks.functional.flips import PUBLISHED, FlipFunction
from holdfast.datamodules import Calibration, Shards, find_path
from holdfast.datamodules.sources.tar import Sample, info, shard_name, write_shard

Reader = Callable[[], object]
Attack = Callable[[random.Random], Reader]


def calibrations(folder: Path) -> Attack:
    """A calibration of two corruptions, with other bytes, names, numbers or facts."""
    path, names = folder / "c.npz", ("fog", "frost")
    levels = np.linspace(90, 5, 21)
    accuracy = np.tile(np.minimum.outer(levels, levels).astype(np.float32), (2, 2, 1, 1))
    facts = {"backbone": "digits", "near": None, "images": 100, "shards": [[0, 2]]}
    Calibration(names, accuracy, facts).save(path)
    whole = path.read_bytes()

    def attack(draw: random.Random) -> Reader:
        content: dict[str, Any] = {
            "names": np.array(names),
            "accuracy": accuracy,
            "provenance": np.array(json.dumps(facts)),
        }
        kind = draw.randrange(4)
        if kind == 0:
            path.write_bytes(torn(whole, draw))
        else:
            if kind == 1:
                content["provenance"] = np.array(json.dumps(mutated(facts, draw)))
            elif kind == 2:
                odd = mutated(list(names), draw)
                odd = odd if isinstance(odd, list) else [odd]
                content["names"] = np.array([repr(name)[:40] for name in odd])
            else:
                key = draw.choice(list(content))
                odd_arrays = (
                    np.zeros(3),
                    np.array("x"),
                    np.full((2, 2, 21, 21), np.nan),
                    np.array(1j),
                )
                content[key] = draw.choice([*odd_arrays, np.array([b"\xff"]), np.array([[1, 2]])])
            np.savez(path, **content)

        def read() -> None:
            found = Calibration.load(path)
            found.check(names, 30.0)
            for first, second in (names, names[::-1]):
                way = find_path(found.matrix(first, second, 30.0), 30.0)
                found.check_path(first, second, way)

        return read

    return attack


SUITE: dict[str, Any] = {
    "out": "out",
    "common": {"trainer": {"accelerator": "cpu", "callbacks": ["SoftmaxScore"]}},
    "methods": {"Tent": {"class_path": "Tent", "init_args": {"backbone": "digits"}}, "S": "source"},
    "streams": {
        "fog {level}": {
            "class_path": "CCC",
            "init_args": {"source": "Digits", "difficulty": 30, "images": 100, "table": "cifar"},
            "each": {"level": [1, 2]},
            "setting": "x",
        }
    },
    "seeds": [43, 44],
    "overrides": {"fast": {"model": {"init_args": {"optimizer": {"init_args": {"lr": 0.1}}}}}},
}


def suites(folder: Path) -> Attack:
    """A suite as YAML, listed."""
    path = folder / "suite.yaml"

    def attack(draw: random.Random) -> Reader:
        if draw.random() < 0.2:
            path.write_bytes(torn(yaml.safe_dump(SUITE).encode(), draw))
        else:
            text = yaml.safe_dump(mutated(SUITE, draw), allow_unicode=True)
            path.write_bytes(text.encode(errors="surrogatepass"))

        return lambda: check_folders(list(grid.cells(grid.load(path))))

    return attack


def configurations(folder: Path) -> Attack:
    """A configuration of one run, checked as a suite's are."""
    suite = {**SUITE, "out": str(folder)}
    config = next(iter(grid.cells(suite))).config

    def attack(draw: random.Random) -> Reader:
        changed = mutated(config, draw)
        from holdfast.benchmarks.suites.check import check_config

        return lambda: check_config(changed) if isinstance(changed, dict) else dry_run(config)

    return attack


def checkpoints(folder: Path) -> Attack:
    """A checkpoint with other bytes or other content."""
    path = folder / "step-000000001.ckpt"
    content = {
        "run": {"method": "Tent"},
        "callbacks": {"RunRecord": {"bytes": 1}},
        "state_dict": {"weight": torch.zeros(3)},
    }
    whole = io.BytesIO()
    torch.save(content, whole)

    def attack(draw: random.Random) -> Reader:
        if draw.random() < 0.5:
            path.write_bytes(torn(whole.getvalue(), draw))
        else:
            torch.save(mutated(content, draw), path)

        def read() -> None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                newest(folder)

        return read

    return attack


def shards(folder: Path) -> Attack:
    """A shard of four images with other bytes."""
    picture = io.BytesIO()
    Image.new("RGB", (8, 8), (9, 200, 30)).save(picture, "JPEG")
    what = info("folder", "name", [("fog", 1.0), ("snow", 0.5)])
    path = folder / "run" / shard_name(0)
    path.parent.mkdir()
    write_shard(path, [Sample(what, picture.getvalue(), label) for label in range(4)])
    whole = path.read_bytes()

    def attack(draw: random.Random) -> Reader:
        data = bytearray(torn(whole, draw))
        for at in range(0, len(data) - 512, 512):  # sums that fit, as an attacker's do
            if data[at + 257 : at + 262] == b"ustar" and draw.random() < 0.8:
                data[at + 148 : at + 156] = b" " * 8
                data[at + 148 : at + 156] = b"%06o\0 " % sum(data[at : at + 512])
        path.write_bytes(data)

        def read() -> None:
            source = Shards(str(folder), shard_images=4).open("run", 1, 4)
            source.load(torch.arange(4), torch.zeros(4))

        return read

    return attack


def flip_functions(folder: Path) -> Attack:
    """A file of `holdfast estimators fit`."""
    path = folder / "f.json"
    text = json.dumps(next(iter(PUBLISHED.values()))._asdict())

    def attack(draw: random.Random) -> Reader:
        path.write_bytes(of_json(text, draw))
        return lambda: FlipFunction.load(path)(12.0)

    return attack


SUBJECTS: dict[str, Callable[[Path], Attack]] = {
    "calibrations": calibrations,
    "suites": suites,
    "configurations": configurations,
    "checkpoints": checkpoints,
    "shards": shards,
    "flip_functions": flip_functions,
}
