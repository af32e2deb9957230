"""Every method on a pretended accelerator: no device meets another, and the host rarely waits."""

from collections.abc import Iterator
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from common import TensorStream, plain_trainer, tiny_net
from lightning.pytorch import Callback
from lightning.pytorch.strategies import SingleDeviceStrategy
from lightning_utilities.core.apply_func import apply_to_collection
from PIL import Image
from pretended import Pretended, accelerator, waits
from table import TABLE, quiet
from torch import Tensor
from watchers import ESTIMATORS, RESETS, ruined

from holdfast import HoldfastError
from holdfast import callbacks as cb
from holdfast.callbacks.curves import Later
from holdfast.datamodules import Glyphs, ImageFolder
from holdfast.datamodules.concatenation import Concatenation, Part
from holdfast.datamodules.corruptions import CORRUPTIONS, EXTRA, corrupt
from holdfast.methods.backbones.layers import normalised
from holdfast.methods.distributed import averaged, join_batches
from holdfast.methods.testing import image_batches, spoiled
from holdfast.run_folder import ROWS, read_rows

__all__ = ["accelerator"]
pytestmark = [quiet, pytest.mark.filterwarnings("ignore:.*not finite", "ignore:.*replaces the")]

# The host's waits for a step after the first: one reads the check for finite numbers and the trace. One
# more: which samples count, what a memory takes, whether CoTTA needs views, whether LAME is done. DeYO
# selects twice, the second time from a second forward pass; ASR decides on its reset.
SELECTING = (
    "CoTTA CoTTA-everything ETA EATA RDumb SAR SAR-COME ROID CMF LAME RoTTA NOTE SoTTA PeTTA T3A "
    "LCoTTA PEA"
)
LIMITS = dict.fromkeys(TABLE, 1) | dict.fromkeys(SELECTING.split(), 2)
METHODS = [name for name in TABLE if "bn" not in TABLE[name].refuses]
# PEA leaves blocks of weight 0 out, so the host reads the weights.
LIMITS |= {"DeYO": 3, "DeYO-pixels": 3, "ETA-ASR": 3, "PEA": 3}
WATCHERS = {
    **ESTIMATORS,
    "WeightedFlips": lambda: cb.WeightedFlips(
        f=None, held=24, stop=2, at_once=6, any_backbone=True
    ),
}
RECOVERIES = {
    **RESETS,
    "Entropy": lambda _: cb.EntropyDrift(),
    "KL": lambda _: cb.KLDrift(),
    "Disagreement": lambda _: cb.DisagreementReset(0.1),
    "ASR": lambda _: cb.ASR(start=0.9),
}
WITH_VIEWS = (
    *("CoTTA", "ROID", "CMF", "RoTTA", "PeTTA", "RMT", "SANTA"),
    *("GTTA", "AdaContrast", "MEMO", "TTAug", "VTE", "TDA-views"),
)


DTYPES = [torch.float32, torch.float64]
SIZES = {
    "MEMO": 2,
    "TTAug": 2,
    "VTE": 2,
    "TDA-views": 2,
}  # images in a batch, for methods that make views of each


def steps(name: str, dtype: torch.dtype, device: torch.device) -> Iterator[Any]:
    """Each step of a method on a device, to be called, and its logits on the CPU."""
    net, batches = tiny_net().to(dtype), image_batches(3, size=SIZES.get(name, 6))
    here, there = TABLE[name].make(net), TABLE[name].make(net).to(device)
    here.fit([batches[0].to(dtype)])
    there.fit([batches[0].to(device, dtype)])
    for images in batches:
        yield partial(there.adapt, images.to(device, dtype)), here.adapt(images.to(dtype))


@pytest.mark.parametrize(
    ("name", "dtype"), [("Tent", torch.float64), *zip(METHODS, cycle(DTYPES))], ids=str
)
def test_waits_and_results_of_a_step(name: str, dtype: torch.dtype, accelerator: Any) -> None:
    counts = []
    for step, expected in steps(name, dtype, accelerator):
        waits.clear()
        logits = step()
        counts.append(waits.total())
        assert logits.device == accelerator
        assert torch.equal(logits.cpu(), expected) or name.startswith(WITH_VIEWS)
    assert max(counts[1:]) <= LIMITS[name], waits
    assert counts[0] <= LIMITS[name] + 3, "the range of the first images, EATA's Fisher"


@pytest.mark.parametrize(("factor", "sentence"), [(255, "divide bytes by 255"), (-2, "itself")])
def test_values_are_refused_in_a_later_batch(factor: int, sentence: str, accelerator: Any) -> None:
    """Though the host does not wait for the extreme values: they come with the check for finite numbers."""
    method = TABLE["Tent"].make(normalised(tiny_net(), [0.5] * 3, [0.25] * 3)).to(accelerator)
    first, second = image_batches(2, size=6)
    method.adapt(first.to(accelerator))
    with pytest.raises(HoldfastError, match=sentence):
        method.adapt((factor * second).to(accelerator))
    assert method.step_count == 1


@pytest.mark.parametrize("wrong", [None, 0, 2])
def test_labels_are_refused_in_a_later_batch(wrong: int | None, accelerator: Any) -> None:
    """Without a further wait."""
    labels, steps = torch.arange(18).view(3, 6) % 5, Waits()
    if wrong is not None:
        labels[wrong, 3] = 255
    data = TensorStream(torch.rand(3, 6, 3, 8, 8), labels)
    strategy = SingleDeviceStrategy(accelerator, Pretended())
    trainer = plain_trainer(
        accelerator="auto", strategy=strategy, callbacks=[steps], inference_mode=False
    )
    if wrong is not None:
        with pytest.raises(HoldfastError, match="labels go up to 255"):
            trainer.test(TABLE["Tent"].make(tiny_net()), datamodule=data, verbose=False)
        return
    trainer.test(TABLE["Tent"].make(tiny_net()), datamodule=data, verbose=False)
    assert max(steps.counts[1:]) <= LIMITS["Tent"]


@pytest.mark.parametrize("on_device", [True, "decode"])
def test_batches_made_on_the_device(on_device: Any, tmp_path: Path, accelerator: Any) -> None:
    """Crops, corruptions and JPEG there, with the same images as on the CPU and no further wait."""
    for number in range(8):
        folder = tmp_path / str(number % 4)
        folder.mkdir(exist_ok=True)
        photo = Image.linear_gradient("L").rotate(30 * number).convert("RGB")
        photo.resize((60 + number, 50)).save(folder / f"{number}.jpg")
    source = ImageFolder(tmp_path, 24, "random")
    parts = [Part(((name, 3.0),), source, 9) for name in ("contrast", "brightness")]
    facts: dict[str, Any] = {
        "on_device": on_device,
        "quality": 85,
        "batch_size": 6,
        "num_workers": 0,
    }
    here = list(Concatenation(parts, precorrupted=False, **facts).test_dataloader())
    data, steps, seen = Concatenation(parts, precorrupted=False, **facts), Waits(), Seen()
    trainer = plain_trainer(
        accelerator="auto",
        strategy=SingleDeviceStrategy(accelerator, Pretended()),
        callbacks=[steps, seen],
        inference_mode=False,
    )
    trainer.test(TABLE["Tent"].make(tiny_net()), datamodule=data, verbose=False)
    assert all(images.device == accelerator for images in seen.images)
    assert max(steps.counts[1:]) <= LIMITS["Tent"], steps.last
    for batch, there in zip(here, seen.images, strict=True):
        assert (batch.images - there.cpu()).abs().max() < 1.01 / 255


class Seen(Callback):
    """The images of each batch."""

    def __init__(self) -> None:
        self.images: list[Tensor] = []

    def on_test_batch_start(self, trainer: Any, module: Any, batch: Any, *_: Any) -> None:
        self.images.append(batch.images)


@pytest.mark.parametrize("name", [*CORRUPTIONS, *EXTRA])
def test_a_corruption_does_not_wait(name: str, accelerator: Any) -> None:
    """But for spatter, whose drops are OpenCV's; some severities differ."""
    index = torch.arange(6)
    images, _ = Glyphs().load(index, index)
    severities = torch.tensor([3.0, 3.0, 0.0, 3.0, 5.0, 3.0])
    here = corrupt(images, name, severities, index)
    corrupt(images.to(accelerator), name, severities, index)  # what is made once
    there = images.to(accelerator)
    waits.clear()
    there = corrupt(there, name, severities, index)
    assert waits.total() <= (name == "spatter"), waits
    assert (there.cpu().int() - here.int()).abs().max() <= 1


@pytest.mark.parametrize("name", METHODS[::3])
def test_estimators_resets_and_a_resumed_watch(name: str, accelerator: Any) -> None:
    """Some estimators and a reset beside every third method, bad images, a state from a checkpoint."""
    place = list(TABLE).index(name)
    watchers, resets = [*WATCHERS.items()][place % 3 :: 3], [*RECOVERIES.values()]
    heard, net = watchers[-1][0], tiny_net()
    reset = resets[place % len(resets)](heard)
    if isinstance(reset, cb.ASR) and TABLE[name].changes == "no":
        reset = cb.PeriodicReset(2)
    watch = cb.Watch(TABLE[name].make(net).to(accelerator), [make() for _, make in watchers], reset)
    good = [images.to(accelerator) for images in image_batches(2, size=SIZES.get(name, 6))]
    assert watch.step(spoiled(good[0])).device == accelerator
    watch.step(good[1])
    saved = apply_to_collection(watch.state_dict(), Tensor, Tensor.cpu)  # as a checkpoint is read
    watch.method.reset()
    watch.load_state_dict(saved)
    watch.step(ruined(good[0]))
    assert watch.step(good[1]).isfinite().all()


class Waits(Callback):
    """The waits from the end of one step to the end of the next."""

    def __init__(self) -> None:
        self.counts: list[int] = []

    def on_test_batch_end(self, *_: Any) -> None:
        self.counts.append(waits.total())
        self.last = dict(waits)
        waits.clear()


def test_a_run_with_record_and_progress_waits_no_more(tmp_path: Path, accelerator: Any) -> None:
    """Rows wait on the accelerator, and a checkpoint writes them."""
    steps, data = Waits(), TensorStream(torch.rand(12, 6, 3, 8, 8))
    record, reader = cb.RunRecord(tmp_path), Row()
    callbacks = [record, cb.SoftmaxScore(), reader, steps]
    record._later = Later(steps=5, seconds=60)
    strategy = SingleDeviceStrategy(accelerator, Pretended())
    trainer = plain_trainer(
        accelerator="auto", strategy=strategy, callbacks=callbacks, inference_mode=False
    )
    trainer.test(TABLE["ETA"].make(tiny_net()), datamodule=data, verbose=False)
    assert reader.rows == [0, 0, 0, 0, 5, 5, 7, 7, 7, 7, 7, 12]
    assert len(read_rows(tmp_path)) == 12
    assert max(steps.counts[1:4]) <= LIMITS["ETA"] + 3, "an estimate is for resets, so it is read"


class Row(Callback):
    """How many rows are on disk after each step; a checkpoint comes after the seventh."""

    def __init__(self) -> None:
        self.rows: list[int] = []

    def on_test_batch_end(self, trainer: Any, *_: Any) -> None:
        record = trainer.callbacks[0]
        if len(self.rows) == 6:
            record.on_save_checkpoint(trainer, trainer.lightning_module, {"callbacks": {}})
        self.rows.append(len((record.folder / ROWS).read_text().splitlines()))


@pytest.mark.parametrize("name", ["Tent", "SLR", "ETA", "SAR", "RoTTA", "NOTE", "BNAdapt-prior"])
def test_collectives_get_tensors_of_the_device(name: str, accelerator: Any) -> None:
    """A backend that refuses others, as NCCL does: a whole step, and the parts of a batch."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        with pytest.raises(RuntimeError, match="No backend type"):
            dist.all_reduce(torch.ones(2))
        method = TABLE[name].make(tiny_net()).to(accelerator)
        method.divides = True
        for parameter, _ in method.parameters_with_source():
            parameter.register_hook(averaged)
        batch = TensorStream(torch.rand(1, 6, 3, 8, 8)).batches[0]
        (whole,) = join_batches(iter([batch]), accelerator)
        assert torch.equal(whole.images.cpu(), batch.images)
        for _ in range(2):
            assert method.adapt(whole.images).isfinite().all()
        assert not method.not_finite_in_a_row
    finally:
        dist.destroy_process_group()
