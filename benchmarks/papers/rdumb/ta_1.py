"""Table A.1: how many severity pairs the walks from one corruption to the next have (thesis, app. A)."""

from statistics import mean, median

from ...suites.cell import Cell
from ..artefact import Artefact
from ..table import Claim, Table

MEASURES = ("min", "max", "mean", "median")


def table(scale: str, cells: list[Cell]) -> Table:
    """Difficulties by minimum, maximum, mean and median length, from the calibration of the streams."""
    from ....datamodules import Calibration  # here: it imports torch
    from ....datamodules.ccc import target_of
    from ...paths import lengths

    rows = {}
    for cell in cells:
        name, stream = str(cell.names["setting"]), cell.config["data"]["init_args"]
        if name not in rows:
            calibration = Calibration.load(stream["calibration"])
            found = lengths(calibration, target_of(stream["difficulty"]), stream.get("corruptions"))
            numbers = (min(found), max(found), mean(found), median(found))
            cells_of_row = zip(MEASURES, numbers, strict=True)
            rows[name] = {measure: {"walks": float(number)} for measure, number in cells_of_row}
    return Table(list(MEASURES), rows, "severity pairs in a walk", exact=True)


ARTEFACT = Artefact(
    name="rdumb/TA.1",
    shows="lengths of CCC's walks between two corruptions",
    suites={"embedded": ("rdumb/ccc-glyphs",), "full": ("rdumb/ccc",)},
    computed=table,
    claims=(
        Claim(
            "the harder the stream, the longer its walks",
            lambda t: [
                t.gain("CCC-Medium", "CCC-Easy", "mean"),
                t.gain("CCC-Hard", "CCC-Medium", "mean"),
            ],
        ),
    ),
    published="TA.1",
    remark="Nothing runs for this table: lengths follow from the calibration and the difficulty.",
)
