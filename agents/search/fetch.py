"""Fetching files from addresses that strangers wrote: bounded size and time, public hosts only."""

import base64
import threading
import time
from dataclasses import dataclass, field
from urllib.parse import urljoin

import requests
from urllib3.exceptions import HTTPError

from ..cassette import Cassette
from ..limits import RateLimiter, Retry
from ..protocol import ReadError
from .guard import Adapter, Guard

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
            except Transient as error:
                if attempt == self.retry.attempts:
                    raise ReadError(f"{error}, {attempt} times") from None
                time.sleep(self.retry.delay(attempt))
        raise AssertionError("unreachable")

    def _get(self, url: str) -> bytes:
        guard = Guard(self.allow_private)
        deadline = threading.Timer(self.seconds, guard.cut)
        deadline.daemon = True
        deadline.start()
        timeout = (min(10.0, self.seconds), self.seconds)
        try:
            with requests.Session() as session:
                session.mount("http://", Adapter(guard))
                session.mount("https://", Adapter(guard))
                # A compressed body could grow without bound as it is unpacked.
                headers = {"Accept": "application/pdf", "Accept-Encoding": "identity"}
                for _ in range(REDIRECTS + 1):
                    with session.get(
                        url, headers=headers, timeout=timeout, stream=True, allow_redirects=False
                    ) as response:
                        if not response.is_redirect:
                            return self._body(response, guard)
                        url = urljoin(url, response.headers["Location"])
                raise ReadError(f"more than {REDIRECTS} redirections")
        except (requests.RequestException, HTTPError, OSError, ValueError) as error:
            if guard.is_cut:
                raise ReadError(f"the transfer took longer than {self.seconds:g} s") from None
            if guard.refused:
                raise ReadError(guard.refused) from None
            if isinstance(error, (requests.ConnectionError, requests.Timeout, HTTPError)):
                raise Transient(
                    f"the server could not be reached or broke off ({type(error).__name__})"
                ) from None
            raise ReadError(f"the address is unusable ({type(error).__name__})") from None
        finally:
            deadline.cancel()
            guard.close()

    def _body(self, response: requests.Response, guard: Guard) -> bytes:
        if response.status_code == 429 or response.status_code >= 500:
            raise Transient(f"the server answered with status {response.status_code}")
        if response.status_code != 200:
            raise ReadError(f"the server answered with status {response.status_code}")
        kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if kind and kind not in TYPES:
            raise ReadError(f"the address leads to {kind[:60]}, not to a PDF")
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise ReadError("the server insists on a compressed transfer")
        data = b""
        while chunk := response.raw.read(65_536, decode_content=False):
            data += chunk
            if len(data) > self.max_bytes:
                raise ReadError(f"the file is larger than {self.max_bytes:,} bytes")
        if guard.is_cut:
            raise ReadError(f"the transfer took longer than {self.seconds:g} s")
        length = response.headers.get("Content-Length", "")
        if length.isdigit() and len(data) < int(length):
            raise Transient("the transfer broke off")
        if b"%PDF-" not in data[:1024]:
            raise ReadError("the file is not a PDF")
        return data


class Transient(Exception):
    """The server may answer another time."""


def decode(answer: dict[str, str]) -> bytes:
    """The bytes, or the error, that a recording holds."""
    if "error" in answer:
        raise ReadError(answer["error"])
    return base64.b64decode(answer["base64"])
