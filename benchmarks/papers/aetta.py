"""AETTA's numbers (Lee et al. 2024, Tables 1 to 3), where runs were made in its setting; else nothing."""

import inspect
import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from ... import callbacks
from ...callbacks import Recovery
from ...callbacks.provenance import recovery_settings
from ...files import read_json
from ...run_folder import PROVENANCE
from ..results import report
from ..suites.grid import CONFIGS, load

NUMBERS = Path(__file__).parent / "published.json"
CORRUPTIONS, BATCH = 15, 64


class DataSet(NamedTuple):
    """One of AETTA's, at severity 5."""

    stream: str
    images: int  # of each corruption, at least
    backbone: dict[str, str]  # what its provenance says; {seed} is the run's
    config: str  # ending of the methods' files


CIFAR = {"net": "CIFARResNet18", "epochs": "200", "seed": "{seed}"}
DATA_SETS = {
    "CIFAR10-C": DataSet("CIFARC", 9_900, {**CIFAR, "name": "cifar10"}, "cifar10"),
    "CIFAR100-C": DataSet("CIFARC", 9_900, {**CIFAR, "name": "cifar100"}, "cifar100"),
    "ImageNet-C": DataSet(
        "ImageSet", 49_900, {"name": "torchvision/resnet18.IMAGENET1K_V1"}, "imagenet"
    ),
}


def setting(run: report.Run) -> str:
    """Streams whose names differ only after a comma are parts of one setting: "Fully X, fog"."""
    return str(run["stream"]).partition(",")[0]


def numbers(runs: list[report.Run], table: str = "") -> dict[str, Any]:
    """The rows of a table (default: that of the setting's errors) if the runs were made as there.

    That is: source models, methods, resets and estimators with AETTA's arguments, its data set at
    severity 5 with all corruptions and images, batches of 64, and float32. Table 3 does not name its
    data set: CIFAR-100-C.
    """
    known = json.loads(NUMBERS.read_text())
    if table:
        rows = known[table]["rows"] if setting(runs[0]) == "Continual CIFAR100-C" else None
    else:
        tables = (known[name]["rows"] for name in ("AETTA-T1", "AETTA-T2"))
        rows = next((rows[setting(runs[0])] for rows in tables if setting(runs[0]) in rows), None)
    data = DATA_SETS.get(setting(runs[0]).rpartition(" ")[2])
    fits = rows and data and all(made_as_there(run, data) for run in runs) and complete(runs, data)
    return rows if fits and rows else {}


def made_as_there(run: report.Run, data: DataSet) -> bool:
    """Whether one run has AETTA's batches, precision, source model, method, resets and estimators."""
    facts = read_json(Path(run["folder"]) / PROVENANCE)
    same = facts["stream"], facts["batch_size"], facts["precision"]
    if not run["finished"] or same != (data.stream, BATCH, "32-true"):
        return False
    source = facts["weights_from"] or {}
    wanted = {key: value.format(seed=run["seed"]) for key, value in data.backbone.items()}
    if any(str(source.get(key, "")).partition("(")[0] != value for key, value in wanted.items()):
        return False
    for name, arguments in facts["estimators"].items():
        if not hasattr(callbacks, name):  # one of the user's own
            continue
        accepted = inspect.signature(getattr(callbacks, name)).parameters
        default = {k: p.default for k, p in accepted.items() if k != "source"}
        if any(arguments[key] != value for key, value in default.items() if key in arguments):
            return False
    name, _, scheme = run["method"].partition("-")
    ends = "", f"-{data.config}"
    files = (CONFIGS / "methods" / f"{name.lower()}-aetta{end}.yaml" for end in ends)
    config = next((yaml.safe_load(file.read_text()) for file in files if file.is_file()), None)
    resolved = yaml.safe_load((Path(run["folder"]) / "config.yaml").read_text())
    if config is None or not contains(resolved["model"], config["model"]):
        return False
    own = int("recovery" in config["model"]["init_args"])
    return facts["resets"][own:] == resets(scheme)


@cache
def resets(scheme: str) -> list[dict[str, Any]] | None:
    """The resets of one of Table 3's schemes as a provenance has them; None if there is no such scheme."""
    override = load("aetta-recovery")["overrides"].get(scheme)
    if override is None:
        return None
    listed = override.get("trainer", {}).get("callbacks", [])
    made = [getattr(callbacks, c["class_path"])(**c.get("init_args", {})) for c in listed]
    return [recovery_settings(callback) for callback in made if isinstance(callback, Recovery)]


def contains(whole: Any, part: Any) -> bool:
    """Whether nested mappings have all values of another one."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            key in whole and contains(whole[key], value) for key, value in part.items()
        )
    return whole == part


def complete(runs: list[report.Run], data: DataSet) -> bool:
    """Whether every method, with each seed, has seen all images of all corruptions."""
    seen: dict[tuple[str, int], dict[str, int]] = {}
    for run in runs:
        counts = seen.setdefault((run["method"], run["seed"]), {})
        for row in run["rows"]:
            counts[row["corruptions"]] = counts.get(row["corruptions"], 0) + BATCH
    return all(
        len(counts) == CORRUPTIONS
        and all(c.endswith("@5") and count >= data.images for c, count in counts.items())
        for counts in seen.values()
    )


def published(row: dict[str, Any], methods: list[str]) -> list[str]:
    """A published row under these methods, and its average if that is over the same ones."""
    average = row.get("Avg") if {*methods} == row.keys() - {"Avg"} else None
    return [text(value) for value in (*map(row.get, methods), average)]


def text(value: float | list[float] | None) -> str:
    """A published number as it is printed."""
    if value is None:
        return "-"
    return f"{value[0]:.2f} ± {value[1]:.2f}" if isinstance(value, list) else f"{value:.2f}"
