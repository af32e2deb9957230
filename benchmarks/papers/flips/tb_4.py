"""Table B.4: another architecture, with the f of the first and with one of its own, and COT."""

from ...results.runs import Run
from ..artefact import Artefact
from ..rdumb import WIDTHS
from ..table import Claim, Table
from .families import METHODS, Column, and_more, errors_of, fitted, less, of_variant, parted

OTHER = ("ViT", "width8")  # what the suites of either scale call it


def table(runs: list[Run]) -> Table:
    """Mean absolute errors: data sets down, estimators across."""
    held, rest = parted(runs)
    first = fitted(of_variant(held))
    own_held, own = ([p for p in part if p.run.override in OTHER] for part in (held, rest))
    return errors_of(
        {
            "WF": Column(own, first),
            "WF (refit f)": Column(own, fitted(own_held)),
            "COT": Column(own, first, "COT"),
        }
    )


ARTEFACT = Artefact(
    name="flips/TB.4",
    shows="errors for another architecture: weighted flips, with f fitted again, and COT",
    suites=and_more("architectures"),
    of_runs=table,
    claims=(
        Claim("f fitted again has less error", lambda t: [less(t, "WF (refit f)", "WF")]),
        Claim("weighted flips have less error than COT", lambda t: [less(t, "WF", "COT")]),
    ),
    only={"method": METHODS, "override": ("", *OTHER)},
    published="TB.4",
    trains={file: words for file, words in WIDTHS.items() if OTHER[1] in file},
    remark="The thesis' other architecture is a ViT-B/16; embedded, it is the network at half the width.",
)
