"""Figure 2.1: CIN-C is short and uneven, CCC long and steady (thesis §2.1)."""

from ...results.runs import Run
from ..artefact import Artefact
from ..curves import over_images, spread
from ..table import Claim, Table
from . import BOTH

SHOWN = ("Source", "ETA", "CoTTA")


def table(runs: list[Run]) -> Table:
    """Accuracy of three methods over the stream, and how much the source model's varies."""
    found = over_images(runs, panel=lambda run: run.setting, rows=SHOWN)
    for name, values in spread(runs).items():
        mean = sum(values) / len(values)
        found.notes.append(f"{name}: the source model's accuracy varies by {mean:.1f} points (sd)")
    return found


ARTEFACT = Artefact(
    name="rdumb/Fig2.1",
    shows="source model, ETA and CoTTA over CIN-C and over CCC-Medium",
    suites=BOTH,
    of_runs=table,
    claims=(
        Claim(
            "at the end of CCC-Medium ETA and CoTTA are below the source model",
            lambda t: [
                t.gain("CCC-Medium: Source", f"CCC-Medium: {name}", t.columns[-1])
                for name in SHOWN[1:]
            ],
        ),
        Claim(
            "at the end of CIN-C they are not",
            lambda t: [
                t.gain(f"CIN-C: {name}", "CIN-C: Source", t.columns[-1]) for name in SHOWN[1:]
            ],
        ),
    ),
    only={"method": SHOWN, "setting": ("CIN-C", "CCC-Medium")},
    why=(
        "CoTTA hardly moves within the 750 batches of a stream here, as its average stays near the "
        "source model (see rdumb/T2.1)."
    ),
)
