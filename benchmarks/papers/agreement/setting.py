"""The ensembles of Saxena et al. 2024 at the embedded scale, and the table of what they show."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from ..artefact import Artefact
from ..table import Table
from .evidence import Ensemble, Evidence, Seen, evidence
from .terms import Statement, claims, measured

# Accuracy lies on a line under LINEAR; under OFF it does not, as the paper says of iWildCam and Camelyon17.
LINEAR, OFF = ("gaussian_noise", "glass_blur", "fog"), ("contrast",)
COLUMNS = (
    *("accuracy slope", "agreement slope", "accuracy bias", "agreement bias"),
    *("accuracy R²", "agreement R²", "excess ID", "excess OOD", "ALine-S error"),
)
REMARK = (
    "A mechanism check, not a reproduction: small images, the embedded net of glyphs as foundation model, "
    "corruptions of severity 5 as shifts. Lines are on probit axes; excess is mean agreement less mean "
    "accuracy, in points, as is the error of ALine-S. Head, order and subset are what differs between the "
    "models of an ensemble, with the share of the images that each is trained on. Differences are above 0 "
    "where a claim holds; pairs are seeds, and intervals are over seeds and models drawn anew."
)


def glyphs(source: str) -> Ensemble:
    """Linear probes of 50 glyph classes."""
    return Ensemble("glyphs", ("probe",), source)


def digits(name: str, source: str = "head-1") -> Ensemble:
    """Models of ten digits."""
    return Ensemble("digits", (name,), source)


SOURCES = ("head-1", "order-1", "subset-0.1")
PROBES = [glyphs(source) for source in SOURCES]
FAIR = [glyphs(source) for source in ("head-0.1", "order-0.1", "subset-0.1")]
WHOLE = {
    name: [digits(name, source) for source in SOURCES] for name in ("probe", "finetune", "scratch")
}


def lines_artefact(
    name: str,
    shows: str,
    ensembles: Sequence[Ensemble],
    statements: Sequence[Statement],
    drawn: Mapping[str, Sequence[Ensemble]],
    remark: str = "",
) -> Artefact:
    """A figure of both lines: `drawn` says which ensembles are shown on which shift, with seed 0."""

    def of_ensembles(folders: list[Path]) -> Table:
        found = evidence(folders, ensembles)
        table = lines_table(found)
        table.intervals = measured(statements, found)
        for shift, own in drawn.items():
            for ensemble in own:
                seeds = found.get(ensemble, {}).get(shift, {})
                if seeds:
                    seed = min(seeds)
                    table.points[f"{ensemble}\n{shift}, seed {seed}"] = seeds[seed].points
        return table

    return Artefact(
        name=name,
        shows=shows,
        suites={"embedded": tuple(dict.fromkeys(ensemble.file for ensemble in ensembles))},
        of_ensembles=of_ensembles,
        claims=claims(statements),
        remark=f"{REMARK} {remark}".strip(),
    )


def lines_table(found: Evidence) -> Table:
    """Both lines of each ensemble on each shift, a number for each seed."""
    table = Table(list(COLUMNS), {}, "slopes, biases and R² as they are, the rest in points")
    for ensemble, by_shift in found.items():
        for shift, by_seed in by_shift.items():
            for seed, seen in by_seed.items():
                for column, number in zip(COLUMNS, numbers(seen), strict=True):
                    table.add(f"{ensemble}, {shift}", column, f"seed {seed}", number)
    return table


def numbers(seen: Seen) -> Iterable[float]:
    """Those of the columns."""
    own = seen.own
    lines = np.stack([own.accuracy[0], own.agreement[0]], 1).ravel()
    return [round(float(v), 4) for v in (*lines, *(100 * own.excess[0]), 100 * own.error[0])]
