"""Shards in the official layout: generated, verified, read from disk and from a bad server."""

import http.server
import io
import itertools
import json
import resource
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
import webdataset
from conftest import joined
from PIL import Image
from processes import started, until

from holdfast import HoldfastError
from holdfast.benchmarks.cli import main
from holdfast.datamodules import CCC, Digits, Shards
from holdfast.datamodules.sources.download import CHUNK, Patience, fetch
from holdfast.datamodules.sources.tar import Shard, corruptions_in, info, run_name, shard_size
from holdfast.files import locked
from holdfast.run_folder import read_rows

SPEED, SIZE, TARGET = 10, 30, 30.0
RUN = run_name(TARGET, SPEED, 43)
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


def generated(calibration: Path, **kwargs: object) -> CCC:
    options = {"images": 90, "table": "cifar", "quality": None, "num_workers": 0, **kwargs}
    return CCC(Digits(), TARGET, SPEED, calibration=calibration, corruptions=NAMES, **options)  # type: ignore[arg-type]


def read(root: Path | str, **kwargs: object) -> CCC:
    """The stream of the shards in a folder or on a server."""
    own = ("cache", "keep", "timeout", "attempts", "pause", "verify")
    source = {key: kwargs.pop(key) for key in own if key in kwargs}
    options = {"images": 90, "num_workers": 0, "batch_size": 16, **kwargs}
    return CCC(Shards(str(root), shard_images=25, **source), TARGET, SPEED, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(("speed", "size"), [(1000, 25_000), (2000, 26_000), (5000, 25_000)])
def test_official_sizes(speed: int, size: int) -> None:
    assert shard_size(speed) == size
    assert -(-7_500_000 // size) == {25_000: 300, 26_000: 289}[size]


def test_official_names() -> None:
    assert run_name(20.0, 1000, 43) == "baseline_20_transition+speed_1000_seed_43"
    text = info("n01440764", "a.JPEG", [("elastic_transform", 0.25), ("fog", 0.0)])
    assert text == "++dir++n01440764++name++a.JPEG++n1++elastic++s1++0.25++n2++fog++s2++0.0"
    assert corruptions_in(text) == (("elastic_transform", 0.25),)


def test_webdataset_reads_what_the_stream_shows(root: Path, calibration: Path) -> None:
    shards = sorted((root / RUN).glob("*.tar"))
    assert [shard.name for shard in shards] == [f"serial_{k:05d}.tar" for k in range(3)]
    dataset = webdataset.WebDataset([str(s) for s in shards], shardshuffle=False)
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
    for part, true in zip(ours[1:], clean[1:], strict=True):
        assert torch.equal(part, true)
    assert (ours.images - clean.images).abs().max() < 3 / 255  # libjpeg, twice
    assert [str(data.segment(k)) for k in range(9)] == [str(expected.segment(k)) for k in range(9)]
    later = joined(list(read(root, start=47).test_dataloader()))
    assert torch.equal(later.images, ours.images[47:])


def test_generation_is_resumed_and_verified(
    root: Path, calibration: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    folder = tmp_path / RUN
    folder.mkdir()
    whole = [(root / RUN / f"serial_{k:05d}.tar").read_bytes() for k in range(3)]
    (folder / "serial_00000.tar").write_bytes(whole[0])
    (folder / "serial_00001.tar").write_bytes(whole[1][:20_000])  # cut
    assert main([*arguments(calibration, tmp_path), "--workers", "2"]) == 0
    assert "2 shards written, 1 verified" in capsys.readouterr().out
    assert [(folder / f"serial_{k:05d}.tar").read_bytes() for k in range(3)] == whole
    times = {path: path.stat().st_mtime_ns for path in folder.glob("*.tar")}
    assert main(arguments(calibration, tmp_path)) == 0
    assert times == {path: path.stat().st_mtime_ns for path in folder.glob("*.tar")}


def test_altered_shards_are_found_by_their_checksums(
    root: Path, calibration: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    assert main(arguments(calibration, tmp_path)) == 0
    assert main([*arguments(calibration, tmp_path), "--verify"]) == 0
    path = tmp_path / RUN / "serial_00001.tar"
    content = bytearray(path.read_bytes())
    at = (
        Shard(path).places["sample_7.input.jpg"].stop - 9
    )  # a pixel, which every reader takes as it is
    content[at] ^= 1
    path.write_bytes(content)
    capsys.readouterr()
    assert main(arguments(calibration, tmp_path)) == 0
    assert main([*arguments(calibration, tmp_path), "--verify"]) == 2
    assert "serial_00001.tar has changed" in capsys.readouterr().err
    assert len(joined(list(read(tmp_path).test_dataloader())).labels) == 90
    with pytest.raises(HoldfastError, match=r"serial_00001\.tar has changed"):
        list(read(tmp_path, verify=True).test_dataloader())
    (tmp_path / RUN / "serial_00000.tar.sha256").unlink()
    with pytest.raises(HoldfastError, match=r"serial_00000\.tar\.sha256.*does not exist"):
        list(read(tmp_path, verify=True).test_dataloader())


def test_another_streams_shards_are_refused(
    root: Path, calibration: Path, capsys: pytest.CaptureFixture
) -> None:
    words, facts = arguments(calibration, root), root / RUN / "provenance.json"
    before = facts.read_text()
    for other in (["--table", "imagenet"], ["--shard-images", "11"], ["--corruptions", *NAMES[1:]]):
        assert main([*words, *other]) == 2
        assert "another --out" in capsys.readouterr().err
        assert facts.read_text() == before
        assert len(Shard(root / RUN / "serial_00000.tar")) == SIZE


def test_two_processes_do_not_write_the_same_shard(
    calibration: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    with locked(tmp_path / RUN / "serial_00001.tar"):
        assert main(arguments(calibration, tmp_path)) == 2
    assert "Another process is writing" in capsys.readouterr().err
    assert len(Shard(tmp_path / RUN / "serial_00000.tar")) == SIZE


def test_a_full_disk_is_one_sentence(
    calibration: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    """A limit on the size of files stands for the disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        assert main(arguments(calibration, tmp_path)) == 2
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    sentence = capsys.readouterr().err.splitlines()[-1]
    assert "serial_00000.tar" in sentence
    assert "(File too large)" in sentence
    assert not list(tmp_path.rglob("*.tar"))
    assert main(arguments(calibration, tmp_path)) == 0


def test_a_name_may_hold_the_separator() -> None:
    assert corruptions_in(info("c++", "a++b.jpg", [("fog", 1.0), ("snow", 0.0)])) == (("fog", 1.0),)


@pytest.mark.slow
def test_a_killed_generation_leaves_whole_shards(calibration: Path, tmp_path: Path) -> None:
    words = [*arguments(calibration, tmp_path), "--images", "100000", "--shard-images", "200"]
    with started(*words) as process:
        until(lambda: len(list(tmp_path.rglob("*.tar"))) > 1, alive=lambda: process.poll() is None)
        process.kill()
        assert process.wait() == -signal.SIGKILL
    shards = sorted(tmp_path.rglob("*.tar"))
    assert len(shards) >= 2
    assert all(len(Shard(shard)) == 200 for shard in shards)


@pytest.mark.parametrize("keep", [0, 700, 20_480])
def test_cut_shards_are_refused(root: Path, tmp_path: Path, keep: int) -> None:
    path = tmp_path / "cut.tar"
    path.write_bytes((root / RUN / "serial_00000.tar").read_bytes()[:keep])
    with pytest.raises(HoldfastError, match=r"cut\.tar"):
        Shard(path)


def test_flipped_bits_are_refused(root: Path, tmp_path: Path) -> None:
    path = tmp_path / "flipped.tar"
    content = bytearray((root / RUN / "serial_00000.tar").read_bytes())
    content[1024 + 130] ^= 1  # the length of the first image, in its header
    path.write_bytes(content)
    with pytest.raises(HoldfastError, match="damaged"):
        Shard(path)


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


def test_both_spellings_of_a_run(root: Path, tmp_path: Path) -> None:
    """The difficulty as a whole number, and as a decimal, as some copies of CCC have it."""
    (tmp_path / RUN.replace("baseline_30_", "baseline_30.0_")).symlink_to(root / RUN)
    ours, theirs = (joined(read(place).test_dataloader()) for place in (root, tmp_path))
    assert torch.equal(ours.images, theirs.images)


def test_no_place_is_assumed() -> None:
    with pytest.raises(HoldfastError, match="`holdfast generate`"):
        Shards()


def test_all_there_are(root: Path) -> None:
    assert joined(list(read(root, images=None).test_dataloader())).index.tolist() == list(range(90))


# ---- a server with faults ----


class Server(http.server.ThreadingHTTPServer):
    """Serves a folder; each request for contents meets the next of the faults, then none."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder, self.ranges = folder, True
        self.faults: Iterator[str] = itertools.repeat("")
        self.sent: list[tuple[str, int, int]] = []  # path, first byte, number of bytes
        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server_port}"

    def script(self, *faults: str) -> None:
        self.faults = itertools.chain(faults, itertools.repeat(""))


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        path = self.server.folder / self.path.strip("/")
        if not path.is_file():
            return self.send_error(404)
        content, asked = path.read_bytes(), self.headers.get("Range", "bytes=0-")
        probe = asked == "bytes=0-0"
        fault = "" if probe else next(self.server.faults)
        if fault.isdigit():
            return self.send_error(int(fault))
        first = int(asked[6:].split("-")[0]) if self.server.ranges else 0
        body = content[first : 1 if probe else None]
        self.send_response(206 if self.server.ranges and "Range" in self.headers else 200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Range", f"bytes {first}-{len(content) - 1}/{len(content)}")
        self.send_header("ETag", f'"{len(content)}"')
        self.end_headers()
        cut = {"cut": len(body) // 2, "cut at once": 0, "stall": len(body) // 3}
        body = body[: cut.get(fault)]
        if not probe:  # noted first: the client may be done before this thread goes on
            self.server.sent.append((self.path, first, len(body)))
        self.wfile.write(body)
        if fault == "stall":
            time.sleep(3)
        if fault:
            self.connection.close()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(root: Path) -> Iterator[Server]:
    with Server(root) as server:
        yield server
        server.shutdown()


FAST = {"timeout": 0.5, "pause": 0.01}


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_bad_server_changes_no_pixel(
    root: Path, server: Server, tmp_path: Path, num_workers: int
) -> None:
    expected = joined(list(read(root).test_dataloader()))
    server.script("500", "cut", "cut", "stall", "503", "cut at once", "cut", "429", "stall", "cut")
    start = time.monotonic()
    data = read(server.url, cache=tmp_path, num_workers=num_workers, **FAST)
    ours = joined(list(data.test_dataloader()))
    assert time.monotonic() - start < 20
    for part, true in zip(ours, expected, strict=True):
        assert torch.equal(part, true)
    sizes = {f"/{p.parent.name}/{p.name}": p.stat().st_size for p in (root / RUN).glob("*.tar")}
    for path, size in sizes.items():  # cuts were continued, not begun again
        got = [(first, count) for sent, first, count in server.sent if sent == path]
        assert size <= sum(count for _, count in got) <= size + CHUNK * len(got), path
        assert [first for first, _ in got] == sorted(first for first, _ in got)
    assert any(first > 0 for _, first, _ in server.sent)
    assert not list(tmp_path.rglob("*.partial"))


def test_a_server_without_ranges(root: Path, server: Server, tmp_path: Path) -> None:
    server.ranges = False
    server.script("cut", "stall")
    fetch(f"{server.url}/{RUN}/serial_00001.tar", tmp_path / "a.tar", Patience(0.5, 3, 0.01))
    expected = (root / RUN / "serial_00001.tar").read_bytes()
    assert (tmp_path / "a.tar").read_bytes() == expected


def test_a_killed_download_is_continued(root: Path, server: Server, tmp_path: Path) -> None:
    expected = (root / RUN / "serial_00000.tar").read_bytes()
    (tmp_path / "a.tar.partial").write_bytes(expected[:10_000])
    fetch(f"{server.url}/{RUN}/serial_00000.tar", tmp_path / "a.tar", Patience(0.5, 3, 0.01))
    assert (tmp_path / "a.tar").read_bytes() == expected
    assert server.sent[0][1] == 10_000


def test_patience_has_an_end(server: Server, tmp_path: Path) -> None:
    server.faults = itertools.repeat("500")
    start = time.monotonic()
    with pytest.raises(HoldfastError, match=r"3 attempts .*500.* kept"):
        fetch(f"{server.url}/{RUN}/serial_00000.tar", tmp_path / "a.tar", Patience(0.5, 3, 0.01))
    assert time.monotonic() - start < 60
    server.faults = itertools.repeat("403")
    with pytest.raises(HoldfastError, match=r"refused .403"):
        fetch(f"{server.url}/{RUN}/serial_00000.tar", tmp_path / "b.tar", Patience(0.5, 3, 0.01))


def test_the_end_of_hosted_shards_is_clear(server: Server, tmp_path: Path) -> None:
    data = read(server.url, cache=tmp_path, images=None, **FAST)
    assert data.images == 90
    with pytest.raises(HoldfastError, match=r"3 shards .* 90 images"):
        read(server.url, cache=tmp_path, images=7_500_000, **FAST)
    with pytest.raises(HoldfastError, match="no shards"):
        read(server.url, cache=tmp_path, seed=1, **FAST)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_shard_missing_in_the_middle_is_named(
    root: Path, tmp_path: Path, num_workers: int
) -> None:
    folder = tmp_path / "root" / RUN
    folder.mkdir(parents=True)
    for number in (0, 2):
        name = f"serial_{number:05d}.tar"
        (folder / name).write_bytes((root / RUN / name).read_bytes())
    with Server(tmp_path / "root") as server:
        data = read(server.url, cache=tmp_path / "cache", num_workers=num_workers, **FAST)
        with pytest.raises(HoldfastError, match=r"serial_00001\.tar does not exist") as error:
            list(data.test_dataloader())
        server.shutdown()
    assert "\n" not in str(error.value)


def test_a_torn_cache_is_mended_and_old_shards_go(
    root: Path, server: Server, tmp_path: Path
) -> None:
    read(server.url, cache=tmp_path, images=30, **FAST).batch(torch.tensor([0]))
    (torn,) = tmp_path.rglob("serial_00000.tar")
    torn.write_bytes(b"torn")
    data = read(server.url, cache=tmp_path, keep=1, **FAST)
    expected = joined(list(read(root).test_dataloader()))
    assert torch.equal(joined(list(data.test_dataloader())).images, expected.images)
    assert [path.name for path in tmp_path.rglob("*.tar")] == ["serial_00002.tar"]


def test_servers_do_not_share_a_cache(root: Path, server: Server, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / RUN).mkdir(parents=True)
    for number in range(3):
        name = f"serial_{(number + 1) % 3:05d}.tar"
        (other / RUN / f"serial_{number:05d}.tar").write_bytes((root / RUN / name).read_bytes())
    with Server(other) as second:
        for url, first in ((server.url, 0), (second.url, 30)):
            data = read(url, cache=tmp_path / "cache", images=30, **FAST)
            ours, expected = data.batch(torch.arange(30)), read(root)
            assert torch.equal(ours.images, expected.batch(torch.arange(first, first + 30)).images)
        second.shutdown()


def test_from_the_command_line(root: Path, tmp_path: Path) -> None:
    words = ["--model", "Source", "--model.backbone", "digits", "--data", "CCC"]
    words += ["--data.source", "Shards", "--data.source.root", str(root)]
    words += ["--data.source.shard_images", "25", "--data.difficulty", "30", "--data.speed", "10"]
    words += ["--data.images", "null", "--data.num_workers", "0", "--trainer.accelerator", "cpu"]
    assert main(["test", *words, "--out", str(tmp_path / "run")]) == 0
    rows = read_rows(tmp_path / "run")
    assert rows[-1]["images"] == 90
    assert rows[0]["corruptions"] == [list(p) for p in read(root).segment(0).corruptions]


def test_provenance_lies_beside_the_shards(root: Path) -> None:
    facts = json.loads((root / RUN / "provenance.json").read_text())
    assert facts["target"] == TARGET
    assert facts["quality"] == 85
