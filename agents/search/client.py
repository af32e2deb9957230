"""The HTTP clients of all services: shared rate limit, bounds, retries with backoff, recordings."""

import base64
import json
import time
from collections.abc import Callable, Mapping
from typing import Any

import requests

from ... import HoldfastError
from ...redaction import keep_secret
from ..cassette import Cassette, is_replay
from ..limits import RateLimiter, Retry
from ..protocol import ProviderError, ReadError
from .transfer import Bounds, TransferError, transfer

BOUNDS = Bounds(max_bytes=64_000_000, seconds=120.0, patience=30.0)  # 500 embeddings are 8 MB
PDF_BOUNDS = Bounds(max_bytes=30_000_000, seconds=60.0)  # including redirects
TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})
TYPES = ("application/pdf", "application/x-pdf", "application/octet-stream", "binary/octet-stream")
REDIRECTS = 5
Answer = dict[str, Any]  # in the form of a recording


class Client:
    """Requests to one service; threads that share the client share its rate limit."""

    def __init__(
        self,
        limiter: RateLimiter | None = None,
        retry: Retry | None = None,
        bounds: Bounds = BOUNDS,
        cassette: Cassette | None = None,
    ) -> None:
        self._cassette, self._bounds = cassette, bounds
        self._replaying = is_replay(cassette)
        self._limiter = RateLimiter() if self._replaying else limiter or RateLimiter()
        self._retry = retry or Retry()

    def _repeated(self, attempt: Callable[[], Answer], again: Callable[[Answer], bool]) -> Answer:
        """The first answer for which `again` is false, or the answer of the last try."""
        for number in range(1, self._retry.attempts + 1):
            self._limiter.wait()
            answer = attempt()
            if number == self._retry.attempts or not again(answer):
                break
            wait = 0.0 if self._replaying else self._retry.delay(number, answer.get("retry_after"))
            self._limiter.pause(wait) if answer.get("status") == 429 else time.sleep(wait)
        return answer

    def _recorded(self, request: Any, attempt: Callable[[], Answer]) -> Answer:
        answer: Answer = self._cassette.exchange(request, attempt) if self._cassette else attempt()
        return answer


class JsonClient(Client):
    """JSON over HTTP.

    Redirects are refused, so that no API key reaches another server; header values are never recorded.
    """

    def __init__(self, *, headers: Mapping[str, str] | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        self._headers = dict(headers or {})
        for value in self._headers.values():
            keep_secret(value)

    def request(
        self, method: str, url: str, params: Mapping[str, Any], body: Any = None
    ) -> dict[str, Any] | list[Any]:
        """The decoded JSON answer.

        Raises:
            ProviderError: if no try was answered, or the request was refused.
            HoldfastError: if the API key was refused.
        """
        keep_secret(url)
        wanted = {"method": method, "url": url, "params": dict(params), "json": body}
        answer = self._repeated(
            lambda: self._recorded(wanted, lambda: self._exchange(wanted)), may_pass
        )
        if "json" in answer:
            return answer["json"]
        status = answer["status"]
        problem = f"{f'status {status}' if status else 'no answer'}: {answer['text']}"
        if status in (401, 403):
            raise HoldfastError(
                f"{url} refused the API key ({problem}). Correct the key in the environment, or unset it."
            )
        if may_pass(answer):
            problem = f"no answer after {self._retry.attempts} tries: {problem}"
        raise ProviderError(f"{url}: {problem}")

    def _exchange(self, wanted: dict[str, Any]) -> Answer:
        """One try: {"status", "json"} or {"status", "text"}; status 0 means no answer."""
        answer: Answer = {"status": 0}
        content = {"params": wanted["params"], "json": wanted["json"]}
        try:
            response, body = transfer(
                wanted["method"],
                wanted["url"],
                self._bounds,
                headers=self._headers,
                allow_private=True,
                **content,
            )
            text = body[:300].decode("utf-8", "replace")
            answer = {"status": response.status_code, "text": text}
            if response.is_redirect:
                answer["text"] = f"it redirects to {response.headers['Location']}; use that address"
            after = response.headers.get("Retry-After", "")
            if after.isdigit():
                answer["retry_after"] = float(after)
            if response.ok and not response.is_redirect:
                answer = {**answer, "json": json.loads(body), "text": ""}
        except (ValueError, RecursionError):
            answer["text"] = f"not JSON: {answer['text']}"
        except TransferError as error:
            answer |= {"text": str(error), "final": not error.may_pass}
        return answer


def may_pass(answer: Mapping[str, Any]) -> bool:
    """Whether a retry may succeed."""
    if "json" in answer or answer.get("final"):
        return False
    return answer["status"] in TRANSIENT or answer["status"] // 100 not in (3, 4)


class PDFClient(Client):
    """Downloads PDFs from untrusted URLs: bounded size and time, public hosts only."""

    def __init__(
        self,
        bounds: Bounds = PDF_BOUNDS,
        allow_private: bool = False,
        retry: Retry | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(bounds=bounds, retry=retry or Retry(attempts=3), **settings)
        self._allow_private = allow_private

    def pdf(self, url: str) -> bytes:
        """Download the bytes of a PDF; raises `ReadError` with the reason for a failure."""

        def fetched() -> Answer:
            answer = self._repeated(lambda: self._get(url), lambda answer: "again" in answer)
            if "again" in answer:
                return {"error": f"{answer['again']}, {self._retry.attempts} times"}
            return answer

        answer = self._recorded({"method": "GET", "url": url}, fetched)
        if "error" in answer:
            raise ReadError(answer["error"])
        return base64.b64decode(answer["base64"])

    def _get(self, url: str) -> Answer:
        try:
            _, data = transfer(
                "GET",
                url,
                self._bounds,
                headers={"Accept": "application/pdf"},
                allow_private=self._allow_private,
                redirects=REDIRECTS,
                judge=refuse_all_but_pdfs,
            )
        except TransferError as error:
            return {"again" if error.may_pass else "error": str(error)}
        if b"%PDF-" not in data[:1024]:
            return {"error": "the file is not a PDF"}
        return {"base64": base64.b64encode(data).decode()}


def refuse_all_but_pdfs(response: requests.Response) -> None:
    """Raise `TransferError` unless a response has status 200 and may be a PDF."""
    status = response.status_code
    if status != 200:
        again = status == 429 or status >= 500
        raise TransferError(f"the server answered with status {status}", may_pass=again)
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind and kind not in TYPES:
        raise TransferError(f"the URL returned {kind[:60]}, not a PDF")
