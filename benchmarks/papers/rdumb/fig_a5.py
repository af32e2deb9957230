"""Figures A.5a and A.5b: with ten classes Tent does not collapse (thesis, app. A.6)."""

from ...results.runs import Run
from ..artefact import Artefact
from ..curves import over_images
from ..table import Claim, Table

SHOWN = ("Source", "BNAdapt", "Tent", "RDumb")


def table(runs: list[Run]) -> Table:
    """Accuracy over streams of ten classes."""
    return over_images(runs, panel=lambda run: run.setting, rows=SHOWN)


def streams(t: Table) -> list[str]:
    return list(dict.fromkeys(row.partition(": ")[0] for row in t.rows))


ARTEFACT = Artefact(
    name="rdumb/FigA.5",
    shows="ten classes again and again: Tent over a stream at severity 5, and over a gradual one",
    suites={"embedded": ("rdumb/ten-classes",), "full": ("rdumb/cifar10",)},
    of_runs=table,
    claims=(
        Claim(
            "Tent is above the source model in the second half of all streams",
            lambda t: [
                t.gain(f"{name}: Tent", f"{name}: Source", *t.columns[len(t.columns) // 2 :])
                for name in streams(t)
            ],
        ),
    ),
    remark="The paper's curves are of CIFAR-10-C, 100 million images. The embedded digits are 497 images "
    "that come up again and again. Their suite has a stream of CCC, too, which is not in the figure.",
    only={"setting": ("severity 5", "gradual")},
)
