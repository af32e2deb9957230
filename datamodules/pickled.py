"""Pickles of numpy's arrays of numbers, read without executing them: neither pickle nor numpy sees them."""

import math
import pickletools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass
class NumberType:
    """In place of numpy.dtype: only the types of plain numbers, and their byte order."""

    code: str
    order: str = "="

    def build(self, version: int, order: str, *rest: object) -> None:
        if order not in ("<", ">", "=", "|") or rest[:3] != (None, None, None):
            raise ValueError("its numbers are not plain")
        self.order = order


@dataclass
class Matrix:
    """In place of numpy.ndarray: what a file says of an array, not believed before `numbers`."""

    content: Any = b""
    kind: Any = None
    shape: Any = ()
    by_columns: Any = False

    def build(self, version: int, shape: Any, kind: Any, by_columns: Any, content: Any) -> None:
        self.content, self.kind, self.shape, self.by_columns = content, kind, shape, by_columns

    def numbers(self, *shape: int) -> np.ndarray | None:
        """The array, if it has this shape and as many bytes as that takes."""
        content = self.content
        if isinstance(content, str):  # so old pickles spell bytes
            content = content.encode("latin1", errors="replace")
        fits = self.shape == shape and isinstance(content, bytes | bytearray)
        if not fits or not isinstance(self.kind, NumberType):
            return None
        kind = np.dtype(self.kind.order + self.kind.code)
        if len(content) != kind.itemsize * math.prod(shape):
            return None
        return np.frombuffer(content, kind).reshape(shape, order="F" if self.by_columns else "C")


def _number_type(code: str, *_: object) -> NumberType:
    if not re.fullmatch(r"f[248]|[iu][1248]", code):
        raise ValueError("it holds other things than numbers")
    return NumberType(code)


def _from_buffer(content: Any, kind: Any, shape: Any, order: str) -> Matrix:
    return Matrix(content, kind, shape, order == "F")


CALLS: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy", "dtype"): _number_type,
    ("numpy", "ndarray"): Matrix,
    ("numpy.core.multiarray", "_reconstruct"): lambda *_: Matrix(),
    ("numpy.core.numeric", "_frombuffer"): _from_buffer,
    ("_codecs", "encode"): lambda text, encoding: text,
}
CONSTANTS = {
    *("NONE", "INT", "BININT", "BININT1", "BININT2", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE"),
    *("SHORT_BINBYTES", "BINBYTES", "BINBYTES8", "BYTEARRAY8"),
}


def unpickled(data: bytes) -> Any:
    """What a pickle of arrays by their names holds, each as a `Matrix`.

    Knows no other instructions than such a pickle needs, and neither imports nor calls what it names.

    Raises:
        Exception: of any kind, if it is damaged or holds anything else.
    """
    stack: list[Any] = []
    marks: list[int] = []
    memo: dict[int, Any] = {}

    def marked() -> list[Any]:
        items = stack[(mark := marks.pop()) :]
        del stack[mark:]
        return items

    def admit(module: str, name: str) -> None:
        known = CALLS.get((module.replace("numpy._core", "numpy.core"), name))
        if known is None:
            raise ValueError(f"it asks for {module[:50]}.{name[:50]}")
        stack.append(known)

    def add(items: list[Any]) -> None:
        if type(stack[-1]) is not dict or not all(type(key) is str for key in items[::2]):
            raise ValueError("it is no mapping of names")
        stack[-1].update(zip(items[::2], items[1::2], strict=True))

    instructions: Iterator[tuple[Any, Any, Any]] = pickletools.genops(data)
    for instruction, argument, _ in instructions:
        match instruction.name:
            case "PROTO" | "FRAME":
                pass
            case name if name in CONSTANTS:
                stack.append(argument)
            case "NEWTRUE" | "NEWFALSE" as name:
                stack.append(name == "NEWTRUE")
            case "MARK":
                marks.append(len(stack))
            case "EMPTY_TUPLE" | "EMPTY_DICT" as name:
                stack.append(() if name == "EMPTY_TUPLE" else {})
            case "TUPLE":
                stack.append(tuple(marked()))
            case "TUPLE1" | "TUPLE2" | "TUPLE3" as name:
                stack[-int(name[-1]) :] = [tuple(stack[-int(name[-1]) :])]
            case "DICT":
                items = marked()
                stack.append({})
                add(items)
            case "SETITEMS":
                add(marked())
            case "SETITEM":
                value, key = stack.pop(), stack.pop()
                add([key, value])
            case "GLOBAL":
                admit(*argument.split(" "))
            case "STACK_GLOBAL":
                name, module = stack.pop(), stack.pop()
                admit(module, name)
            case "REDUCE":
                arguments, call = stack.pop(), stack.pop()
                stack.append(call(*arguments))
            case "BUILD":
                state = stack.pop()
                stack[-1].build(*state)
            case "PUT" | "BINPUT" | "LONG_BINPUT":
                memo[argument] = stack[-1]
            case "MEMOIZE":
                memo[len(memo)] = stack[-1]
            case "GET" | "BINGET" | "LONG_BINGET":
                stack.append(memo[argument])
            case "STOP":
                return stack.pop()
            case name:
                raise ValueError(f"it has the instruction {name}")
    raise ValueError("it has no end")
