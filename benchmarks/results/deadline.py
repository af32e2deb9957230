"""What late predictions are worth: TEMPORA's continuous utility, from a record alone (arXiv 2602.06136)."""

import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ... import HoldfastError
from ...drawing import legend, panels, plot
from .groups import Groups
from .runs import Run

_Array = np.ndarray
_UNITS = {"ms": 1e-3, "s": 1.0}
_RATIO = 2.5  # of threshold and response time in the paper's tables: 100 ms and 39.9 ms
CURVE = (0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.7, 8.0)  # response times, in the source model's


class Continuous(NamedTuple):
    """utility = mean accuracy x timeliness + alignment."""

    utility: float
    timeliness: float  # the mean discount of the batches, in (0,1]
    alignment: float  # the covariance of accuracy and discount


def continuous(
    accuracy: _Array, ready: _Array, rest: _Array, response: float, threshold: float
) -> Continuous:
    """TEMPORA's continuous utility of batches [n], exactly as its code computes it.

    Args:
        accuracy: of each batch, in [0,1].
        ready: time until the logits of a batch are ready.
        rest: time that the step takes after that, for which the next batch waits.
        response: the time of a prediction that is not late.
        threshold: the time after which a prediction is worth half.
    """
    waits = np.r_[0.0, rest[:-1]]
    overhead = np.maximum(0.0, waits + ready - response)
    discount = 1.0 / (1.0 + 1.0 / (threshold - response) * overhead)
    timeliness, alignment = np.mean(discount), np.cov(accuracy, discount)[0, 1]
    return Continuous(
        float(np.mean(accuracy) * timeliness + alignment), float(timeliness), float(alignment)
    )


def at_response(accuracy: _Array, ready: _Array, ended: _Array, response: float) -> Continuous:
    """`continuous` of batches [n] from when their logits were ready and their steps ended."""
    rest = np.maximum(0.0, ended - ready)
    return continuous(accuracy, ready, rest, response, _RATIO * response)


class Limit(NamedTuple):
    """The time that a prediction may take: in seconds, or in the source model's own time."""

    value: float
    absolute: bool

    @classmethod
    def parse(cls, text: str) -> "Limit":
        """From `1.5`, the source model's time 1.5 times, or `50ms` or `0.1s`.

        Raises HoldfastError if it is neither.
        """
        match = re.fullmatch(r"([0-9.]+(?:e-?[0-9]+)?)\s*(ms|s|)", text.strip())
        try:
            value = float(match[1]) if match else 0.0
        except ValueError:
            value = 0.0
        if not match or value <= 0:
            raise HoldfastError(
                f"--deadline {text}: pass a multiple of the source model's time (1.5) or a time (50ms)."
            )
        return cls(value * _UNITS.get(match[2], 1.0), bool(match[2]))


def utility(run: Run, limit: Limit) -> Continuous | None:
    """The continuous utility of a run; None without times or labels, or a source model it refers to.

    The source model's time is the median over its own run of the times until logits were ready.
    """
    unit = 1.0 if limit.absolute else _source_seconds(run)
    accuracy, ready, ended = map(run.column, ("accuracy", "logits_ready", "update_ended"))
    known = ~np.isnan(accuracy + ready + ended)
    if unit is None or known.sum() < 2:
        return None
    return at_response(accuracy[known], ready[known], ended[known], limit.value * unit)


def _source_seconds(run: Run) -> float | None:
    times = np.array([]) if run.source is None else run.source.column("logits_ready")
    return None if np.isnan(times).all() else float(np.nanmedian(times))


class Discrete(NamedTuple):
    """The shares of all arriving images that were classified correctly, and that were classified."""

    utility: float
    availability: float


def discrete(correct: float, processed: int, arriving: int) -> Discrete:
    """TEMPORA's discrete utility, from numbers of images, exactly as its code computes it."""
    return Discrete(correct / arriving, 1 - (arriving - processed) / arriving)


def discrete_utility(run: Run) -> Discrete | None:
    """The discrete utility of a finished run on a `Deadline` stream; None for other runs."""
    for wrapper in run.provenance.get("wrappers") or ():
        if wrapper["wrapper"] == "Deadline" and wrapper["arriving"] and run.finished:
            correct = round((run.accuracy_per_image or 0.0) * run.images)
            return discrete(correct, run.images, wrapper["arriving"])
    return None


def curves(settings: Groups) -> list[dict[str, Any]]:
    """The mean utility of each method in each setting at each response time of `CURVE`."""
    rows: list[dict[str, Any]] = []
    for setting, methods in settings.items():
        for method, runs in methods.items():
            for rho in CURVE:
                limit = Limit(rho, absolute=False)
                known = [u.utility for run in runs if run.begun and (u := utility(run, limit))]
                if known:
                    entry = {"setting": setting, "method": method, "rho": rho}
                    rows.append(entry | {"utility": float(np.mean(known))})
    return rows


def draw(settings: Groups, path: Path) -> Path | None:
    """Draw `curves`, with one panel per setting; returns the path, or None if there is no curve."""
    rows = curves(settings)
    names = list(dict.fromkeys(row["setting"] for row in rows))
    if not names:
        return None
    from .figure import styles_of  # deferred: slow import

    styles = styles_of(settings)
    with panels(path, len(names), min(len(names), 3), sharex=True) as (figure, axes):
        for ax, name in zip(axes, names, strict=True):
            for method in dict.fromkeys(row["method"] for row in rows if row["setting"] == name):
                points = [r for r in rows if (r["setting"], r["method"]) == (name, method)]
                x, y = [r["rho"] for r in points], [100 * r["utility"] for r in points]
                plot(ax, x, y, method, styles[method])
            ax.set_xscale("log", base=2)
            ax.set(title=name, xlabel="response time, multiple of Source", ylabel="utility, %")
        legend(figure, axes)
    return path
