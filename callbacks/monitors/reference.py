"""Reference outputs without a shift, so that monitors need no hand-set thresholds."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ... import HoldfastError
from ...files import read_json, write_json
from ..functional.confidence import max_confidence, probabilities
from ..functional.sequences import exact_upper
from ..functional.suitability import Correctness, Sample

Array = np.ndarray
FEWEST = 20  # images on each side of the split


@dataclass(frozen=True)
class Reference:
    """Outputs on held-out labelled source images, or on the trusted start of a stream.

    One half of the images gives the threshold and the regression; the other half gives the values to
    compare with, which are therefore not optimistic. A prediction is doubtful if its largest probability is
    at most `threshold`: in the first half, as many predictions are doubtful as are wrong (ATC's
    threshold) or, without labels, as are wrong according to the mean confidence.
    """

    images: int  # of the second half, as are the following
    threshold: float
    doubtful: int  # predictions that are doubtful
    at_fault: int | None  # doubtful or wrong; None without labels
    wrong: int | None
    largest_class: int  # images that are predicted to be of the most frequent class
    classes: int
    correctness: Correctness | None = None
    sample: Sample | None = None  # of the probabilities of being right

    @classmethod
    def fit(cls, logits: Array, labels: Array) -> "Reference":
        """From logits [n,C] and labels [n] of images that the model was not trained on, in random order.

        Raises:
            HoldfastError: if there are fewer than 40 images, or the logits are not finite.
        """
        classes, confidence = np.argmax(logits, 1), max_confidence(probabilities(logits))
        correct = classes == labels
        found = cls.from_answers(confidence, classes, logits.shape[1], correct)
        half = len(labels) // 2
        if correct[:half].all() or not correct[:half].any():
            return found  # a regression needs both
        model = Correctness.fit(logits[:half], correct[:half])
        return replace(found, correctness=model, sample=model.sample(logits[half:]))

    @classmethod
    def from_answers(
        cls, confidence: Array, classes: Array, number: int, correct: Array | None = None
    ) -> "Reference":
        """From largest probabilities [n] and predicted classes [n] out of `number`, in random order.

        correct: whether predictions are right [n]; None: unknown, as at the start of a stream.

        Raises HoldfastError if there are fewer than 40 images.
        """
        half = len(confidence) // 2
        if half < FEWEST or not np.isfinite(confidence).all():
            raise HoldfastError(
                f"A reference needs {2 * FEWEST} images with finite logits and has {len(confidence)}. "
                "Give it more images, or a model whose logits are finite."
            )
        fit, rest = confidence[:half], confidence[half:]
        share = 1 - (fit.mean() if correct is None else correct[:half].mean())
        threshold = float(np.sort(fit)[max(1, round(share * half)) - 1])
        wrong = None if correct is None else ~correct[half:]
        return cls(
            images=len(rest),
            threshold=threshold,
            doubtful=int((rest <= threshold).sum()),
            at_fault=None if wrong is None else int((wrong | (rest <= threshold)).sum()),
            wrong=None if wrong is None else int(wrong.sum()),
            largest_class=int(np.bincount(classes[half:]).max()),
            classes=number,
        )

    @property
    def accuracy(self) -> float | None:
        """The accuracy on the labelled images of the second half."""
        return None if self.wrong is None else 1 - self.wrong / self.images

    def limit(self, proxy: str, alpha: float) -> float:
        """The upper bound at level alpha that a monitored share is compared with.

        "confidence": of being doubtful or wrong where there are labels. As P(doubtful) is at most
        P(wrong) + P(doubtful and right), a share of doubtful predictions beyond it says that the risk
        exceeds the source's, unless right predictions have become more doubtful than they were on the
        source (the assumption of Schirmer et al. 2025). Without labels: of being doubtful.
        "concentration": of the class that is predicted most often, for all classes at once. "labels":
        of being wrong.

        Raises:
            HoldfastError: for "labels", if the reference has none.
        """
        if proxy == "labels":
            if self.wrong is None:
                raise HoldfastError(
                    "The reference was fitted without labels. Fit it to labelled images with Reference.fit."
                )
            return exact_upper(self.wrong, self.images, alpha)
        if proxy == "concentration":
            return exact_upper(self.largest_class, self.images, alpha / self.classes)
        counted = self.doubtful if self.at_fault is None else self.at_fault
        return exact_upper(counted, self.images, alpha)

    def as_json(self) -> dict[str, Any]:
        """The reference as plain values, for checkpoints and files."""
        model, sample = self.correctness, self.sample
        plain = {
            "correctness": model and list(model),
            "sample": sample and list(sample),
        }
        return vars(self) | plain

    @classmethod
    def read(cls, content: dict[str, Any]) -> "Reference":
        """From `as_json`, perhaps read from a JSON file."""
        own = dict(content)
        if own["correctness"] is not None:
            weights, bias, covariance = own["correctness"]
            n, mean, squares, slope = own["sample"]
            own |= {
                "correctness": Correctness(tuple(weights), bias, tuple(map(tuple, covariance))),
                "sample": Sample(n, mean, squares, tuple(slope)),
            }
        return cls(**own)

    def save(self, path: str | Path) -> None:
        """Write it as JSON."""
        write_json(Path(path), self.as_json())

    @classmethod
    def load(cls, path: str | Path) -> "Reference":
        """Read a file that `save` has written.

        Raises:
            HoldfastError: if the file is not such a reference.
        """
        content = read_json(Path(path))
        if not content.keys() >= {"threshold", "doubtful"}:
            raise HoldfastError(
                f"{path} does not contain a reference. Pass a file that Reference.save has written."
            )
        return cls.read(content)
