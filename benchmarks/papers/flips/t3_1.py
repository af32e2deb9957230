"""Table 3.1: errors of the estimated accuracy of whole data sets."""

from ...results.runs import Run
from ..artefact import Artefact
from ..table import Claim, Table
from .families import ESTIMATES, METHODS, SUITES, errors, fitted, less, parted, with_means


def table(runs: list[Run]) -> Table:
    """Mean absolute errors: data sets down, estimators across; f is fitted to the hold-out."""
    held, rest = parted(runs)
    f = fitted(held)
    columns = [*ESTIMATES, "WF"]
    return with_means(errors(rest, f) if f else {}, columns)


def ahead_of(other: str) -> Claim:
    """That weighted flips have less error than another estimator."""
    text = f"weighted flips have less error than {other}, over the data sets"
    return Claim(text, lambda t: [less(t, "WF", other)])


ARTEFACT = Artefact(
    name="flips/T3.1",
    shows="errors of AC, DoC, ATC, COT and weighted flips for whole data sets",
    suites=SUITES,
    of_runs=table,
    claims=tuple(map(ahead_of, ESTIMATES)),
    only={"method": METHODS},
    published="T3.1",
)
