"""Requests to services by requests and urllib3: retries with backoff, a rate limit, bounded answers."""

import json
from collections.abc import Mapping
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from ... import HoldfastError
from ..limits import RateLimiter
from .provider import ProviderError, ReadError

TRANSIENT = (408, 425, 429, 500, 502, 503, 504)
TIMEOUT = (10.0, 30.0)  # seconds for connecting, and without a byte
MAX_BYTES = 64_000_000  # of an answer; 500 embeddings are 8 MB
MAX_PDF_BYTES = 30_000_000
PDF_TYPES = (
    *("application/pdf", "application/x-pdf", "application/octet-stream", "binary/octet-stream"),
    "",
)


class Client:
    """Requests to services; threads that share the client share its rate limit.

    Args:
        headers: headers of requests for JSON, such as an API key, which no message repeats.
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
        timeout: tuple[float, float] = TIMEOUT,
    ) -> None:
        self._headers, self._timeout, self._tries = dict(headers or {}), timeout, tries
        self._limiter = RateLimiter(per_second)
        retry = Retry(
            tries - 1,
            allowed_methods=None,
            redirect=5,
            status_forcelist=TRANSIENT,
            backoff_factor=backoff / 2,
            backoff_max=60.0,
            backoff_jitter=backoff / 4,
            raise_on_status=False,
        )
        self._session = requests.Session()
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, HTTPAdapter(max_retries=retry))

    def json(
        self, method: str, url: str, params: Mapping[str, Any], body: Any = None
    ) -> dict[str, Any] | list[Any]:
        """The decoded JSON answer; a redirection, which would carry an API key away, is an error.

        Raises:
            ProviderError: if no try was answered, or the request was refused.
            HoldfastError: if the API key was refused.
        """
        options: dict[str, Any] = {"params": params, "json": body, "headers": self._headers}
        try:
            response, content = self._bounded(
                MAX_BYTES, method, url, allow_redirects=False, **options
            )
        except requests.RequestException as error:
            problem = f"no answer after {self._tries} tries ({type(error).__name__})"
            raise ProviderError(f"{url}: {problem}") from None
        text = content[:300].decode("utf-8", "replace")
        for secret in self._headers.values():
            text = text.replace(secret, "[removed]")
        problem = f"{url}: status {response.status_code}: {text}"
        if response.status_code in (401, 403):
            raise HoldfastError(
                f"The API key was refused ({problem}). Correct the key in the environment, or unset it."
            )
        if response.is_redirect:
            raise ProviderError(f"{url} redirects to {response.headers['Location']}. Use that URL.")
        if not response.ok:
            raise ProviderError(problem)
        try:
            found: dict[str, Any] | list[Any] = json.loads(content)
        except (ValueError, RecursionError):
            raise ProviderError(f"{url}: not JSON: {text}") from None
        return found

    def pdf(self, url: str) -> bytes:
        """Download the bytes of a PDF; raises `ReadError` with the reason for a failure."""
        try:
            response, content = self._bounded(MAX_PDF_BYTES, "GET", url)
        except (requests.RequestException, ValueError) as error:
            raise ReadError(f"the file cannot be downloaded ({type(error).__name__})") from None
        if response.status_code != 200:
            raise ReadError(f"the server answered with status {response.status_code}")
        kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if kind not in PDF_TYPES:
            raise ReadError(f"the URL returned {kind[:60]}, not a PDF")
        if b"%PDF-" not in content[:1024]:
            raise ReadError("the file is not a PDF")
        return content

    def _bounded(
        self, most: int, method: str, url: str, **options: Any
    ) -> tuple[requests.Response, bytes]:
        """A response and its content of at most `most` bytes."""
        self._limiter.wait()
        options["timeout"] = self._timeout
        content = bytearray()
        with self._session.request(method, url, stream=True, **options) as response:
            for chunk in response.iter_content(65_536):
                content += chunk
                if len(content) > most:
                    raise requests.exceptions.ContentDecodingError(f"more than {most:,} bytes")
        return response, bytes(content)
