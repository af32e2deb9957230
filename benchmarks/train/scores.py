"""A model's logits as the predictions and scores that are kept of it."""

import numpy as np

from ...callbacks.functional.confidence import negative_entropy, probabilities
from ...callbacks.functional.spans import best_answers, span_negative_entropy, span_probability
from ..results.predictions import Predictions

Array = np.ndarray


def scored(logits: Array, temperature: float, ids: Array, labels: Array) -> Predictions:
    """Classes and scores from logits [n,C]."""
    scores: dict[str, Array] = {}
    for end, t in (("", 1.0), ("_T", temperature)):
        probs = probabilities(logits, t)
        scores |= {f"confidence{end}": probs.max(1), f"entropy{end}": negative_entropy(probs)}
    classes = logits.argmax(1).astype(np.int32)
    return Predictions(ids, classes, labels.astype(np.int32), scores)


def scored_spans(
    starts: Array, ends: Array, temperatures: tuple[float, float], ids: Array, labels: Array
) -> Predictions:
    """Answers and scores from logits [n,N] of their first and last tokens."""
    answers = best_answers(starts, ends)
    scores: dict[str, Array] = {}
    for end, both in (("", (1.0, 1.0)), ("_T", temperatures)):
        scores[f"confidence{end}"] = span_probability(starts, ends, answers, both)
        scores[f"entropy{end}"] = span_negative_entropy(starts, ends, both)
    return Predictions(ids, answers.astype(np.int32), labels.astype(np.int32), scores)
