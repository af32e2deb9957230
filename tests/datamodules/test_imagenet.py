"""A user who has ImageNet: every stream on a small tree of real JPEGs, through a real Trainer."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from common import joined, same, tiny_net, trainer_test
from lightning.pytorch import Callback
from PIL import Image

from holdfast import HoldfastError
from holdfast import datamodules as dm
from holdfast.benchmarks.cli import main
from holdfast.benchmarks.presets import presets
from holdfast.callbacks import RunRecord
from holdfast.methods import RDumb
from holdfast.run_folder import read_rows

SYNSETS = ["n01440764", "n01484850", "n02123045", "n02504458"]
NAMES = ["gaussian_noise", "contrast"]
SIZE, SPEED = 64, 10


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """20 photographs-to-be of several sizes, a calibration on them, shards, ready-made sets."""
    folder = tmp_path_factory.mktemp("imagenet")
    rng = np.random.default_rng(0)
    for name in SYNSETS:
        for number in range(5):
            coarse = rng.integers(0, 256, (6, 8, 3), dtype=np.uint8)
            size = (80 + 10 * number, 130 - 7 * number)
            photo = Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC)
            for place in ("val", "c/noise/fog/3", "c/noise/fog/5"):
                (folder / place / name).mkdir(parents=True, exist_ok=True)
                photo.resize((72, 72)).save(folder / place / name / f"{number}.JPEG")
            photo.save(folder / "val" / name / f"{number}.JPEG")
    source = ["--source", str(folder / "val"), "--size", str(SIZE), "--corruptions", *NAMES]
    calibration = str(folder / "calibration.npz")
    words = ["--backbone", "digits", "--images", "1", "--table", "imagenet", "--out", calibration]
    assert main(["calibrate", *source, *words]) == 0
    words = ["--calibration", calibration, "--difficulty", "medium", "--speed", str(SPEED)]
    words += ["--images", "60", "--shard-images", "30", "--out", str(folder / "shards")]
    assert main(["generate", *source, *words]) == 0
    return folder


Make = Callable[..., dm.Stream]


def ccc(root: Path, difficulty: str, **kwargs: object) -> dm.CCC:
    options = {"calibration": root / "calibration.npz", "corruptions": NAMES, "images": 60}
    source = dm.ImageNet(root / "val", SIZE, "random")
    return dm.CCC(source, difficulty, SPEED, **{**options, **kwargs})  # type: ignore[arg-type]


STREAMS: dict[str, Make] = {
    "ccc-hard": lambda root, **k: ccc(root, "hard", **k),
    "cin-c": lambda root, **k: dm.CINC(dm.ImageNet(root / "val", SIZE), each=3, order=4, **k),
    "imagenet-c": lambda root, **k: dm.ImageSet(
        "imagenet-c", str(root / "c"), ["noise/fog/5", "noise/fog/3"], size=SIZE, **k
    ),
    "clean": lambda root, **k: dm.Clean(dm.ImageNet(root / "val", SIZE), **k),
    "shards": lambda root, **k: dm.CCCShards(
        str(root / "shards"), "medium", SPEED, None, shard_images=30, **k
    ),
}


class Watch(Callback):
    """Keeps the batches that the method sees."""

    def __init__(self) -> None:
        self.batches: list[dm.Batch] = []

    def on_test_batch_start(
        self, trainer: object, module: object, batch: dm.Batch, *_: int
    ) -> None:
        self.batches.append(batch)


@pytest.fixture(scope="module")
def wholes(root: Path) -> dict[str, dm.Batch]:
    """Every stream in one piece."""
    streams = {name: make(root) for name, make in STREAMS.items()}
    return {name: s.batch(torch.arange(s.images or 0)) for name, s in streams.items()}


@pytest.mark.parametrize("name", STREAMS)
def test_through_a_trainer(
    root: Path, wholes: dict[str, dm.Batch], name: str, tmp_path: Path
) -> None:
    data = STREAMS[name](root, batch_size=7)
    watch = Watch()
    trainer_test(RDumb(tiny_net(1000)), data, watch, RunRecord(tmp_path))
    assert same(joined(watch.batches), wholes[name])
    rows = read_rows(tmp_path)
    assert rows[-1]["images"] == data.images
    assert rows[0]["corruptions"] == [list(pair) for pair in data.segment(0).corruptions]
    facts = json.loads((tmp_path / "provenance.json").read_text())
    assert facts["stream"] == type(data).__name__.removesuffix("Shards")
    assert set(wholes[name].labels.tolist()) == {0, 2, 281, 386}


def test_corrupting_on_the_device(root: Path, wholes: dict[str, dm.Batch]) -> None:
    """Workers hand over clean bytes; whoever iterates gets finished batches all the same."""
    data = ccc(root, "hard", num_workers=1, batch_size=7, on_device=True)
    assert data.clean(torch.arange(3)).images.dtype == torch.uint8
    assert same(joined(list(data.test_dataloader())), wholes["ccc-hard"])
    watch = Watch()
    trainer_test(RDumb(tiny_net(1000)), data, watch)
    assert same(joined(watch.batches), wholes["ccc-hard"])


@pytest.mark.parametrize("name", ["ccc-hard", "clean"])
def test_decoding_on_the_device(name: str, root: Path) -> None:
    """Workers hand over files, of a wrapper, too; resized pixels differ by a level from Pillow's."""
    inner = STREAMS[name](root, on_device="decode")
    data = dm.CorrelatedLabels(inner, delta=0.1, batch_size=7)
    index = torch.tensor([3, 0, 14])
    encoded = data.encoded(index)
    assert encoded.images.ndim == 1
    here, there = data.clean(index), data.decoded(encoded, torch.device("cpu"))
    assert (here.images.int() - there.images.int()).abs().max() <= 1
    watch = Watch()
    trainer_test(RDumb(tiny_net(1000)), data, watch)
    run, whole = joined(watch.batches), data.batch(torch.arange(data.images or 0))
    assert torch.equal(run.labels, whole.labels)
    assert torch.equal(run.segment, whole.segment)
    assert (run.images - whole.images).abs().mean() < 0.01


def test_files_that_only_pillow_decodes(tmp_path: Path) -> None:
    photos = [Image.linear_gradient("L").convert(mode) for mode in ("RGB", "CMYK", "L", "RGB")]
    for number, photo in enumerate(photos):
        (tmp_path / "val" / str(number)).mkdir(parents=True)
        photo.save(tmp_path / "val" / str(number) / "photo.jpg", "PNG" if number == 3 else "JPEG")
    source = dm.ImageFolder(tmp_path / "val", 256)
    data = dm.Clean(source, on_device="decode", num_workers=0)
    index = torch.arange(4)
    there = data.decoded(data.encoded(index), torch.device("cpu"))
    assert torch.equal(there.images, data.clean(index).images)
    (tmp_path / "val" / "2" / "photo.jpg").write_bytes(b"no image")
    with pytest.raises(HoldfastError, match=r"2/photo\.jpg cannot be read"):
        list(data.test_dataloader())
    (tmp_path / "val" / "2" / "photo.jpg").unlink()
    with pytest.raises(HoldfastError, match=r"2/photo\.jpg cannot be read"):
        list(data.test_dataloader())


def test_what_cannot_be_decoded_on_the_device() -> None:
    with pytest.raises(HoldfastError, match="needs a source of image files"):
        next(iter(dm.Clean(dm.Glyphs(), images=4, on_device="decode").test_dataloader()))
    with pytest.raises(HoldfastError, match="Unknown on_device='gpu'"):
        dm.Clean(dm.Glyphs(), on_device="gpu")  # type: ignore[arg-type]


def test_configs_of_streams(root: Path, tmp_path: Path) -> None:
    for name in ("ccc-medium", "cin-c-mixed-correlated"):
        out = tmp_path / name
        inner = "--data." + "stream." * json.dumps(presets("streams")[name]).count('"stream":')
        words = ["test", "--preset", name, "--model", "Source", "--model.backbone", "glyphs"]
        words += [f"{inner}source.root", str(root / "val"), f"{inner}source.size", "64"]
        words += ["--trainer.accelerator", "cpu", "--data.num_workers", "0", "--progress", "false"]
        if name.startswith("ccc"):
            words += ["--data.calibration", str(root / "calibration.npz"), "--data.images", "15"]
            words += ["--data.corruptions", json.dumps(NAMES)]
        else:
            words += [f"{inner}each", "1"]
        assert main([*words, "--out", str(out)]) == 0
        assert read_rows(out)[-1]["images"] == 15
