"""Connections to addresses that strangers wrote: public hosts only, and all can be cut at once."""

import contextlib
import ipaddress
import socket
from typing import Any
from urllib.parse import urlsplit

from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool


class Guard:
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


class Adapter(HTTPAdapter):
    """An adapter whose requests and connections pass the guard."""

    def __init__(self, guard: Guard) -> None:
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
