"""JSON over HTTP with manners: a shared limiter, bounds, backoff, and recording or replay."""

import json
import time
from collections.abc import Mapping
from typing import Any

from ... import HoldfastError
from ...redaction import keep_secret
from ..cassette import Cassette
from ..limits import RateLimiter, Retry
from ..protocol import ProviderError
from .transfer import Bounds, TransferError, transfer

BOUNDS = Bounds(max_bytes=64_000_000, seconds=120.0, patience=30.0)  # 500 embeddings are 8 MB
TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})


class JsonClient:
    """Requests to one service; every thread that shares the client shares its limiter.

    Raises `ProviderError` once tries are used up, and `HoldfastError` where the key is refused.
    Redirections are refused, so that no key is sent on; header values are never recorded.
    """

    def __init__(
        self,
        *,
        headers: Mapping[str, str] | None = None,
        limiter: RateLimiter | None = None,
        retry: Retry | None = None,
        bounds: Bounds = BOUNDS,
        cassette: Cassette | None = None,
    ) -> None:
        self._headers = dict(headers or {})
        self._replaying = cassette is not None and cassette.mode == "replay"
        self._limiter = RateLimiter() if self._replaying else limiter or RateLimiter()
        self._retry = Retry(base=0.0) if self._replaying else retry or Retry()
        self._bounds = bounds
        self._cassette = cassette
        for value in self._headers.values():
            keep_secret(value)

    def request(
        self, method: str, url: str, params: Mapping[str, Any], body: Any = None
    ) -> dict[str, Any] | list[Any]:
        """The decoded JSON answer."""
        keep_secret(url)
        wanted = {"method": method, "url": url, "params": dict(params), "json": body}
        problem = ""
        for attempt in range(1, self._retry.attempts + 1):
            self._limiter.wait()
            answer = self._exchange(wanted)
            problem = problem_of(answer)
            if not problem:
                return answer["json"]
            if answer["status"] in (401, 403):
                raise HoldfastError(
                    f"{url} refused the API key ({problem}): correct it in the environment, or "
                    "unset it to go without."
                )
            if answer["status"] not in TRANSIENT and answer["status"] // 100 in (3, 4):
                raise ProviderError(f"{url}: {problem}")
            if answer.get("final"):
                raise ProviderError(f"{url}: {problem}")
            if attempt < self._retry.attempts:
                wait = self._retry.delay(attempt, answer.get("retry_after"))
                self._limiter.pause(wait) if answer["status"] == 429 else time.sleep(wait)
        raise ProviderError(f"{url}: no answer after {self._retry.attempts} tries: {problem}")

    def _exchange(self, wanted: dict[str, Any]) -> dict[str, Any]:
        """{"status", "json"} of one try; status 0 stands for no answer at all."""
        if self._cassette and self._replaying:
            return self._cassette.replay(wanted)
        answer: dict[str, Any] = {"status": 0}
        try:
            response, body = transfer(
                wanted["method"],
                wanted["url"],
                self._bounds,
                headers=self._headers,
                allow_private=True,
                params=wanted["params"],
                json=wanted["json"],
            )
            text = body[:300].decode("utf-8", "replace")
            answer = {"status": response.status_code, "text": text}
            if response.is_redirect:
                answer["text"] = f"it leads to {response.headers['Location']}: give that address"
            after = response.headers.get("Retry-After", "")
            if after.isdigit():
                answer["retry_after"] = float(after)
            if response.ok and not response.is_redirect:
                answer = {**answer, "json": json.loads(body), "text": ""}
        except (ValueError, RecursionError):
            answer["text"] = f"not JSON: {answer['text']}"
        except TransferError as error:
            answer |= {"text": str(error), "final": not error.may_pass}
        if self._cassette:
            self._cassette.record(wanted, answer)
        return answer


def problem_of(answer: Mapping[str, Any]) -> str:
    if "json" in answer:
        return ""
    status = f"status {answer['status']}" if answer["status"] else "no answer"
    return f"{status}: {answer['text']}"
