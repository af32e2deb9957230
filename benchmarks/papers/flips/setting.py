"""The thesis' setting for whole data sets: which runs its Tables 3.1, 3.2, B.1 to B.3 may stand beside."""

from pathlib import PurePath
from typing import Any, NamedTuple

from ....callbacks.functional.flips import PUBLISHED, FlipFunction
from ....datamodules.families import FAMILIES
from ...results.runs import Run
from ..published import contains, table

RESNET50 = "torchvision/resnet50.IMAGENET1K_V1"
STOPS = (990, 1000)  # in the official code, in the text
WF = {"held": 1000, "data": None}
LIMITED = {"held": 100, "data": 1000}
# f is fitted to ImageNet-C's four extra corruptions at all severities, and to clean images.
HOLDOUT = ("speckle_noise", "gaussian_blur", "spatter", "saturate")
AVERAGES = ("Average", "Worst case", "Average (worst excluded)")
DOMAINS = ("real", "painting", "clipart", "sketch", "infograph", "quickdraw")


class Row(NamedTuple):
    """What a row of the thesis' tables stands for."""

    family: str  # name in FAMILIES, or "ccc"
    part: str | None = None  # one set of it; None: all


# By their names, which are those of the settings in the suites.
ROWS = {
    "IN-C": Row("imagenet-c"),
    "IN-C-bar": Row("imagenet-c-bar"),
    "IN-3DCC": Row("imagenet-3dcc"),
    "CCC": Row("ccc"),
    "Stylized": Row("stylized"),
    "IN-V2": Row("imagenet-v2"),
    "IN-Sketch": Row("imagenet-sketch"),
    "IN-R": Row("imagenet-r"),
    **{f"IN-D {name.title()}": Row("imagenet-d", name) for name in DOMAINS},
    "Cartoon & Drawing": Row("cartoon-drawing"),
    "BG Challenge": Row("bg-challenge"),
    "IN-A": Row("imagenet-a"),
    "IN-C Patch": Row("imagenet-c-patch"),
    "IN-Hard": Row("imagenet-hard"),
    "Patch-IN": Row("imagenet-patch"),
    "IN-Obfuscations": Row("obfuscations"),
    "ObjectNet": Row("objectnet"),
    "NINCO": Row("ninco"),
}
# Methods of Table B.3, all with SGD, momentum 0.9, and these learning rates.
RATES = {"RDumb": 2.5e-4, "Tent": 2.5e-4, "RPL": 5e-4, "CPL": 1e-3}
# Weights of Table 3.2 as a provenance names them; of a file, the name alone. Which weights the thesis' two
# transformers had, it does not say: these are timm's own.
BACKBONES = {
    "RN50": RESNET50,
    "RN18": "torchvision/resnet18.IMAGENET1K_V1",
    "RN34": "torchvision/resnet34.IMAGENET1K_V1",
    "RN50+ANT": "torchvision/resnet50:ANT.pth",
    "RN50+AugMix": "torchvision/resnet50:augmix.pth.tar",
    "RN50+AugMix+DeepAug": "torchvision/resnet50:deepaugment_and_augmix.pth.tar",
    "RNXt101": "torchvision/resnext101_32x8d.IMAGENET1K_V1",
    "RNXt101+DeepAug": "torchvision/resnext101_32x8d:resnext101_augmix_and_deepaugment.pth.tar",
    "ViT-B/16": "timm/vit_base_patch16_224.augreg_in21k_ft_in1k",
    "MaxViT-T": "timm/maxvit_tiny_tf_224.in1k",
}
# Columns whose names cannot be those of a folder, by the names that the suite has for them.
COLUMNS = {"ViT": "ViT-B/16"}
# Of CCC, the first images of each of its 27 streams.
CCC_IMAGES = 25_000
CCC_STREAMS = {
    (difficulty, speed, seed)
    for difficulty in ("easy", "medium", "hard")
    for speed in (1000, 2000, 5000)
    for seed in (43, 44, 45)
}


def published_errors(
    name: str,
    column: str,
    settings: dict[str, list[Run]],
    flips: dict[str, Any] | None = None,
    images: int | None = None,
) -> dict[str, float]:
    """The column of a table of the thesis, for those settings whose adapting runs were made as there.

    That is: all sets of the family in batches of 64, the backbone's weights, and for flips the method,
    its learning rate, and the settings of WeightedFlips that are given; for the others that many images
    of each set, or all.
    """
    rows = table("flips", name)
    other = BACKBONES["ViT-B/16"] if name == "TB.4" else RESNET50
    backbone = BACKBONES.get(column, None if name == "T3.2" else other)
    good = {
        setting: rows[setting][column]
        for setting, runs in settings.items()
        if setting in rows
        and column in rows[setting]
        and complete(setting, runs)
        and all(as_published(run, backbone, flips, images) for run in runs)
    }
    if set(rows) - set(AVERAGES) == set(good) == set(settings):
        good |= {average: rows[average][column] for average in AVERAGES if average in rows}
    return good


def fitted_as_published(f: FlipFunction) -> bool:
    """Whether it is the thesis' f, or fitted to the same data sets."""
    if f is PUBLISHED["resnet50"]:
        return True
    fitted_to = {
        (stream, tuple((PurePath(name).name, level) for name, level in corruptions))
        for stream, corruptions in f.provenance.get("data", [])
    }
    levels = {("ImageSet", ((name, level),)) for name in HOLDOUT for level in range(1, 6)}
    return fitted_to == {("Clean", ()), *levels}


def complete(setting: str, runs: list[Run]) -> bool:
    """Whether each seed has all sets of a row."""
    row = ROWS.get(setting)
    if row is None:
        return False
    sets: dict[int | None, set[object]] = {}
    for run in runs:
        found = set_of(row, run.config.get("data", {}))
        if found is None:
            return False
        sets.setdefault(run.seed, set()).add(found)
    if row.family == "ccc":
        return all(found == CCC_STREAMS for found in sets.values())
    return all(len(s) == (1 if row.part else FAMILIES[row.family].sets) for s in sets.values())


def set_of(row: Row, data: dict[str, Any]) -> object | None:
    """Which of a row's sets these data are; None if they are none of them."""
    arguments = data.get("init_args", {})
    if row.family == "ccc":
        walk = arguments.get("stream", {})
        whole = contains(arguments, {"pool": CCC_IMAGES, "top": 0, "entropy": 0})
        if class_of(data) != "Omitting" or class_of(walk) != "CCC" or not whole:
            return None
        return tuple(walk["init_args"].get(name) for name in ("difficulty", "speed", "seed"))
    parts = arguments.get("parts") or ["all"]
    if class_of(data) != "ImageSet" or len(parts) != 1 or arguments["name"] != row.family:
        return None
    return None if row.part and parts != [row.part] else parts[0]


def class_of(config: dict[str, Any]) -> str:
    return config.get("class_path", "").rpartition(".")[2]


def as_published(
    run: Run, backbone: str | None, flips: dict[str, Any] | None, images: int | None
) -> bool:
    """Whether one run has the thesis' weights, batches, and where flips count, method and settings."""
    facts = run.provenance
    if facts["batch_size"] != 64 or weights_name(facts) != backbone:
        return False
    if flips is None:
        assert run.source is not None
        all_images = facts["parts"][0][-1] if "parts" in facts else facts["omitting"]["left"]
        return run.source.summary.get("collected_images") == (images or all_images)
    settings, rate = facts["estimators"]["WeightedFlips"], RATES.get(facts["method"])
    resets = [{"class": "PeriodicReset", "every": 1000}] if facts["method"] == "RDumb" else []
    stated = [
        {k: v for k, v in r.items() if (k, v) != ("keep_memory", False)} for r in facts["resets"]
    ]
    sgd = {"class": "SGD", "lr": rate, "momentum": 0.9, "maximize": False}
    return (
        contains(settings, flips)
        and settings["stop"] in STOPS
        and stated == resets
        and contains(facts["optimizer"], sgd)
    )


def weights_name(facts: dict[str, Any]) -> str | None:
    """What the weights of a run are called, without the folder of a file."""
    name = (facts["weights_from"] or {}).get("name")
    architecture, colon, file = (name or "").partition(":")
    return f"{architecture}:{PurePath(file).name}" if colon else name


def remark(runs: list[Run]) -> str | None:
    """Why the published numbers of flips are not beside these runs, if that is for their age."""
    old = [run for run in runs if isinstance(run.provenance["optimizer"], str)]
    if not any(run.setting in ROWS for run in old):
        return None
    return (
        f"(the thesis' numbers are left out: {len(old)} of these runs state their optimizer as an earlier "
        "version did, and it cannot be compared)"
    )
