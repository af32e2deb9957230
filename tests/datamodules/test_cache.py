"""Batches from the cache equal those of the stream, bit for bit, whichever process wrote them."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
import torch
from conftest import without_times
from small_suites import corrupted_digits, write_suite

from holdfast import HoldfastError
from holdfast.benchmarks.run import one_run as holdfast_test
from holdfast.benchmarks.run.common_options import cache_place
from holdfast.benchmarks.suites import suite
from holdfast.datamodules import CCC, Batch, Glyphs, MixedDomains, Stream
from holdfast.datamodules.cache import KEY, BatchCache, key_of
from holdfast.run_folder import CONFIG

CONFIGURATION = {"class_path": "CCC", "init_args": {"seed": 43, "num_workers": 0}}
STREAM = {"images": 150, "speed": 11, "table": "imagenet"}


def cached(folder: Path, size: int = 10**9, **kwargs: object) -> Stream:
    stream = CCC(Glyphs(), 10.0, calibration="glyphs", **{**STREAM, "num_workers": 0, **kwargs})  # type: ignore[arg-type]
    stream.cache = BatchCache(folder, size, key_of(stream, CONFIGURATION))
    return stream


def written(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.npz"))


def refuse(index: torch.Tensor) -> Batch:
    raise AssertionError("made again")


@pytest.mark.parametrize("on_device", [False, True])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_the_same_bits_with_and_without(on_device: bool, num_workers: int, tmp_path: Path) -> None:
    plain, first, second = (
        cached(tmp_path, num_workers=num_workers, on_device=on_device) for _ in range(3)
    )
    plain.cache = None
    expected = list(plain.test_dataloader())
    made = list(first.test_dataloader())
    files = {path: path.stat().st_mtime_ns for path in written(tmp_path)}
    assert len(files) == len(expected)
    for batches in (made, list(second.test_dataloader())):
        for ours, theirs in zip(batches, expected, strict=True):
            for one, other in zip(ours, theirs, strict=True):
                assert torch.equal(one, other)
                assert one.stride() == other.stride()
    assert files == {path: path.stat().st_mtime_ns for path in written(tmp_path)}


def test_bytes_where_they_are_exact(tmp_path: Path) -> None:
    index = torch.arange(2)
    numbers = Batch(torch.rand(2, 3, 8, 8), torch.zeros(2).long(), index, index)
    levels = numbers._replace(images=torch.randint(256, (2, 3, 8, 8)) / 255)
    for name, batch, size in (("numbers", numbers, 4), ("levels", levels, 1)):
        cache = BatchCache(tmp_path / name, 10**9, {})
        cache.batch(index, partial(lambda batch, _: batch, batch))
        assert torch.equal(cache.batch(index, refuse).images, batch.images)
        (file,) = written(tmp_path / name)
        assert 384 * size < file.stat().st_size < 384 * size + 2000


def test_damage_is_found_and_mended(tmp_path: Path) -> None:
    stream = cached(tmp_path, batch_size=8)
    assert stream.cache
    index = torch.arange(8)
    whole = stream.cache.batch(index, stream.batch)
    (file,) = written(tmp_path)
    content = file.read_bytes()
    for place in range(0, len(content), 1499):
        file.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        assert torch.equal(stream.cache.batch(index, stream.batch).images, whole.images)
    for rest in (0, 10, len(content) // 2, len(content) - 1):
        file.write_bytes(content[:rest])
        assert torch.equal(stream.cache.batch(index, stream.batch).images, whole.images)
    assert torch.equal(stream.cache.batch(index, refuse).images, whole.images)
    assert written(tmp_path) == [file]


def test_a_batch_is_made_by_one_and_awaited_by_all(tmp_path: Path) -> None:
    """Locks belong to open files, so that threads exclude one another as processes do."""
    made: list[int] = []
    stream = cached(tmp_path)

    def make(index: torch.Tensor) -> Batch:
        made.append(int(index[0]))
        time.sleep(0.05)
        return stream.batch(index)

    def one(_: int) -> int:
        cache = BatchCache(tmp_path, 10**9, {})
        return sum(int(cache.batch(torch.arange(k, k + 8), make).labels.sum()) for k in (0, 8, 16))

    with ThreadPoolExecutor(8) as threads:
        sums = set(threads.map(one, range(8)))
    assert len(sums) == 1
    assert sorted(made) == [0, 8, 16]


def test_missing_images_are_looked_for_again(tmp_path: Path) -> None:
    stream, index = cached(tmp_path), torch.arange(8)
    assert stream.cache
    stream.cache.batch(index, lambda index: stream.batch(index[1:]))
    assert not written(tmp_path)
    assert len(stream.cache.batch(index, stream.batch).index) == 8


def test_room(tmp_path: Path) -> None:
    """A stream that does not fit keeps its beginning; one that is out of use makes room."""
    size = 100_000  # three batches of 8 images
    (tmp_path / "0123456789abcdef").mkdir()
    (tmp_path / "0123456789abcdef" / "precious").write_text("not ours")
    first = cached(tmp_path, size, batch_size=8)
    list(first.test_dataloader())
    kept = written(tmp_path)
    assert sorted(int(path.name.split(".")[1].split("-")[0]) for path in kept) == [0, 8, 16]
    list(cached(tmp_path, size, batch_size=8, seed=44).test_dataloader())
    assert written(tmp_path) == kept  # the first may still run
    key = kept[0].with_name(KEY)
    os.utime(key, (time.time() - 3600,) * 2)
    second = cached(tmp_path, size, batch_size=8, seed=45)
    list(second.test_dataloader())
    assert not key.exists()
    assert len(written(tmp_path)) == 3
    assert (tmp_path / "0123456789abcdef" / "precious").exists()


def test_a_cache_that_cannot_be_written_only_costs_time(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    stream = cached(tmp_path / "file")
    with pytest.warns(UserWarning, match="file cannot be written"):
        batches = list(stream.test_dataloader())
    assert sum(len(batch.labels) for batch in batches) == 150


def test_the_key(tmp_path: Path) -> None:
    """All that may change a pixel is in it, and nothing else."""
    image = tmp_path / "image.png"
    image.touch()
    stream = CCC(Glyphs(), 10.0, calibration="glyphs", **STREAM)  # type: ignore[arg-type]

    def key(**changed: object) -> dict:
        return key_of(stream, {"init_args": {"path": str(image), "seed": 43, **changed}})

    before = key(num_workers=2)
    assert key(num_workers=4) == before
    assert key(seed=44) != before
    mixed = MixedDomains(stream)
    assert key_of(mixed, {"init_args": {"path": str(image), "seed": 43}}) != before
    image.write_text("changed")
    assert key() != before


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("cache", (Path.cwd() / "cache", 10**10)),
        ("cache:2GB", (Path.cwd() / "cache", 2 * 10**9)),
        ("/c:1.5m", (Path("/c"), 1_500_000)),
        ("C:\\c", (Path("C:\\c").absolute(), 10**10)),
    ],
)
def test_places(text: str, place: tuple[Path, int]) -> None:
    assert cache_place(text) == place


def test_no_place() -> None:
    with pytest.raises(HoldfastError, match="cache:20GB"):
        cache_place("")


def test_runs(tmp_path: Path) -> None:
    """The methods of a suite share the batches of their stream; the results are as without."""
    stream = corrupted_digits("fog", each=150, batch_size=64, table="cifar", num_workers=1)
    common = {"trainer": {"enable_progress_bar": False}, "threads": 1}
    file = write_suite(tmp_path, ("Source", "BNAdapt"), {"ccc": stream}, common=common)
    cache = tmp_path / "cache"
    words = ["--out", str(tmp_path / "cached"), "--cache", f"{cache}:1GB"]
    assert not suite.main([str(file), *words])
    files = written(cache)
    assert len(files) == 3
    folder = tmp_path / "cached" / "ccc-seed43" / "BNAdapt"
    for out, more in (("plain", []), ("again", ["--cache", str(cache)])):
        words = ["--config", str(folder / CONFIG), "--out", str(tmp_path / out), *more]
        holdfast_test.run(words)
        assert without_times(tmp_path / out) == without_times(folder)
    assert written(cache) == files
