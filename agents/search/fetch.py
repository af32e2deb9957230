"""Fetching files from addresses that strangers wrote: bounded size and time, public hosts only."""

import base64
import time
from dataclasses import dataclass, field

import requests

from ..cassette import Cassette
from ..limits import RateLimiter, Retry
from ..protocol import ReadError
from .transfer import Bounds, TransferError, transfer

TYPES = ("application/pdf", "application/x-pdf", "application/octet-stream", "binary/octet-stream")
REDIRECTS = 5


@dataclass
class Fetcher:
    """Fetches PDFs; limits are bytes and seconds for the whole transfer, redirects included."""

    max_bytes: int = 30_000_000
    seconds: float = 60.0
    allow_private: bool = False
    limiter: RateLimiter = field(default_factory=RateLimiter)
    retry: Retry = field(default_factory=lambda: Retry(attempts=3))
    cassette: Cassette | None = None

    def pdf(self, url: str) -> bytes:
        """The bytes of a PDF; raises `ReadError` saying why there are none."""
        if self.cassette and self.cassette.mode == "replay":
            return decode(self.cassette.replay({"method": "GET", "url": url}))
        try:
            data = self._try(url)
        except ReadError as error:
            if self.cassette:
                self.cassette.record({"method": "GET", "url": url}, {"error": str(error)})
            raise
        if self.cassette:
            body = {"base64": base64.b64encode(data).decode()}
            self.cassette.record({"method": "GET", "url": url}, body)
        return data

    def _try(self, url: str) -> bytes:
        for attempt in range(1, self.retry.attempts + 1):
            self.limiter.wait()
            try:
                return self._get(url)
            except TransferError as error:
                if attempt == self.retry.attempts:
                    raise ReadError(f"{error}, {attempt} times") from None
                time.sleep(self.retry.delay(attempt))
        raise AssertionError("unreachable")

    def _get(self, url: str) -> bytes:
        try:
            _, data = transfer(
                "GET",
                url,
                Bounds(self.max_bytes, self.seconds),
                headers={"Accept": "application/pdf"},
                allow_private=self.allow_private,
                redirects=REDIRECTS,
                judge=judge,
            )
        except TransferError as error:
            if error.may_pass:
                raise
            raise ReadError(str(error)) from None
        if b"%PDF-" not in data[:1024]:
            raise ReadError("the file is not a PDF")
        return data


def judge(response: requests.Response) -> None:
    """Refuse what is no PDF by its status and type."""
    if response.status_code == 429 or response.status_code >= 500:
        raise TransferError(
            f"the server answered with status {response.status_code}", may_pass=True
        )
    if response.status_code != 200:
        raise ReadError(f"the server answered with status {response.status_code}")
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind and kind not in TYPES:
        raise ReadError(f"the address leads to {kind[:60]}, not to a PDF")


def decode(answer: dict[str, str]) -> bytes:
    """The bytes, or the error, that a recording holds."""
    if "error" in answer:
        raise ReadError(answer["error"])
    return base64.b64decode(answer["base64"])
