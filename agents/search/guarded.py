"""Connections to untrusted addresses, restricted to public hosts; all can be closed at once."""

import contextlib
import ipaddress
import socket
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.poolmanager import ProxyManager


class Guard:
    """Refuses private addresses, before and after connecting, and can close all connections."""

    def __init__(self, allow_private: bool) -> None:
        self.allow_private = allow_private
        self.is_cut = False
        self.refused = ""
        self._sockets: list[socket.socket] = []

    def look_up(self, host: str) -> None:
        """Raise `OSError` if the host resolves to a private address."""
        if self.allow_private:
            return
        try:
            found = {str(info[4][0]) for info in socket.getaddrinfo(host, None)}
        except OSError:
            return  # unreachable, or resolved only by a proxy
        for address in found:
            self._check(address)

    def admit(self, connection: socket.socket) -> socket.socket:
        """Check the peer of a new connection, as a name can change its address, and register it."""
        try:
            self._check(connection.getpeername()[0])
        except OSError:
            connection.close()
            raise
        return self.hold(connection)

    def hold(self, connection: socket.socket) -> socket.socket:
        """Register a new connection, so that `cut` closes it."""
        if self.is_cut:
            connection.close()
            raise OSError("out of time")
        # A duplicate stays valid when TLS wraps the socket, so a stalled transfer can be shut down.
        self._sockets.append(connection.dup())
        return connection

    def _check(self, address: str) -> None:
        if not self.allow_private and not is_public(address):
            self.refused = f"the address leads to a private network ({address})"
            raise OSError(self.refused)

    def cut(self) -> None:
        """Shut down all connections, now and in future."""
        self.is_cut = True
        for connection in self._sockets:
            with contextlib.suppress(OSError):  # it may be closed already
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for connection in self._sockets:
            connection.close()


EMBEDDING = ipaddress.ip_network(
    "64:ff9b::/96"
)  # NAT64, RFC 6052: the last 32 bits are an IPv4 address
GLOBAL = ipaddress.ip_network("2000::/3")  # RFC 4291: global unicast
TUNNELS = ipaddress.ip_network("2002::/16")  # 6to4, RFC 3056: leads to the IPv4 address in it


def is_public(host: str) -> bool:
    """Whether an IP address, and any IPv4 address embedded in it, is on the public internet."""
    address = ipaddress.ip_address(host.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped
        if address in EMBEDDING:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
        if inner is None and (address not in GLOBAL or address in TUNNELS):
            return False
        return is_public(str(inner)) if inner else address.is_global
    return address.is_global and not address.is_multicast


def pools(take: Callable[[socket.socket], socket.socket]) -> dict[str, Any]:
    """Connection pools of urllib3, by scheme, that pass every new connection through `take`."""

    class Taken:
        def _new_conn(self) -> socket.socket:
            return take(super()._new_conn())  # type: ignore[misc]

    def pool(base: Any, connection: Any) -> Any:
        kind = type(connection.__name__, (Taken, connection), {})
        return type(base.__name__, (base,), {"ConnectionCls": kind})

    return {
        "http": pool(HTTPConnectionPool, HTTPConnection),
        "https": pool(HTTPSConnectionPool, HTTPSConnection),
    }


class Adapter(HTTPAdapter):
    """An adapter of requests whose connections are checked by the guard."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        super().__init__(max_retries=0)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = pools(self._guard.admit)

    def proxy_manager_for(self, proxy: str, **kwargs: Any) -> Any:
        """Allow a proxy in a private network, as the user chose it; its transfers are still bounded."""
        manager = super().proxy_manager_for(proxy, **kwargs)
        if isinstance(manager, ProxyManager):  # SOCKS has its own kind of connections
            manager.pool_classes_by_scheme = pools(self._guard.hold)
        return manager

    def send(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        self._guard.look_up(urlsplit(request.url).hostname or "")
        return super().send(request, *args, **kwargs)
