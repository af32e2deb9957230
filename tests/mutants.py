"""Readers of files against files that are changed at random: bytes, and values of JSON of other kinds.

    python tests/mutants.py runs 10000      # or calibrations, configurations, checkpoints, shards, ...

reads that many mutants and prints what each of them that ended in anything but a sentence ended in.
"""

import contextlib
import copy
import io
import json
import random
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from holdfast import HoldfastError

ODD: tuple[Any, ...] = (
    *(None, True, 0, -1, 1.5, 10**30, 1e308, -(10**400), float("nan"), float("inf")),
    *("", "x", "\x1b[2J", "\ud800", "1e999", "../..", "9" * 5000, "{}"),
    *([], [None], [[[]]], {}, {"x": None}, {"": []}, [1] * 50, ["fog", "x"], [["fog", "x"]]),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterable[tuple[Any, ...]]:
    """The ways to all values in nested mappings and lists."""
    yield path
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


def mutated(value: Any, draw: random.Random) -> Any:
    """The value with one to three parts replaced by odd ones, removed, renamed or added."""
    value = copy.deepcopy(value)
    for _ in range(draw.randint(1, 3)):
        path = draw.choice(list(places(value)))
        if not path:
            if draw.random() < 0.1:
                return copy.deepcopy(draw.choice(ODD))
            continue
        inside = value
        for key in path[:-1]:
            inside = inside[key]
        kind = draw.randrange(5)
        if kind == 0:
            del inside[path[-1]]
        elif kind == 1 and isinstance(inside, dict):
            inside[draw.choice(["x", "images", "", "\x1b", "accuracy"])] = inside.pop(path[-1])
        elif kind == 2 and isinstance(inside, dict):
            inside[draw.choice(list(inside))] = copy.deepcopy(inside[path[-1]])
        else:
            inside[path[-1]] = copy.deepcopy(draw.choice(ODD))
    return value


def torn(data: bytes, draw: random.Random) -> bytes:
    """The bytes with a few of them changed, added, removed, repeated or cut off."""
    found = bytearray(data)
    for _ in range(draw.randint(1, 3)):
        at = draw.randrange(len(found) or 1)
        match draw.randrange(6):
            case 0 if found:
                found[at] ^= 1 << draw.randrange(8)
            case 1:
                found[at:at] = draw.randbytes(draw.randint(1, 9))
            case 2:
                del found[at : at + draw.randint(1, 40)]
            case 3:
                found[at:at] = found[draw.randrange(len(found) or 1) :][:40]
            case 4:
                del found[at:]
            case 5:
                found[at : at + 1] = draw.choice([b"\0", b"\xff", b"\n", b"{", b"[", b'"', b"\x1b"])
    return bytes(found)


def of_json(text: str, draw: random.Random) -> bytes:
    """A JSON text, or a line of one with several, with other values or other bytes."""
    if draw.random() < 0.2:
        return torn(text.encode(), draw)
    lines = text.splitlines() if text.count("\n") > 1 and text.startswith('{"') else [text]
    number = draw.randrange(len(lines))
    lines[number] = json.dumps(mutated(json.loads(lines[number]), draw))
    return ("\n".join(lines) + "\n").encode(errors="surrogatepass")


def outcome(read: Callable[[], object]) -> str:
    """How a reader ends: "read", "refused", or what else it raises; what it prints has no orders in it."""
    output = io.StringIO()
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            read()
    except HoldfastError as error:
        told, end = str(error), "refused"
    except Exception as error:
        told, end = "", traceback_line(error)
    else:
        told, end = "", "read"
    shown = output.getvalue() + told
    return f"sent {shown[:80]!r} to the terminal" if "\x1b" in shown else end


def traceback_line(error: Exception) -> str:
    """The exception and the last place of ours that it came through."""
    ours = [
        f for f in traceback.extract_tb(error.__traceback__) if "site-packages" not in f.filename
    ]
    place = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "?"
    return f"{type(error).__name__} at {place}: {' '.join(str(error).split())[:90]}"


def outcomes(name: str, count: int, folder: Path, first: int = 0) -> Counter[str]:
    """How often the reader of that name ends in which way, of `count` mutants."""
    from fuzzed import SUBJECTS

    attack = SUBJECTS[name](folder)
    return Counter(outcome(attack(random.Random(seed))) for seed in range(first, first + count))


if __name__ == "__main__":
    names, number = sys.argv[1].split(","), int(sys.argv[2])
    begin = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    for subject in names:
        with tempfile.TemporaryDirectory() as place:
            found = outcomes(subject, number, Path(place), begin)
        good = found["read"] + found["refused"]
        print(f"{subject}: {good} of {number} read or refused ({found['read']} read)")
        for what, times in found.most_common():
            if what not in ("read", "refused"):
                print(f"  {times} x {what}")
