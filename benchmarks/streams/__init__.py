"""Commands for CCC streams: calibrations and shards."""

from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager

from ... import HoldfastError
from ...files import reason


@contextmanager
def memory_in_a_sentence(advice: str) -> Iterator[None]:
    """Raise HoldfastError where memory runs out, here or in a process of a pool; it passes the advice."""
    try:
        yield
    except Exception as error:  # torch, NumPy and OpenCV raise errors of three types
        named = "memory" in str(error).lower()
        if not named and not isinstance(error, (MemoryError, BrokenProcessPool)):
            raise
        raise HoldfastError(
            f"Memory ran out, or a process was killed ({reason(error)}). Pass {advice}, a smaller --size, "
            "or raise the limit (ulimit -v). The same command continues."
        ) from error
