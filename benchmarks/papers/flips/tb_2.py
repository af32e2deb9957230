"""Table B.2: weighted flips and COT with few held images, and with few images of each data set."""

from ...results.runs import Run
from ..artefact import Artefact
from ..table import Claim, Table
from .families import METHODS, Column, and_more, errors_of, fitted, less, of_variant, parted

FEW = 100  # held images
LIMITED = "limited"  # the override, and the suite that adds it


def table(runs: list[Run]) -> Table:
    """Mean absolute errors: data sets down, estimators across; one f for all."""
    held, rest = parted(runs)
    f = fitted(of_variant(held))
    whole, limited = of_variant(rest), of_variant(rest, override=LIMITED)
    few = [point.recounted(held=FEW) for point in whole]
    return errors_of(
        {
            "COT original": Column(whole, f, "COT"),
            "WF original": Column(whole, f),
            "WF limited mem": Column(few, f),
            "COT limited mem/data": Column(limited, f, "COT"),
            "WF limited mem/data": Column(limited, f),
        }
    )


ARTEFACT = Artefact(
    name="flips/TB.2",
    shows="weighted flips and COT with 100 held images, and with few images of each data set",
    suites=and_more(LIMITED),
    of_runs=table,
    claims=(
        Claim(
            "with little data weighted flips have less error than COT",
            lambda t: [less(t, "WF limited mem/data", "COT limited mem/data")],
        ),
    ),
    only={"method": METHODS},
    published="TB.2",
)
