"""Any pickle passed as CCC's published file is either refused or read as numbers."""

import json
import os
import pickle
import pickletools
import random
import resource
import sys
from pathlib import Path

import numpy as np
import pytest
from processes import started

from holdfast import HoldfastError
from holdfast.datamodules.official import load_official
from holdfast.datamodules.pickled import answer, unpickled

KEY = b"X\x0f\x00\x00\x00n1_fog_n2_frost"
FUZZED = int(os.environ.get("HOLDFAST_MUTANTS", 2000))  # pickles
SECONDS = 600  # a bound on the process that reads them
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


def test_crafted_pickles_are_refused(tmp_path: Path) -> None:
    for name, items in CRAFTED.items():
        with pytest.raises(ValueError, match=r"\w"):  # noqa: PT012
            found = unpickled(wrapped(items), seconds=1, memory=2**27)
            assert not any(
                array is not None and array.shape == (21, 21) for array in found.values()
            )
            raise ValueError(f"{name} is refused by what needs numbers")
    (tmp_path / "m.pickle").write_bytes(wrapped(CRAFTED["pointers"]))
    with pytest.raises(HoldfastError, match=r"m\.pickle"):
        load_official(tmp_path / "m.pickle")


@pytest.mark.parametrize("kind", ["copies", "tuples"])
def test_time_is_bounded(kind: str) -> None:
    """Within its second, whatever the pickle asks for: 500 conversions of 4 MB, and nested tuples."""
    text = b"X" + (2**22).to_bytes(4, "little") + bytes(2**22) + b"q\x00"
    dtype = b"cnumpy\ndtype\nq\x01"
    copies = text + b"0" + dtype + b"0" + b"h\x01h\x00\x85R0" * 500 + b"N."
    data = b"\x80\x02" + copies if kind == "copies" else wrapped(b")q\x01" + DOUBLED)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with pytest.raises(ValueError, match=r"numbers|1 s"):
        unpickled(data, seconds=1)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 2.5


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
def test_memory_is_bounded() -> None:
    data = pickle.dumps({"x": bytes(2**26)})
    assert unpickled(data) == {"x": None}
    with pytest.raises(ValueError, match=r"memory|crash"):
        unpickled(data, memory=2**24)


def test_changed_pickles_are_refused_or_read_as_numbers() -> None:
    """In one process, which must not crash, hang, or need much memory."""
    with started(str(FUZZED), program=[__file__]) as process:
        output = process.told(SECONDS)
    assert process.returncode == 0, output[-2000:]
    found = [line for line in output.splitlines() if line in ("read", "refused")]
    assert len(found) == FUZZED
    assert 0.05 < found.count("read") / FUZZED < 0.9  # else this would try little


if __name__ == "__main__":
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + 2**28, now + 2**28))
    for seed in range(int(sys.argv[1])):
        found = answer(fuzzed(seed))
        arrays = found.get("arrays", {})
        assert json.loads(json.dumps(found)).keys() & {"arrays", "error"}
        print("read" if arrays and all(arrays.values()) else "refused", flush=True)
