"""Runs with made-up accuracies, as they would lie in a suite's folder."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from holdfast.benchmarks.suites.settings import named_callbacks

# What AETTA logs of each batch; with 5 passes it disagrees with itself more than with 10.
PARTS = {"disagreement": 0.2, "disagreement_5": 0.3, "disagreement_15": 0.2, "classes": 10}
PARTS |= {"balance": 0.8, "balance_5": 0.8, "balance_15": 0.8}
ESTIMATORS = ("SrcValid", "SoftmaxScore", "GDE", "IndependentGDE", "AdvPerturb", "AETTA")


def made_up(
    folder: Path,
    method: str,
    accuracy: list[float] | None,
    *,
    stream: str = "s",
    setting: str = "s",
    seed: int = 1,
    **options: Any,
) -> None:
    """A run as it would lie in a suite's folder; without accuracies one that is not begun."""
    names = {"method": method, "override": "", "stream": stream, "setting": setting, "seed": seed}
    put(folder / f"{stream}-seed{seed}" / method, names, {}, accuracy, **options)


def put(
    own: Path,
    names: dict[str, Any],
    config: dict[str, Any],
    accuracy: list[float] | None,
    *,
    finished: bool = True,
    resets: tuple[int, ...] = (),
    seconds: float = 1.0,
    exactly: bool = False,
    columns: Sequence[dict[str, Any]] | None = None,
    facts: Mapping[str, Any] = MappingProxyType({}),
    results: Mapping[str, float] = MappingProxyType({}),
) -> None:
    """A run of these names in this folder.

    exactly: with only what every run writes.
    columns, facts, results: what each row, the provenance, the summary have in addition or instead.
    """
    method, stream, seed = names["method"], names["stream"], names["seed"]
    own.mkdir(parents=True)
    (own / "cell.json").write_text(json.dumps({"names": names, "config": config}))
    if accuracy is None:
        return
    known = {"method": method, "stream": "CCC", "stream_id": f"{stream}{seed}", "seed": seed}
    known |= {"started": "2026", "images": 10 * len(accuracy), "weights": "w", "parameters": 1000}
    known["adapted_parameters"] = 0 if method in ("Source", "BNAdapt") else 50
    known |= {"backbone": "b", "optimizer": {}, "versions": {}}
    watched = {} if exactly else watching(config)
    if not exactly:
        known["estimators"] = {"AETTA": {"passes": 10, "also": [5, 15]}, "GDE": {}} | watched
        known["estimators"]["WeightedFlips"] = {"held": 200, "stop": 49, "also": [12, 25]}
        known["omitting"] = {"pool": 100, "left": 50, "entropy_left": 3.0, "entropy_omitted": 1.0}
    (own / "provenance.json").write_text(json.dumps({**known, **facts}))
    # Of 10 images with a confidence of 0.6 half are right, of 30 with 0.9 a third; corrected: 0.5.
    sums = {"images": [10, 30], "confidence": [6, 27], "accuracy": [5, 10], "corrected": [5, 15]}
    if "DropoutCalibration" in str(config):
        np.savez(own / "dropout_calibration_AETTA.npz", **{k: np.array(v) for k, v in sums.items()})
    rows = [
        {"step": n, "images": 10 * (n + 1), "accuracy": a, "reset": float(n in resets)}
        | {"seconds": seconds * (n + 1), "corruptions": [["fog" if n % 20 < 10 else "snow", 5.0]]}
        | ({} if exactly else seen(watched, names, n, a))
        for n, a in enumerate(accuracy)
    ]
    if columns is not None:
        rows = [row | more for row, more in zip(rows, columns, strict=True)]
    (own / "record.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    if finished:
        mean = {"images": rows[-1]["images"], "accuracy": float(np.mean(accuracy))}
        summary: dict[str, Any] = mean
        if not exactly:
            adapted = flips(own, stream, [0, 12, 25, 49]) if method != "Source" else {}
            summary |= adapted or whole_set(mean["accuracy"])
        (own / "summary.json").write_text(json.dumps({**summary, **results}))


def watching(config: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a suite's estimators but the first AETTA and GDE."""
    entries = config.get("trainer", {}).get("callbacks", [])
    found = named_callbacks([e for e in entries if e["class_path"] in ESTIMATORS])
    own = {name: entry.get("init_args") or {} for name, entry in found.items()}
    return {name: given for name, given in own.items() if name not in ("AETTA", "GDE")}


def seen(watched: Iterable[str], names: dict[str, Any], n: int, accuracy: float) -> dict[str, Any]:
    """What estimators and observers write of batch n."""
    row = {"AETTA": accuracy, "AETTA_error": 0.1, "GDE": accuracy, "GDE_error": 0.2}
    row |= dict.fromkeys(watched, accuracy) | {f"{name}_error": 0.2 for name in watched}
    row |= {f"AETTA_{name}": value for name, value in PARTS.items()}
    row |= {f"PredictionStatistics_{name}": value for name, value in predictions(n).items()}
    if n % 4:
        return row
    return row | {"WeightMagnitude_norm net.layer1.bn1.weight": 1 + n} | inside(names, n)


def predictions(n: int) -> dict[str, float]:
    """What PredictionStatistics says of batch n: ever surer, of ever fewer classes."""
    return {"confidence": 0.5 + n / 100, "classes": 10.0 - n / 5, "entropy": 2.0 - n / 25}


def whole_set(accuracy: float) -> dict[str, float]:
    """What DatasetEstimates says, where images are right a little more often than batches."""
    names = ("AC_T", "DoC_T", "ATC-MC_T", "COT_T")
    found = {name: accuracy + 0.1 * (n + 1) for n, name in enumerate(names)}
    return {"collected_accuracy": accuracy + 0.01, **found}


def flips(own: Path, stream: str, steps: list[int]) -> dict[str, float]:
    """What WeightedFlips says: of 20 held images more flip at later steps, on some streams most."""
    many = flipping(stream)
    classes = np.zeros((len(steps), 20), dtype=int)
    for n in range(len(steps)):
        classes[n, : n * many // (len(steps) - 1)] = 1
    kept = {"steps": np.array(steps), "classes": classes}
    np.savez(own / "flips.npz", **kept, confidence=np.linspace(0.1, 0.9, 20))
    found = {"flips": 40.0 * many, "unweighted": 50.0 * many, "parameters": 1000.0}
    return {f"WeightedFlips_{name}": value for name, value in found.items()}


def flipping(stream: str) -> int:
    """How many of 20 held images flip; none of the hold-out's reach those of contrast."""
    return 10 if stream.startswith("contrast") else sum(map(ord, stream)) % 7 + 3


def inside(names: dict[str, Any], n: int) -> dict[str, float]:
    """What observers measured before step n of 40: accuracy is highest at step 12; streams differ."""
    level = sum(map(ord, names["stream"])) % 13 / 100 + names["seed"] / 1e4
    accuracy = 0.3 + level * min(n, 12) / 12 - level / 20 * max(n - 12, 0)
    return {
        "HoldOut_accuracy": 0.4 + level * n / 40,
        "EmbeddingClusters_accuracy": accuracy,
        "EmbeddingClusters_silhouette": 0.1 + level / 10 + (1 + level) * n / 400,
        "EmbeddingClusters_shift": 5.0 - level + (0.1 + level) * max(n - 12, 0),
        "WeightedFlips_unweighted": 500 - 900 * level,
    }
