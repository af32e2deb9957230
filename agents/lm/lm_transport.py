"""How a request reaches a model's server: bounded in bytes and in seconds, as all our requests are."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextvars import ContextVar, copy_context
from typing import Any

from dspy.clients.engines.lm15_engine import LM15Engine
from dspy.lm15 import RouterConfig, TimeoutError, TransportError
from dspy.utils.exceptions import LMTimeoutError

from ..search.transfer import Bounds, TransferError, transfer

# A reply has REPLY_CHARS at most; reasoning, token probabilities and escapes come on top.
MAX_BYTES = 16_000_000
_seconds: ContextVar[float] = ContextVar("seconds", default=120.0)


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Requests sent in this context have that many seconds, from connecting to the last byte."""
    token = _seconds.set(seconds)
    try:
        yield
    finally:
        _seconds.reset(token)


def engine(provider: str, api_base: str, api_key: str) -> LM15Engine:
    """DSPy's own client of a provider's protocol, over our transport, to the server at `api_base`."""
    config = RouterConfig(
        api_keys={provider: api_key},
        base_urls={provider: api_base},
        transport=BoundedTransport(),
        env={},
    )
    return LM15Engine(config)


def waited_for(seconds: float, work: Callable[[], Any]) -> Any:
    """What `work` returns, from a thread that is abandoned after this many seconds.

    For clients with transports of their own, which bound each wait for a byte only.

    Raises:
        LMTimeoutError: if it takes longer; and whatever `work` raises.
    """
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    # Not an executor's, whose threads a process waits for at its end.
    threading.Thread(target=copy_context().run, args=(run,), daemon=True).start()
    if not wait([future], seconds).done:
        raise LMTimeoutError(f"no answer within {seconds:g} s")
    return future.result()


class BoundedTransport:
    """Requests of DSPy's client, each a transfer of its own; DSPy's bounds one wait for a byte only."""

    def stream(self, request: Any) -> "Answer":
        """Send a request and return all of its answer.

        Raises:
            TimeoutError: if it takes longer than `within` allows.
            TransportError: if there is no answer, or one that is too large.
        """
        seconds = _seconds.get()
        try:
            response, body = transfer(
                request.method,
                request.url,
                Bounds(MAX_BYTES, seconds),
                headers=dict(request.headers),
                allow_private=True,
                data=request.body,
            )
        except TransferError as error:
            kind = TimeoutError if error.late else TransportError
            raise kind(str(error)) from error
        return Answer(response.status_code, response.reason, list(response.headers.items()), body)


class Answer:
    """A response as DSPy's client reads it."""

    http_version = "HTTP/1.1"

    def __init__(
        self, status: int, reason: str, headers: list[tuple[str, str]], body: bytes
    ) -> None:
        self.status, self.reason, self.headers, self._body = status, reason, headers, body

    def read(self) -> bytes:
        return self._body

    def __enter__(self) -> "Answer":
        return self

    def __exit__(self, *exception: object) -> None:
        """Nothing is open any more."""
