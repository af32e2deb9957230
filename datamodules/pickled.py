"""Reads pickles of numeric numpy arrays in a process with limits; no other type can be loaded.

This file is also a program, which reads a pickle from standard input and writes its content as
JSON.
"""

import base64
import io
import json
import math
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

SECONDS, MEMORY = 10, 2**28  # of the process that reads a pickle; bytes beside what Python needs


class NumberType:
    """Replaces numpy.dtype: only the types of plain numbers, and their byte order."""

    def __init__(self, code: str, *_: object) -> None:
        if not re.fullmatch(r"f[248]|[iu][1248]", code):
            raise ValueError("it contains something other than numbers")
        self.code, self.order = code, "="

    def __setstate__(self, state: tuple) -> None:
        if state[1] not in ("<", ">", "=", "|") or state[2:5] != (None, None, None):
            raise ValueError("it contains numbers of an unsupported type")
        self.order = state[1]


class Matrix:
    """Replaces numpy.ndarray: a file's description of an array, validated by `described`."""

    shape: Any = None
    kind: Any = None
    by_columns: Any = None
    content: Any = None

    def __init__(self, *parts: Any) -> None:
        if len(parts) == 4:
            self.shape, self.kind, self.by_columns, self.content = parts

    def __setstate__(self, state: tuple) -> None:
        _, self.shape, self.kind, self.by_columns, self.content = state

    def described(self) -> dict[str, Any] | None:
        """Type, shape, order and bytes for JSON; None if they contradict each other."""
        content, kind = self.content, self.kind
        if isinstance(content, str):  # so old pickles spell bytes
            content = content.encode("latin1", errors="replace")
        if type(kind) is not NumberType or type(content) not in (bytes, bytearray):
            return None
        if type(self.shape) is not tuple or {type(size) for size in self.shape} - {int}:
            return None
        if min(self.shape, default=0) < 0 or len(content) != int(kind.code[1:]) * math.prod(
            self.shape
        ):
            return None
        text = base64.b64encode(content).decode()
        order = "F" if self.by_columns else "C"
        return {"type": kind.order + kind.code, "shape": self.shape, "order": order, "bytes": text}


CALLS: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy", "dtype"): NumberType,
    ("numpy", "ndarray"): Matrix,
    ("numpy.core.multiarray", "_reconstruct"): lambda *_: Matrix(),
    ("numpy.core.numeric", "_frombuffer"): lambda content, kind, shape, order: Matrix(
        shape, kind, order == "F", content
    ),
    ("_codecs", "encode"): lambda text, encoding: text,
}


class Reader(pickle.Unpickler):
    """An unpickler that finds only the replacements above."""

    def find_class(self, module: str, name: str) -> Callable[..., Any]:
        known = CALLS.get((module.replace("numpy._core", "numpy.core"), name))
        if known is None:
            raise ValueError(f"it asks for {module[:50]}.{name[:50]}")
        return known


def main() -> None:
    """Read the pickle of this process' input within the limits of its arguments."""
    import resource

    seconds, memory = map(int, sys.argv[1:])
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    if sys.platform == "linux":
        with open("/proc/self/statm") as file:
            memory += int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    json.dump(answer(sys.stdin.buffer.read()), sys.stdout)


def answer(data: bytes) -> dict[str, Any]:
    """The content of a pickle, or its error, for JSON; call it only within limits."""
    try:
        content = Reader(io.BytesIO(data)).load()
        if type(content) is not dict or not all(type(name) is str for name in content):
            raise ValueError("it is not a mapping of names")
        arrays = {k: v.described() for k, v in content.items() if type(v) is Matrix}
        return {"arrays": dict.fromkeys(content) | arrays}
    except MemoryError:
        return {"error": "it takes too much memory"}
    except Exception as error:  # a pickle can be damaged in any way
        return {"error": (str(error).splitlines() or [type(error).__name__])[0][:100]}


def unpickled(data: bytes, seconds: int = SECONDS, memory: int = MEMORY) -> dict[str, Any]:
    """The arrays of a pickled mapping by name; None for values that are not numeric arrays.

    Raises:
        ValueError: if it is damaged, names anything else, or takes more time or memory.
    """
    import numpy as np

    command = [sys.executable, "-I", "-S", __file__, str(seconds), str(memory)]
    try:
        done = subprocess.run(command, input=data, capture_output=True, timeout=3 * seconds)
        found = json.loads(done.stdout) if done.returncode == 0 else {}
    except (subprocess.TimeoutExpired, ValueError):
        found = {}
    if "arrays" not in found:
        raise ValueError(
            found.get("error", f"reading it takes more than {seconds} s, or a crash ended it")
        )

    def array(it: dict[str, Any] | None) -> np.ndarray | None:
        if it is None:
            return None
        numbers = np.frombuffer(base64.b64decode(it["bytes"]), np.dtype(it["type"]))
        return numbers.reshape(it["shape"], order=it["order"])

    return {name: array(it) for name, it in found["arrays"].items()}


if __name__ == "__main__":
    main()
