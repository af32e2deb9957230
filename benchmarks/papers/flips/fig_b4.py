"""Figure B.4: how many images are left without the top k, and how certain the others are (thesis B.7)."""

from functools import partial

from ..artefact import Artefact
from ..table import Claim
from .omission import ENTROPIES, LEFT, sizes

OF_LEFT, OF_OMITTED, OF_ALL = ENTROPIES

ARTEFACT = Artefact(
    name="flips/FigB.4",
    shows="images whose label is in the model's top k: their share and their entropy",
    suites={"embedded": ("flips/omission-glyphs",), "full": ("flips/omission",)},
    of_runs=partial(sizes, name="top", axis="k"),
    claims=(
        Claim(
            "what the model has right (k = 1) is more certain than the images as a whole",
            lambda t: [t.gain(OF_ALL, OF_OMITTED, "1")],
        ),
        Claim(
            "the larger k is, the fewer images are left, and the more uncertain ones",
            lambda t: [
                found
                for one, other in (("1", "5"), ("5", "50"))
                for found in (t.step(LEFT, one, other), t.step(OF_LEFT, other, one))
            ],
        ),
    ),
    only={"setting": ("top",)},
    published="FigB.4",
)
