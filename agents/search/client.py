"""Requests to services by requests and urllib3: retries with backoff, a rate limit, bounded files."""

import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3 import BaseHTTPResponse
from urllib3.util import Retry

from ... import HoldfastError, printable
from .pdf import extract
from .provider import Paper, ProviderError, ReadError, Scope, Section, Snippet

_TRANSIENT = (408, 425, 429, 500, 502, 503, 504)
_TIMEOUT = (10.0, 30.0)  # seconds for connecting, and without a byte
MAX_PDF_BYTES = 30_000_000
MAX_WAIT = 60.0  # seconds before another try, whatever a server asks for
_SAID_WAIT = 10.0  # seconds from which a server's wish is printed


def bounded_wait(seconds: float, who: str) -> float:
    """The seconds to wait if a server asks for `seconds` before another try; long ones are printed."""
    if seconds >= _SAID_WAIT:
        wish = f"{who} asks to wait {seconds:,.0f} s (Retry-After)"
        text = f"{wish}; at most {MAX_WAIT:.0f} s pass before another try."
        print(printable(text), file=sys.stderr)
    return min(seconds, MAX_WAIT)


class _Retry(Retry):
    """Retries whose waits are bounded and announced."""

    def get_retry_after(self, response: BaseHTTPResponse) -> float | None:
        seconds = super().get_retry_after(response)
        return None if seconds is None else bounded_wait(seconds, "The service")


class Client:
    """Requests to services; threads that share the client share its rate limit.

    Args:
        headers: headers of requests, such as an API key.
        per_second: maximum requests per second; None: no limit.
        tries: maximum tries per request.
        backoff: seconds before the third try, doubled before each further one; a server may ask for more.
        timeout: seconds for connecting, and seconds without a byte.
    """

    def __init__(
        self,
        headers: Mapping[str, str] | None = None,
        *,
        per_second: float | None = None,
        tries: int = 6,
        backoff: float = 2.0,
        timeout: tuple[float, float] = _TIMEOUT,
    ) -> None:
        self._timeout = timeout
        self._interval = 1 / per_second if per_second else 0.0
        self._next, self._mutex = 0.0, threading.Lock()
        retry = _Retry(
            tries - 1,
            redirect=5,
            status_forcelist=_TRANSIENT,
            backoff_factor=backoff / 2,
            backoff_max=60.0,
            backoff_jitter=backoff / 4,
            raise_on_status=False,
        )
        self._session = requests.Session()
        self._session.headers.update(headers or {})
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, HTTPAdapter(max_retries=retry))

    def _wait(self) -> None:
        """Sleep until this thread's turn; the turns of all threads are spaced evenly."""
        with self._mutex:
            now = time.monotonic()
            turn = max(self._next, now)
            self._next = turn + self._interval
        time.sleep(turn - now)

    def json(self, url: str, params: Mapping[str, Any] | None = None) -> Any:
        """The decoded JSON answer; a redirection, which would carry an API key away, is an error.

        Raises `ProviderError` if no try is answered, and `HoldfastError` if the API key is refused.
        """
        response = self._answer(url, params)
        try:
            return response.json()
        except ValueError:
            raise ProviderError(f"{url}: not JSON: {response.text[:300]}") from None

    def text(self, url: str, params: Mapping[str, Any] | None = None) -> str:
        """The answer's text; raises as `json` does."""
        return self._answer(url, params).text

    def _answer(self, url: str, params: Mapping[str, Any] | None) -> requests.Response:
        self._wait()
        options: dict[str, Any] = {"params": params, "timeout": self._timeout}
        try:
            response = self._session.get(url, allow_redirects=False, **options)
        except requests.RequestException as error:
            raise ProviderError(f"{url}: no answer ({type(error).__name__})") from None
        if response.status_code in (401, 403):
            raise HoldfastError(
                f"{url} refused the API key (status {response.status_code}). Correct the key in the "
                "environment, or unset it."
            )
        if response.is_redirect:
            raise ProviderError(f"{url} redirects to {response.headers['Location']}. Use that URL.")
        if not response.ok:
            raise ProviderError(f"{url}: status {response.status_code}: {response.text[:300]}")
        return response

    def pdf(self, url: str) -> bytes:
        """Download the bytes of a PDF; raises `ReadError` with the reason for a failure."""
        self._wait()
        content = b""
        try:
            with self._session.get(url, stream=True, timeout=self._timeout) as response:
                if response.status_code != 200:
                    raise ReadError(f"the server answered with status {response.status_code}")
                for chunk in response.iter_content(1 << 20):
                    content += chunk
                    if len(content) > MAX_PDF_BYTES:
                        raise ReadError(f"the file has more than {MAX_PDF_BYTES:,} bytes")
        except (requests.RequestException, ValueError) as error:
            raise ReadError(f"the file cannot be downloaded ({type(error).__name__})") from None
        if b"%PDF-" not in content[:1024]:
            kind = response.headers.get("Content-Type", "unknown")
            raise ReadError(f"the file is not a PDF (type {kind[:60]})")
        return content


class OnlineSearch:
    """What the search providers on the internet share; `api` is the URL of a service or a mirror."""

    name: str  # in result files
    service: str  # in messages

    def __init__(self, api: str, headers: Mapping[str, str] | None = None, **transfer: Any) -> None:
        self.api = api.rstrip("/")
        self._client = self._pdfs = Client(headers, **transfer)

    def snippets(self, query: str, scope: Scope, limit: int) -> list[Snippet]:
        """Raise `ReadError`, as most services have no passages."""
        raise ReadError(f"{self.service} has no search for passages.")

    def read(self, paper: Paper) -> list[Section]:
        """The pages of the PDF at a paper's address; raises `ReadError`."""
        if not paper.pdf:
            raise ReadError("no open-access PDF of this paper is known.")
        return extract(self._pdfs.pdf(paper.pdf))

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "api": self.api}

    def unexpected(self, answer: Any) -> ProviderError:
        """The error for an answer in another form than the documented one."""
        return ProviderError(f"{self.service} gave an unexpected answer: {answer!r:.200}")
