"""Shards in the official layout: generated, and read."""

import io
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
import webdataset
from common import joined, same
from PIL import Image
from processes import started, until

from holdfast import HoldfastError
from holdfast.benchmarks.cli import main
from holdfast.benchmarks.streams import memory_in_a_sentence
from holdfast.datamodules import CCC, CCCShards, CorrelatedLabels, Digits
from holdfast.datamodules.sources import tar
from holdfast.files import locked
from holdfast.run_folder import read_rows

SPEED, SIZE, TARGET = 10, 30, 30.0
RUN = tar.run_name(TARGET, SPEED, 43)
NAMES = ["gaussian_noise", "contrast", "jpeg_compression"]


def arguments(calibration: Path, out: Path) -> list[str]:
    words = f"--source digits --calibration {calibration} --difficulty {TARGET} --speed {SPEED}"
    words += f" --images 80 --shard-images 25 --table cifar --out {out} --corruptions "
    return ["generate", *words.split(), *NAMES]


@pytest.fixture(scope="module")
def root(calibration: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three shards of 30 digits."""
    folder = tmp_path_factory.mktemp("shards")
    assert main(arguments(calibration, folder)) == 0
    return folder


@pytest.fixture
def copied(root: Path, tmp_path: Path) -> Path:
    """The folder of a run with a copy of these shards."""
    folder = tmp_path / "copied" / RUN
    folder.mkdir(parents=True)
    for path in (root / RUN).glob("serial_*"):
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


def generated(calibration: Path, **kwargs: object) -> CCC:
    options = {"images": 90, "table": "cifar", "quality": None, "num_workers": 0, **kwargs}
    return CCC(Digits(), TARGET, SPEED, calibration=calibration, corruptions=NAMES, **options)  # type: ignore[arg-type]


def read(root: Path, **kwargs: object) -> CCCShards:
    """The stream of the shards in a folder."""
    options = {"images": 90, "num_workers": 0, "batch_size": 16, "shard_images": 25, **kwargs}
    return CCCShards(str(root), TARGET, SPEED, **options)  # type: ignore[arg-type]


def test_official_sizes_and_names() -> None:
    assert [tar.shard_size(speed) for speed in (1000, 2000, 5000)] == [25_000, 26_000, 25_000]
    assert tar.run_name(20.0, 1000, 43) == "baseline_20_transition+speed_1000_seed_43"
    text = tar.info("n01440764", "a.JPEG", [("elastic_transform", 0.25), ("fog", 0.0)])
    assert text == "++dir++n01440764++name++a.JPEG++n1++elastic++s1++0.25++n2++fog++s2++0.0"
    assert tar.corruptions_in(text) == (("elastic_transform", 0.25),)
    text = tar.info(
        "c++", "a++b.jpg", [("fog", 1.0), ("snow", 0.0)]
    )  # names that hold the separator
    assert tar.corruptions_in(text) == (("fog", 1.0),)


def test_webdataset_reads_what_the_stream_shows(root: Path, calibration: Path) -> None:
    paths = sorted((root / RUN).glob("*.tar"))
    assert [path.name for path in paths] == [f"serial_{k:05d}.tar" for k in range(3)]
    dataset = webdataset.WebDataset([str(path) for path in paths], shardshuffle=False)
    found = list(dataset.decode("rgb8").to_tuple("__key__", "input.jpg", "output.cls", "info"))
    assert [key for key, *_ in found] == [f"sample_{k}" for k in range(30)] * 3
    stream = generated(calibration)
    expected = stream.batch(torch.arange(90))
    pixels = (expected.images * 255).round().byte().permute(0, 2, 3, 1).numpy()
    for (_, ours, label, text), image, true in zip(found, pixels, expected.labels, strict=True):
        buffer = io.BytesIO()
        Image.fromarray(image).save(buffer, "JPEG", quality=85)
        assert np.array_equal(ours, np.asarray(Image.open(buffer)))
        assert label == true
        assert "++n1++" in (text if isinstance(text, str) else text.decode())


@pytest.mark.parametrize("num_workers", [0, 2])
def test_shards_are_the_stream(root: Path, calibration: Path, num_workers: int) -> None:
    data = read(root, num_workers=num_workers, batch_size=7)
    ours, expected = joined(list(data.test_dataloader())), generated(calibration, quality=85)
    clean = expected.batch(torch.arange(90))
    assert same(ours._replace(images=clean.images), clean)
    assert (ours.images - clean.images).abs().max() < 3 / 255  # libjpeg, twice
    assert [str(data.segment(k)) for k in range(9)] == [str(expected.segment(k)) for k in range(9)]
    later = joined(list(read(root, start=47, images=None).test_dataloader()))
    assert torch.equal(later.images, ours.images[47:])
    assert data.identity.items() >= {"stream": "CCC", "target": TARGET, "speed": SPEED}.items()
    sorted_labels = CorrelatedLabels(data, delta=0).labels(torch.arange(SPEED))
    assert sorted_labels.unique_consecutive().unique(return_counts=True)[1].max() == 1


def test_generation_is_resumed(
    root: Path, copied: Path, calibration: Path, capsys: pytest.CaptureFixture
) -> None:
    whole = [(root / RUN / tar.shard_name(k)).read_bytes() for k in range(3)]
    (copied / tar.shard_name(1)).write_bytes(whole[1][:20_000])
    (copied / tar.shard_name(2)).unlink()
    (copied / f"{tar.shard_name(2)}.0a1b2c3d.partial").write_bytes(b"of a killed process")
    assert main([*arguments(calibration, copied.parent), "--workers", "2"]) == 0
    assert not list(copied.glob("*.partial"))
    assert "2 shards written, 1 complete" in capsys.readouterr().out
    assert [(copied / tar.shard_name(k)).read_bytes() for k in range(3)] == whole
    times = {path: path.stat().st_mtime_ns for path in copied.glob("*.tar")}
    assert main(arguments(calibration, copied.parent)) == 0
    assert times == {path: path.stat().st_mtime_ns for path in copied.glob("*.tar")}


def test_memory_that_runs_out() -> None:
    for allocate in (lambda: torch.empty(2**50), lambda: np.empty(2**50)):
        with (
            pytest.raises(HoldfastError, match=r"Memory ran out.* Pass fewer --workers"),
            memory_in_a_sentence("fewer --workers"),
        ):
            allocate()
    with pytest.raises(ValueError, match="other"), memory_in_a_sentence(""):
        raise ValueError("other")


def test_another_streams_shards_are_refused(
    root: Path, calibration: Path, capsys: pytest.CaptureFixture
) -> None:
    words, facts = arguments(calibration, root), root / RUN / "provenance.json"
    before = facts.read_text()
    for other in (["--table", "imagenet"], ["--shard-images", "11"], ["--corruptions", *NAMES[1:]]):
        assert main([*words, *other]) == 2
        assert "another --out" in capsys.readouterr().err
        assert facts.read_text() == before


def test_two_processes_do_not_write_the_same_shard(
    calibration: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    with locked(tmp_path / RUN / "serial_00001.tar"):
        assert main(arguments(calibration, tmp_path)) == 2
    assert "Another process is writing" in capsys.readouterr().err
    assert len(tar.Shard(tmp_path / RUN / "serial_00000.tar")) == SIZE


@pytest.mark.slow
def test_a_killed_generation_leaves_whole_shards(calibration: Path, tmp_path: Path) -> None:
    words = [*arguments(calibration, tmp_path), "--images", "100000", "--shard-images", "200"]
    with started(*words) as process:
        until(lambda: len(list(tmp_path.rglob("*.tar"))) > 1, alive=process.alive)
        process.kill()
        assert process.wait() == -signal.SIGKILL
    paths = sorted(tmp_path.rglob("*.tar"))
    assert len(paths) >= 2
    assert all(len(tar.Shard(path)) == 200 for path in paths)


@pytest.mark.parametrize(
    ("kwargs", "sentence"),
    [
        ({"images": 91}, "end after 90 images"),
        ({"seed": 44}, "Expected serial_00000"),
        ({"start": 90}, "start=90"),
    ],
)
def test_refusals_before_the_start(root: Path, kwargs: dict, sentence: str) -> None:
    with pytest.raises(HoldfastError, match=sentence) as error:
        read(root, **kwargs)
    assert "\n" not in str(error.value)
    with pytest.raises(HoldfastError, match="`holdfast generate`"):
        CCCShards("https://example.org/ccc")


def test_a_shard_missing_in_the_middle_is_named(copied: Path) -> None:
    data = read(copied.parent)
    (copied / tar.shard_name(1)).unlink()
    with pytest.raises(HoldfastError, match=r"serial_00001\.tar is damaged .No such file"):
        list(data.test_dataloader())


# ---- damaged shards ----

INFO = tar.info("folder", "name", [("fog", 1.0), ("snow", 0.5)])


def jpeg() -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8)).save(buffer, "JPEG")
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("sample", "sentence"),
    [
        (tar.Sample(INFO, jpeg(), "cat"), "is damaged .*cat"),  # type: ignore[arg-type]
        (tar.Sample(INFO, jpeg(), -2), "has the label -2"),
        (tar.Sample("++dir++only", jpeg(), 0), "is damaged"),
        (tar.Sample(INFO, jpeg()[:200], 0), "cannot be decoded"),
    ],
)
def test_damaged_samples(tmp_path: Path, sample: tar.Sample, sentence: str) -> None:
    folder = tmp_path / tar.run_name(TARGET, 1, 43)
    folder.mkdir()
    tar.write_shard(folder / tar.shard_name(0), [sample])
    stream = CCCShards(str(tmp_path), TARGET, 1, images=1, shard_images=1)
    with pytest.raises(HoldfastError, match=sentence) as error:
        stream.batch(torch.arange(1))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("keep", [0, 700, 20_480])
def test_cut_shards_are_refused(copied: Path, keep: int) -> None:
    path = copied / tar.shard_name(0)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(HoldfastError, match=r"serial_00000\.tar.*(damaged|contains)") as error:
        list(read(copied.parent).test_dataloader())
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("at", [1024 + 130, 1024, 148])  # a length, a name, a checksum
def test_flipped_bits_are_refused(copied: Path, at: int) -> None:
    path = copied / tar.shard_name(0)
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)
    with pytest.raises(HoldfastError, match=r"serial_00000\.tar is damaged"):
        tar.Shard(path)


def test_from_the_command_line(root: Path, tmp_path: Path) -> None:
    words = ["--model", "Source", "--model.backbone", "digits", "--data", "CCCShards"]
    words += ["--data.root", str(root), "--data.shard_images", "25"]
    words += ["--data.difficulty", "30", "--data.speed", "10"]
    words += ["--data.images", "null", "--data.num_workers", "0", "--trainer.accelerator", "cpu"]
    assert main(["test", *words, "--out", str(tmp_path / "run")]) == 0
    rows = read_rows(tmp_path / "run")
    assert rows[-1]["images"] == 90
    assert rows[0]["corruptions"] == [list(p) for p in read(root).segment(0).corruptions]
