"""LAME, and COME's loss, agree with their official implementations."""

import numpy as np
import pytest
import torch
from common import GOLDEN, golden_network
from golden_traces import INPUTS

from holdfast.features import features
from holdfast.methods import LAME
from holdfast.methods.functional import opinion_entropy
from holdfast.methods.lame import affinity_of

SETTINGS = {
    "rbf5": {},
    "rbf3": {"neighbours": 3},
    "knn5": {"affinity": "knn"},
    "knn40": {"affinity": "knn", "neighbours": 40},
    "knn5_sym": {"affinity": "knn", "symmetric": True},
    "linear": {"affinity": "linear"},
}


def images_of(steps: int) -> torch.Tensor:
    """The first batches of the common problem, [N,B,3,16,16]."""
    return torch.from_numpy(INPUTS["x"][:steps]).float()


@pytest.mark.parametrize("name", SETTINGS)
def test_probabilities(name: str) -> None:
    theirs = np.load(GOLDEN / "tta2" / f"lame_{name}.npz")
    method = LAME(golden_network().eval(), **SETTINGS[name])
    columns = INPUTS["cols"]
    for step, images in enumerate(images_of(len(theirs["argmax"]))):
        probs = method.adapt(images).exp()
        expected = theirs["probs_sub"][step][:, : len(columns)]
        if name != "rbf5":  # that file is whole: more columns
            np.testing.assert_allclose(probs[:, columns], expected, atol=1e-4)
        np.testing.assert_allclose(probs.amax(1), theirs["maxprob"][step], atol=1e-4)
        assert (probs.argmax(1).numpy() == theirs["argmax"][step]).mean() > 0.95


def test_affinity() -> None:
    theirs = np.load(GOLDEN / "tta2" / "lame_rbf5.npz")
    net = golden_network().eval()
    for step, images in enumerate(images_of(len(theirs["kernel"]))):
        with torch.no_grad():
            found, _ = features(net, images)
        first = theirs["features_first_sample"][step]
        np.testing.assert_allclose(found[0], first, atol=1e-4)
        kernel = affinity_of(torch.nn.functional.normalize(found), "rbf", 5)
        np.testing.assert_allclose(kernel, theirs["kernel"][step], atol=1e-3)


def test_opinion_entropy() -> None:
    theirs = np.load(GOLDEN / "tta2" / "come_entropy.npz")
    logits = torch.from_numpy(theirs["logits"].astype(np.float64)).requires_grad_()
    entropy = opinion_entropy(logits)
    np.testing.assert_allclose(entropy.detach(), theirs["entropy_f64"], rtol=1e-9)
    entropy.sum().backward()
    assert logits.grad is not None
    np.testing.assert_allclose(logits.grad[:, ::4], theirs["grad_f64"], rtol=1e-6, atol=1e-12)
