"""Whatever a pickle says that is given for CCC's published file, it is refused or read as numbers."""

import pickle
import pickletools
import random
import sys
from pathlib import Path

import numpy as np
from processes import started

from holdfast import HoldfastError
from holdfast.datamodules.official import load_official

KEY = b"X\x0f\x00\x00\x00n1_fog_n2_frost"
FUZZED, SECONDS = 2000, 200  # pickles; a bound on the process that reads them
ARRAY = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tX\x01\x00\x00\x00btR"


def number_type(code: bytes, flags: int) -> bytes:
    """numpy.dtype(code), whose state claims these flags."""
    state = b"K\x03X\x01\x00\x00\x00|NNN" + b"J\xff\xff\xff\xff" * 2 + b"K" + bytes([flags])
    return b"cnumpy\ndtype\n(X\x02\x00\x00\x00" + code + b"\x89\x88tR(" + state + b"tb"


def array(kind: bytes, content: bytes, shape: bytes = b"K\x15K\x15t") -> bytes:
    length = len(content).to_bytes(4, "little")
    return ARRAY + b"(K\x01(" + shape + kind + b"\x89B" + length + content + b"tb"


NUMBERS, POINTERS = number_type(b"f8", 0), b"AAAAAAAA" * 441
DOUBLED = b"".join(b"h%ch%c\x86q%c" % (k, k, k + 1) for k in range(1, 200))
CRAFTED = {
    "pointers": KEY + array(number_type(b"O8", 0), POINTERS),
    "a shape made of pointers": KEY
    + ARRAY.replace(b"(K\x00t", array(number_type(b"O8", 0), b"AAAAAAAA" * 2, b"K\x02t")),
    "too few bytes": KEY + array(NUMBERS, bytes(8)),
    "a huge shape": KEY + array(NUMBERS, b"", b"J\xff\xff\xff\x7f" * 2 + b"t"),
    "a length below 0": KEY + array(NUMBERS, b"", b"J\xff\xff\xff\xff" * 2 + b"t"),
    "no state": KEY + ARRAY,
    "bytes that are not there": KEY + b"\x8e" + b"\xff" * 7 + b"\x7f",
    "a memo of gigabytes": KEY + b"Nr\xff\xff\xff\x7f",
    "a key that takes 2^199 steps": b")q\x01" + DOUBLED,
    "a name that takes 2^199 steps": KEY + b"X\x05\x00\x00\x00numpy)q\x01" + DOUBLED + b"\x93",
}


def wrapped(items: bytes) -> bytes:
    return b"\x80\x02}(" + items + b"u."


def fuzzed(seed: int) -> bytes:
    """A pickle of two matrices with a few of its bytes, or of its instructions, changed."""
    draw = random.Random(seed)
    content = {f"n1_{name}_n2_fog": np.full((21, 21), 7.0) for name in ("frost", "snow")}
    data = bytearray(pickle.dumps(content, protocol=draw.choice((0, 2, 3, 4, 5))))
    places = [at for _, _, at in pickletools.genops(bytes(data)) if at is not None]
    for _ in range(draw.randint(1, 2)):
        code = ord(draw.choice(pickletools.opcodes).code)
        at = min(draw.choice((draw.choice(places), draw.randrange(len(data)))), len(data) - 1)
        match draw.randrange(5):
            case 0:
                data[at] = code
            case 1:
                data[at] ^= 1 << draw.randrange(8)
            case 2:
                data.insert(at, code)
            case 3:
                del data[at : at + draw.randint(1, 8)]
            case 4:
                other = draw.choice(places)
                data[at:at] = data[other : other + draw.randint(1, 40)]
    return bytes(data)


def read(path: Path, data: bytes) -> str:
    """How the reader ends; whatever it returns is plain percentages."""
    path.write_bytes(data)
    try:
        accuracy = load_official(path).accuracy
    except HoldfastError as error:
        return f"refused: {error}"
    known = accuracy[~np.isnan(accuracy)]
    assert accuracy.dtype == np.float32
    assert ((known >= 0) & (known <= 100)).all()
    return "read"


def outcomes(name: str, folder: Path) -> list[str]:
    """From a process of its own, which must not crash, hang, or need much memory."""
    with started(name, folder / "m.pickle", program=[__file__]) as process:
        output = process.told(SECONDS)
    assert process.returncode == 0, output[-2000:]
    assert "MemoryError" not in output
    return output.splitlines()


def test_crafted_pickles_are_refused(tmp_path: Path) -> None:
    found = outcomes("crafted", tmp_path)
    assert len(found) == len(CRAFTED)
    assert all(line.startswith("refused: ") for line in found)


def test_changed_pickles_are_refused_or_read_as_numbers(tmp_path: Path) -> None:
    found = outcomes("fuzzed", tmp_path)
    assert len(found) == FUZZED
    assert 0.05 < found.count("read") / FUZZED < 0.9  # else this would try little


if __name__ == "__main__":
    import resource

    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + 2**28, now + 2**28))
    pickles = {
        "crafted": (wrapped(items) for items in CRAFTED.values()),
        "fuzzed": (fuzzed(seed) for seed in range(FUZZED)),
    }
    for content in pickles[sys.argv[1]]:
        print(read(Path(sys.argv[2]), content), flush=True)
