"""AETTA's setting (section 4, appendix B): which runs its Tables 1 to 3 may stand beside."""

import inspect
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from ...results.corruptions import Pairs, pairs_of
from ...results.runs import Run, grouped
from ...suites import grid
from ..published import contains, table, text

Rows = dict[str, dict[str, Any]]
CORRUPTIONS, BATCH, SEVERITY = 15, 64, 5


class DataSet(NamedTuple):
    """One of AETTA's data sets, at severity 5."""

    stream: str  # the class of its datamodule
    images: int  # of each corruption, at least
    weights: dict[str, str]  # what a provenance says of the source model; {seed} is the run's
    suite: str  # that has the methods' settings for it


CIFAR = {"epochs": "200", "seed": "{seed}"}
CIFAR10 = DataSet(
    stream="CIFARC",
    images=9_900,
    weights={**CIFAR, "net": "CIFARResNet18(10)", "name": "cifar10"},
    suite="aetta-cifar10",
)
CIFAR100 = DataSet(
    stream="CIFARC",
    images=9_900,
    weights={**CIFAR, "net": "CIFARResNet18(100)", "name": "cifar100"},
    suite="aetta-cifar100",
)
IMAGENET = DataSet(
    stream="ImageSet",
    images=49_900,
    weights={"name": "torchvision/resnet18.IMAGENET1K_V1"},
    suite="aetta-imagenet",
)
# The tables' rows by their names, which are those of the settings in the suites.
ERRORS = {
    "Fully CIFAR10-C": ("T1", CIFAR10),
    "Fully CIFAR100-C": ("T1", CIFAR100),
    "Fully ImageNet-C": ("T1", IMAGENET),
    "Continual CIFAR10-C": ("T2", CIFAR10),
    "Continual CIFAR100-C": ("T2", CIFAR100),
    "Continual ImageNet-C": ("T2", IMAGENET),
}
GAINS = "Continual CIFAR100-C"  # Table 3 does not name its data set: it is this one


def published_errors(runs: list[Run]) -> Rows:
    """Tables 1 and 2, the rows for the runs' setting; {} unless they were all made as there."""
    name, data = ERRORS.get(runs[0].setting, ("", None))
    if data is None or difference(runs, data):
        return {}
    return table("aetta", name)[runs[0].setting]


def published_gains(runs: list[Run]) -> Rows:
    """Table 3, {} unless the runs were all made as there."""
    if runs[0].setting != GAINS or difference(runs, CIFAR100):
        return {}
    return table("aetta", "T3")


def remark(runs: list[Run]) -> str | None:
    """Why AETTA's numbers are not beside runs of one of its settings; None of others."""
    if not runs or runs[0].setting not in ERRORS:
        return None
    _, data = ERRORS[runs[0].setting]
    found = difference(runs, data)
    return found and f"(AETTA's numbers are left out, since these runs differ: {found})"


def difference(runs: list[Run], data: DataSet) -> str | None:
    """The first thing in which runs differ from AETTA's setting, None if they do in nothing.

    Its setting is: source models, methods, resets and estimators with its arguments, its data set at
    severity 5 with all corruptions and images, batches of 64, and float32.
    """
    for run in runs:
        if found := difference_of(run, data):
            return f"{run.folder}: {found}"
    return None if complete(runs, data) else "not all images of all corruptions were seen"


def difference_of(run: Run, data: DataSet) -> str | None:
    """The first thing in which one run differs, apart from the images that it saw."""
    facts = run.provenance
    if not run.finished:
        return "it is not finished"
    for key, value in {
        "stream": data.stream,
        "batch_size": BATCH,
        "precision": "32-true",
    }.items():
        if facts.get(key) != value:
            return f"{key} is {facts.get(key)}, not {value}"
    source = facts.get("weights_from") or {}
    for key, wanted in data.weights.items():
        if source.get(key) != (value := wanted.format(seed=run.seed)):
            return f"the source model's {key} is {source.get(key)}, not {value}"
    if name := changed_estimator(facts["estimators"]):
        return f"{name} has other arguments"
    methods = grid.load(data.suite)["methods"]
    if run.method not in methods:
        return f"{run.method} is none of its methods"
    model = grid.named(methods[run.method], "methods", "model")
    if not contains(run.config.get("model"), model):
        return f"{run.method} has other arguments"
    of_method = int("recovery" in model["init_args"])
    return resets_difference(facts["resets"][of_method:], run.override)


def resets_difference(stated: list[Any], scheme: str) -> str | None:
    """How the resets of a provenance differ from those of one of Table 3's schemes; "" is none."""
    expected = resets(scheme)
    if expected is None:
        return f"{scheme} is none of its recovery schemes"
    if any(isinstance(reset, str) for reset in stated):
        return "its resets are stated as an earlier version did, and cannot be compared"
    same = len(stated) == len(expected) and all(
        {**defaults(reset["class"]), **reset} == settings
        for reset, settings in zip(stated, expected, strict=True)
    )
    return None if same else f"resets are {stated}, not those of {scheme or 'no recovery'}"


def changed_estimator(estimators: dict[str, dict[str, Any]]) -> str | None:
    """The first estimator of AETTA's that does not have the defaults, which are AETTA's."""
    from .... import callbacks

    for name, arguments in estimators.items():
        if not hasattr(callbacks, name):  # one of the user's own
            continue
        usual = defaults(name).items()
        if any(arguments[key] != value for key, value in usual if key in arguments):
            return name
    return None


@cache
def resets(scheme: str) -> list[dict[str, Any]] | None:
    """Class and arguments of the resets of one of Table 3's schemes; None if there is no such scheme."""
    from .... import callbacks

    override = grid.load("aetta-recovery")["overrides"].get(scheme)
    if override is None:
        return None
    found = []
    for listed in override.get("trainer", {}).get("callbacks", []):
        name, given = listed["class_path"], listed.get("init_args", {})
        if not issubclass(getattr(callbacks, name), callbacks.AccuracyEstimator):
            found.append({"class": name, **defaults(name), **given})
    return found


def defaults(name: str) -> dict[str, Any]:
    """The arguments of a callback of ours that it has if none are given."""
    from .... import callbacks

    accepted = inspect.signature(getattr(callbacks, name)).parameters
    return {key: p.default for key, p in accepted.items() if p.default is not p.empty}


def complete(runs: list[Run], data: DataSet) -> bool:
    """Whether every method, with each seed, has seen all images of all corruptions."""
    return all(
        len(seen := images_seen(same)) == CORRUPTIONS and min(seen.values()) >= data.images
        for same in grouped(runs, lambda run: (run.variant, run.seed)).values()
    ) and {SEVERITY} == {level for run in runs for _, level in corruptions(run)}


def images_seen(runs: list[Run]) -> dict[Pairs, int]:
    """Of each corruption, in batches of 64, by all of these runs."""
    seen: dict[Pairs, int] = {}
    for run in runs:
        for row in run.rows:
            pairs = pairs_of(row)
            seen[pairs] = seen.get(pairs, 0) + BATCH
    return seen


def corruptions(run: Run) -> list[tuple[str, float]]:
    """Every corruption and severity in the run's stream."""
    return [(name, level) for part in run.provenance["parts"] for name, level in part[0]]


def row(published: dict[str, Any], methods: Sequence[str]) -> list[str]:
    """A published row under these methods, and its average if that is over the same ones."""
    average = published.get("Avg") if {*methods} == published.keys() - {"Avg"} else None
    return [text(value) for value in (*map(published.get, methods), average)]
