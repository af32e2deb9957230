"""Titles and identifiers are matched as the official code does, and strictly."""

import json

import pytest
from common import GOLDEN

from holdfast.agents.matching import (
    identifiers,
    normalise,
    official_hit,
    official_match,
    ratio,
    strict_match,
)

MATCHES = json.loads((GOLDEN / "citeme" / "title_matching.json").read_text())


@pytest.mark.parametrize("pair", MATCHES["pairs"], ids=lambda p: p["title1"][:20])
def test_official_matcher_equals_the_official_code(pair):
    a, b = pair["title1"], pair["title2"]
    assert ratio(a, b) == pytest.approx(pair["ratio"], abs=1e-12)
    assert official_match(a, [b]) is pair["is_similar"]
    assert official_match(b, [a]) is pair["is_similar_swapped"]
    assert official_hit(a, [b]) is pair["is_similar_swapped"]
    assert official_match(a, [b], 0.9) is pair["is_similar_thr0_9"]


@pytest.mark.parametrize("case", MATCHES["lists"], ids=range(len(MATCHES["lists"])))
def test_official_search_hit_equals_the_official_code(case):
    for targets, match in [
        ([case["selected"]], case["match"]),
        (case["multi_selected"], case["multi_match"]),
    ]:
        hits = [k for k, title in enumerate(case["papers"]) if official_hit(title, targets)]
        assert bool(hits) == (match is not None)
        assert match is None or match[1] in hits


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ("Fast R-CNN", "Faster R-CNN", False),
        ("GPT-4 Technical Report", "GPT-4V Technical Report", False),
        ("Language models are few-shot learners", "Language models are zero-shot learners", False),
        ("Attention Is All You Need", "Attention Is Not All You Need", False),
        ("Deep Learning in Image Recognition", "Deep Learning in Image Steganalysis", False),
        ("Llama 2: Open models", "Llama 3: Open models", False),
        ("Do CIFAR-10 classifiers generalize?", "Do CIFAR-100 classifiers generalize?", False),
        (
            "Supervised learning of deep image graphs",
            "Unsupervised learning of deep image graphs",
            False,
        ),
        (
            "Deep pose networks for recognition in video",
            "Deep poses networks for recognition in video",
            False,
        ),
        ("", "", False),
        ("BERT: Pre-training of Transformers", "BERT: Pretraining of transformers.", True),
        (
            "Adam: a method for stochastic optimisation",
            "Adam: A Method for Stochastic Optimization",
            True,
        ),
        ("$\\beta$-VAE: Learning Concepts", "β-VAE: learning concepts", True),
        ("beta-VAE: Learning Concepts", "β-VAE: learning concepts", True),
        ("Poincaré Embeddings", "Poincare embeddings", True),
    ],
)
def test_strict_matcher_tells_neighbours_apart(a, b, same):
    assert strict_match(a, [b]) is same
    assert strict_match(b, [a]) is same


def test_identifiers_settle_it():
    target = identifiers("https://arxiv.org/pdf/2407.12861v2.pdf")
    assert target == {"arxiv:2407.12861"}
    assert identifiers("https://doi.org/10.48550/arXiv.2407.12861") >= target
    assert strict_match("Another name altogether", ["A title"], ["arxiv:2407.12861"], target)
    assert not strict_match("Another name altogether", ["A title"], [], target)
    assert normalise("The $\\mathcal{H}$-Divergence") == "the h divergence"
