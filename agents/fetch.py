"""Fetching files from addresses that strangers wrote: bounded size and time, public hosts only."""

from __future__ import annotations

import base64
import contextlib
import ipaddress
import socket
import threading
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urljoin, urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import HTTPError

from .cassette import Cassette
from .limits import RateLimiter, Retry
from .search import ReadError

_TYPES = ("application/pdf", "application/x-pdf", "application/octet-stream", "binary/octet-stream")
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
        """Return the bytes of a PDF; raises `ReadError` saying why there are none."""
        if self.cassette and self.cassette.mode == "replay":
            return _decode(self.cassette.replay({"method": "GET", "url": url}))
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
            except _Transient as error:
                if attempt == self.retry.attempts:
                    raise ReadError(f"{error}, {attempt} times") from None
                time.sleep(self.retry.delay(attempt))
        raise AssertionError("unreachable")

    def _get(self, url: str) -> bytes:
        guard = _Guard(self.allow_private)
        deadline = threading.Timer(self.seconds, guard.cut)
        deadline.daemon = True
        deadline.start()
        timeout = (min(10.0, self.seconds), self.seconds)
        try:
            with requests.Session() as session:
                session.mount("http://", _Adapter(guard))
                session.mount("https://", _Adapter(guard))
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
                raise _Transient(
                    f"the server could not be reached or broke off ({type(error).__name__})"
                ) from None
            raise ReadError(f"the address is unusable ({type(error).__name__})") from None
        finally:
            deadline.cancel()
            guard.close()

    def _body(self, response: requests.Response, guard: _Guard) -> bytes:
        if response.status_code == 429 or response.status_code >= 500:
            raise _Transient(f"the server answered with status {response.status_code}")
        if response.status_code != 200:
            raise ReadError(f"the server answered with status {response.status_code}")
        kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if kind and kind not in _TYPES:
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
            raise _Transient("the transfer broke off")
        if b"%PDF-" not in data[:1024]:
            raise ReadError("the file is not a PDF")
        return data


class _Transient(Exception):
    pass


class _Guard:
    """Refuses private addresses, before and again after connecting, and can cut all transfers."""

    def __init__(self, allow_private: bool) -> None:
        self.allow_private = allow_private
        self.is_cut = False
        self.refused = ""
        self._sockets: list[socket.socket] = []

    def look_up(self, host: str) -> None:
        """Refuse a name that leads to a private address; nothing is connected to yet."""
        try:
            found = {str(info[4][0]) for info in socket.getaddrinfo(host, None)}
        except OSError:
            return  # it cannot be reached either, or only a proxy knows it
        for address in found:
            self._check(address)

    def admit(self, connection: socket.socket) -> socket.socket:
        """Keep hold of a new connection; its peer is checked, as a name can change its address."""
        try:
            if self.is_cut:
                raise OSError("out of time")
            self._check(connection.getpeername()[0])
        except OSError:
            connection.close()
            raise
        # A duplicate outlives the wrapping in TLS, so a stalled transfer can be shut down.
        self._sockets.append(connection.dup())
        return connection

    def _check(self, address: str) -> None:
        if not self.allow_private and not is_public(address):
            self.refused = f"the address leads to a private network ({address})"
            raise OSError(self.refused)

    def cut(self) -> None:
        self.is_cut = True
        for connection in self._sockets:
            with contextlib.suppress(OSError):  # it may be closed already
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for connection in self._sockets:
            connection.close()


def is_public(host: str) -> bool:
    """Whether an IP address is one of the public internet."""
    address = ipaddress.ip_address(host.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    address = mapped or address
    return address.is_global and not address.is_multicast


class _Adapter(HTTPAdapter):
    """An adapter whose requests and connections pass the guard."""

    def __init__(self, guard: _Guard) -> None:
        self._guard = guard
        super().__init__(max_retries=0)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        guard = self._guard

        class Plain(HTTPConnection):
            def _new_conn(self) -> socket.socket:
                return guard.admit(super()._new_conn())

        class Secure(HTTPSConnection):
            def _new_conn(self) -> socket.socket:
                return guard.admit(super()._new_conn())

        class PlainPool(HTTPConnectionPool):
            ConnectionCls = Plain

        class SecurePool(HTTPSConnectionPool):
            ConnectionCls = Secure

        self.poolmanager.pool_classes_by_scheme = {"http": PlainPool, "https": SecurePool}

    def send(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        self._guard.look_up(urlsplit(request.url).hostname or "")
        return super().send(request, *args, **kwargs)


def _decode(answer: dict[str, str]) -> bytes:
    if "error" in answer:
        raise ReadError(answer["error"])
    return base64.b64decode(answer["base64"])
