"""On a machine with an NVIDIA GPU: methods and corruptions do there what they do on the CPU."""

import warnings

import pytest
import torch
from accelerator_cases import LIMITS, METHODS, WITH_VIEWS, steps
from table import quiet

from holdfast.datamodules import Glyphs
from holdfast.datamodules.corruptions import CORRUPTIONS, EXTRA, corrupt

if not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)
pytestmark = [quiet, pytest.mark.filterwarnings("ignore:.*not finite", "ignore:.*replaces the")]
# Whose random numbers come from the device's generator.
DRAWING = (*WITH_VIEWS, "DeYO")


@pytest.mark.parametrize("name", METHODS)
def test_waits_and_results_of_a_step(name: str) -> None:
    counts = []
    for step, expected in steps(name, torch.float64, torch.device("cuda")):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            logits = step()
            torch.cuda.set_sync_debug_mode("default")
        counts.append(sum("synchroniz" in str(each.message) for each in found))
        assert logits.device.type == "cuda"
        assert (logits.cpu() - expected).abs().max() < 1e-12 or name.startswith(DRAWING)
    assert max(counts[1:]) <= LIMITS[name]


@pytest.mark.parametrize("name", [*CORRUPTIONS, *EXTRA])
def test_corruptions_differ_by_one_level_at_most(name: str) -> None:
    index = torch.arange(64)
    images, _ = Glyphs().load(index, index)
    for severity in (1.25, 3, 5):
        own = corrupt(images.cuda(), name, severity, 0).cpu()
        apart = (own.int() - corrupt(images, name, severity, 0).int()).abs()
        assert apart.max() <= 1
        assert (apart > 0).double().mean() < 1e-3
