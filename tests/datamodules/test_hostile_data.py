"""Damaged or malicious data: each ends with a one-sentence error."""

import io
import re
import zipfile
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import tiny_net
from PIL import Image
from torch.optim import SGD, Adam

from holdfast import HoldfastError
from holdfast.benchmarks.suites import grid
from holdfast.benchmarks.test import main as run_command
from holdfast.datamodules import Calibration, Clean, DatasetSource, ImageFolder, Shards
from holdfast.datamodules.sources.tar import Sample, info, shard_name, write_shard
from holdfast.methods import Source, Tent

INFO = info("folder", "name", [("fog", 1.0), ("snow", 0.5)])


def jpeg(width: int = 8) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (width, 8)).save(buffer, "JPEG")
    return buffer.getvalue()


def bomb() -> bytes:
    """A small JPEG that claims 65,500 x 65,500 pixels."""
    content = bytearray(jpeg())
    at = content.index(b"\xff\xc0") + 5
    content[at : at + 4] = (65_500).to_bytes(2, "big") * 2
    return bytes(content)


def shards(folder: Path, *samples: Sample) -> Shards:
    (folder / "run").mkdir(parents=True)
    write_shard(folder / "run" / shard_name(0), samples)
    return Shards(str(folder), shard_images=len(samples)).open("run", 1, len(samples))


@pytest.mark.parametrize(
    ("samples", "sentence"),
    [
        ([Sample(INFO, jpeg(), "cat")], "Sample 0 .* damaged"),
        ([Sample(INFO, jpeg(), -2)], "has the label -2"),
        ([Sample(INFO, jpeg(), 10**30)], "has the label 1000"),
        ([Sample("++dir++only", jpeg(), 0)], "Sample 0 .* damaged"),
        ([Sample(INFO, bomb(), 0)], "cannot be decoded .*exceeds"),
        ([Sample(INFO, jpeg(), 0), Sample(INFO, jpeg(16), 0)], "have 2 different sizes"),
    ],
)
def test_shards(tmp_path: Path, samples: list[Sample], sentence: str) -> None:
    source = shards(tmp_path, *samples)
    with pytest.raises(HoldfastError, match=sentence) as error:
        source.load(torch.arange(len(samples)), torch.zeros(len(samples)))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"fog", b"\xff\xfeg"),
        (b"sample_0.info", b"\xff\xfe\xfdple_0.info"),
        (b"ustar", b"\0\0\0\0\0"),
    ],
)
def test_bytes_of_a_shard(tmp_path: Path, old: bytes, new: bytes) -> None:
    source = shards(tmp_path, Sample(INFO, jpeg(), 0))
    path = tmp_path / "run" / shard_name(0)
    content = bytearray(path.read_bytes().replace(old, new))
    for at in range(0, len(content) - 512, 512):  # sums that fit, as an attacker's do
        if content[at + 257 : at + 262] in (b"ustar", b"\0" * 5) and any(content[at : at + 8]):
            content[at + 148 : at + 156] = b" " * 8
            content[at + 148 : at + 156] = b"%06o\0 " % sum(content[at : at + 512])
    content[124:136] = content[124:136] if old != b"ustar" else b"00000000999\0"
    if old == b"ustar":
        content[148:156] = b" " * 8
        content[148:156] = b"%06o\0 " % sum(content[:512])
    path.write_bytes(content)
    with pytest.raises(HoldfastError, match="is damaged") as error:
        source.load(torch.arange(1), torch.zeros(1))
    assert "\n" not in str(error.value)


TWO = np.zeros((2, 2, 21, 21), np.float32)


@pytest.mark.parametrize(
    ("accuracy", "why"),
    [
        (TWO[:, :1], "not a table of 2 x 2"),
        (TWO[0], "not a table of 2 x 2"),
        (TWO.astype(complex), "not a table of 2 x 2"),
        (TWO + np.float32(np.inf), "not 0 to 100 percent"),
        (TWO - 1, "not 0 to 100 percent"),
        (TWO + 101, "not 0 to 100 percent"),
    ],
)
def test_calibrations(tmp_path: Path, accuracy: np.ndarray, why: str) -> None:
    path = tmp_path / "c.npz"
    np.savez(path, names=np.array(["fog", "frost"]), accuracy=accuracy, provenance=np.array("{}"))
    with pytest.raises(HoldfastError, match=rf"c\.npz .*{why}"):
        Calibration.load(path)


def test_files_that_are_no_calibration(tmp_path: Path) -> None:
    path = tmp_path / "c.npz"
    with path.open("wb") as file:
        np.save(file, TWO)
    with pytest.raises(HoldfastError, match=re.escape(str(path))):
        Calibration.load(path)
    Calibration(("fog", "frost"), TWO, {}).save(path)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    huge = parts["accuracy.npy"].replace(b"(2, 2, 21, 21), }      ", b"(99999, 99999, 21, 21)}")
    assert huge != parts["accuracy.npy"]
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in {**parts, "accuracy.npy": huge}.items():
            archive.writestr(name, content)
    with pytest.raises(HoldfastError, match=re.escape(str(path))):
        Calibration.load(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("accuracy.npy", parts["accuracy.npy"] + bytes(2**27))
    with pytest.raises(HoldfastError, match="more than 67,108,864 bytes"):
        Calibration.load(path)


def test_a_configuration_that_is_no_yaml(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("model: [")
    with pytest.raises(HoldfastError, match="parsing config"):
        run_command(["--config", str(path), "--out", str(tmp_path / "run")])


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({"a": "include: a.yaml"}, r"a\.yaml includes itself"),
        ({"a": "include: b.yaml", "b": "include: a.yaml"}, r"a\.yaml includes itself"),
        ({"a": "[" * 5000}, r"a\.yaml .*YAML"),
        ({"a": "out: \udcff"}, r"a\.yaml .*YAML"),
    ],
)
def test_suites(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in files.items():
        Path(f"{name}.yaml").write_text(text, errors="surrogateescape")
    with pytest.raises(HoldfastError, match=sentence) as error:
        grid.load("a.yaml")
    assert "\n" not in str(error.value)


def test_a_loop_of_links_counts_an_image_once(tmp_path: Path) -> None:
    (tmp_path / "root" / "a" / "deep").mkdir(parents=True)
    Image.new("RGB", (8, 8)).save(tmp_path / "root" / "a" / "deep" / "0.png")
    (tmp_path / "root" / "a" / "deep" / "up").symlink_to(tmp_path / "root" / "a")
    assert len(ImageFolder(tmp_path / "root", 8)) == 1
    (tmp_path / "elsewhere").mkdir()  # a link that is no loop is followed, as before
    Image.new("RGB", (8, 8)).save(tmp_path / "elsewhere" / "1.png")
    (tmp_path / "root" / "a" / "more").symlink_to(tmp_path / "elsewhere")
    assert len(ImageFolder(tmp_path / "root", 8)) == 2


def test_labels_below_minus_one_are_not_taken_for_unreadable(tmp_path: Path) -> None:
    pictures = [(Image.new("RGB", (8, 8)), label) for label in (0, -1, -2)]
    stream = Clean(DatasetSource(pictures[:2], 8, classes=1), batch_size=2, num_workers=0)
    assert sorted(next(iter(stream.test_dataloader())).labels.tolist()) == [-1, 0]
    stream = Clean(DatasetSource(pictures, 8, classes=1), batch_size=3, num_workers=0)
    with pytest.raises(HoldfastError, match="label -2\. Use class numbers from 0"):
        list(stream.test_dataloader())


def test_an_empty_source() -> None:
    with pytest.raises(HoldfastError, match=r"empty.* source"):
        Clean(DatasetSource([], 8, classes=1))


@pytest.mark.parametrize("rate", [-1.0, float("inf"), float("nan")])
@pytest.mark.parametrize("kind", [SGD, Adam])
def test_learning_rates(kind: type, rate: float) -> None:
    with pytest.raises(HoldfastError, match=r"learning rate"):
        Tent(tiny_net(), partial(kind, lr=rate))


@pytest.mark.parametrize("method", [Tent, Source])
def test_networks_of_half_precision(method: type) -> None:
    with pytest.raises(HoldfastError, match=r"float16.* backbone\.float\(\)"):
        method(tiny_net().half())
