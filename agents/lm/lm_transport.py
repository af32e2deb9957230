"""The transport to a model's server, with limits on bytes and seconds as for all requests."""

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

# A reply has at most REPLY_CHARS characters; reasoning, log probabilities and escapes are extra.
MAX_BYTES = 16_000_000
_seconds: ContextVar[float] = ContextVar("seconds", default=120.0)


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Limit requests in this context to `seconds` seconds, from connecting to the last byte."""
    token = _seconds.set(seconds)
    try:
        yield
    finally:
        _seconds.reset(token)


def engine(provider: str, api_base: str, api_key: str) -> LM15Engine:
    """DSPy's client of a provider's protocol with a bounded transport to the server at `api_base`."""
    config = RouterConfig(
        api_keys={provider: api_key},
        base_urls={provider: api_base},
        transport=BoundedTransport(),
        env={},
    )
    return LM15Engine(config)


def waited_for(seconds: float, work: Callable[[], Any]) -> Any:
    """Run `work` in a thread that is abandoned after `seconds` seconds.

    For clients whose transport limits only the wait for each byte.

    Raises:
        LMTimeoutError: if it takes longer.
    """
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    # Not an executor, whose threads delay the end of the process.
    threading.Thread(target=copy_context().run, args=(run,), daemon=True).start()
    if not wait([future], seconds).done:
        raise LMTimeoutError(f"no answer within {seconds:g} s")
    return future.result()


class BoundedTransport:
    """Sends requests of DSPy's client by `transfer`, as DSPy limits only the wait for each byte."""

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
    """A response with the interface that DSPy's client expects."""

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
        """Nothing to close."""
