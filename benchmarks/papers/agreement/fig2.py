"""The same sources of diversity in probes, light finetuning and training from scratch (section 3)."""

from .fig1 import RANKED
from .setting import LINEAR, WHOLE, lines_artefact
from .terms import Statement, Term, each, error, less, slope_gap

NEAR = 0.15  # slopes that differ by less are called the same
IN_WORDS = {"finetune": "light full finetuning", "scratch": "training from scratch"}


def gap(training: str, other: int, weight: float = 1) -> list[Term]:
    """How much more ALine-S errs with another source than with random heads."""
    own = WHOLE[training]
    return [Term(weight, error, own[other], LINEAR), Term(-weight, error, own[0], LINEAR)]


ARTEFACT = lines_artefact(
    name="agreement/Fig2",
    shows="light finetuning and training from scratch against probes (C2, C3)",
    ensembles=[ensemble for own in WHOLE.values() for ensemble in own],
    statements=[
        *(
            Statement(
                f"C2: {IN_WORDS['finetune']}: {what} is nearest with random heads",
                less(of, WHOLE["finetune"][0], WHOLE["finetune"][1:], LINEAR),
            )
            for what, of in RANKED
        ),
        *(
            Statement(
                f"{key}: random heads gain less in {IN_WORDS[training]} than in probes",
                [[*gap("probe", other), *gap(training, other, -1)] for other in (1, 2)],
            )
            for key, training in (("C2", "finetune"), ("C3", "scratch"))
        ),
        Statement(
            f"C3: from scratch the slopes differ by less than {NEAR} with each source",
            each(slope_gap, WHOLE["scratch"], LINEAR, -1),
            -NEAR,
        ),
    ],
    drawn={"fog": [ensemble for own in WHOLE.values() for ensemble in own]},
)
