"""JSON over HTTP with manners: a shared limiter, timeouts, backoff, and recording or replay."""

import time
from collections.abc import Mapping
from typing import Any

import requests

from ... import HoldfastError
from ..cassette import Cassette
from ..limits import RateLimiter, Retry
from ..protocol import ProviderError

TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})


class JsonClient:
    """Requests to one service; every thread that shares the client shares its limiter.

    Raises `ProviderError` once tries are used up, and `HoldfastError` where the key is refused.
    Header values are never recorded.
    """

    def __init__(
        self,
        *,
        headers: Mapping[str, str] | None = None,
        limiter: RateLimiter | None = None,
        retry: Retry | None = None,
        timeout: tuple[float, float] = (10.0, 30.0),
        cassette: Cassette | None = None,
    ) -> None:
        self._headers = dict(headers or {})
        self._replaying = cassette is not None and cassette.mode == "replay"
        self._limiter = RateLimiter() if self._replaying else limiter or RateLimiter()
        self._retry = Retry(base=0.0) if self._replaying else retry or Retry()
        self._timeout = timeout
        self._cassette = cassette
        self._session = requests.Session()

    def request(
        self, method: str, url: str, params: Mapping[str, Any], body: Any = None
    ) -> dict[str, Any] | list[Any]:
        """The decoded JSON answer."""
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
            if answer["status"] not in TRANSIENT and answer["status"] // 100 == 4:
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
            response = self._session.request(
                wanted["method"],
                wanted["url"],
                params=wanted["params"],
                json=wanted["json"],
                headers=self._headers,
                timeout=self._timeout,
            )
            answer = {"status": response.status_code, "text": response.text[:300]}
            after = response.headers.get("Retry-After", "")
            if after.isdigit():
                answer["retry_after"] = float(after)
            answer = {**answer, "json": response.json(), "text": ""} if response.ok else answer
        except requests.exceptions.JSONDecodeError:
            answer["text"] = f"not JSON: {answer['text']}"
        except requests.RequestException as error:
            answer["text"] = f"{type(error).__name__}: {error}"
        if self._cassette:
            self._cassette.record(wanted, answer)
        return answer


def problem_of(answer: Mapping[str, Any]) -> str:
    if "json" in answer:
        return ""
    status = f"status {answer['status']}" if answer["status"] else "no answer"
    return f"{status}: {answer['text']}"
