"""How a request reaches a model's server: bounded in bytes and in seconds, as all our requests are."""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

from dspy.clients.engines.lm15_engine import LM15Engine
from dspy.lm15 import RouterConfig, TimeoutError, TransportError

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
