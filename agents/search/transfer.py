"""One HTTP request with limits on the bytes and seconds of the whole answer."""

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import urljoin

import requests
from requests.utils import get_auth_from_url
from urllib3.exceptions import HTTPError

from .guarded import Adapter, Guard


class Bounds(NamedTuple):
    """Limits of a whole transfer, including redirects."""

    max_bytes: int
    seconds: float
    patience: float | None = None  # maximum seconds without a byte (default: `seconds`)


class TransferError(Exception):
    """A request without an answer.

    Args:
        why: the reason as text.
        may_pass: whether a retry may succeed.
        late: whether the time limit was exceeded.
        nobody: whether no server listens at the address.
    """

    def __init__(
        self, why: str, *, may_pass: bool = False, late: bool = False, nobody: bool = False
    ) -> None:
        super().__init__(why)
        self.may_pass, self.late, self.nobody = may_pass, late, nobody


def transfer(
    method: str,
    url: str,
    bounds: Bounds,
    *,
    headers: Mapping[str, str],
    allow_private: bool = False,
    redirects: int = 0,
    judge: Callable[[requests.Response], None] = lambda response: None,
    **content: Any,
) -> tuple[requests.Response, bytes]:
    """Send a request; returns the response and its body.

    Proxies and certificates of the environment are used; credentials of ~/.netrc are not.

    Args:
        method: HTTP method.
        url: URL of the request.
        bounds: limits of the transfer.
        headers: headers of the request.
        allow_private: allow addresses of private networks.
        redirects: maximum number of redirects to follow.
        judge: called with the response before its body is read; may raise `TransferError`.
        **content: further arguments of `requests.Session.request`.

    Raises:
        TransferError: if there is no complete answer within the bounds, or the address is refused.
    """
    guard = Guard(allow_private)
    deadline = threading.Timer(bounds.seconds, guard.cut)
    deadline.daemon = True
    deadline.start()
    content["timeout"] = (min(10.0, bounds.seconds), bounds.patience or bounds.seconds)
    # A compressed body could expand without bound.
    content["headers"] = {**headers, "Accept-Encoding": "identity"}
    try:
        with requests.Session() as session:
            session.auth = own_credentials
            session.mount("http://", Adapter(guard))
            session.mount("https://", Adapter(guard))
            for _ in range(redirects + 1):
                with session.request(
                    method, url, stream=True, allow_redirects=False, **content
                ) as response:
                    if not (redirects and response.is_redirect):
                        judge(response)
                        body = _body(response, bounds)
                        if guard.is_cut:  # a body that was cut off may be incomplete
                            raise OSError
                        return response, body
                    url = urljoin(url, response.headers["Location"])
            raise TransferError(f"more than {redirects} redirects")
    except (requests.RequestException, HTTPError, OSError, ValueError) as error:
        raise explained(error, guard, bounds) from None
    finally:
        deadline.cancel()
        guard.close()


def explained(error: Exception, guard: Guard, bounds: Bounds) -> TransferError:
    """Convert an error of requests or of the guard to a `TransferError`."""
    if guard.is_cut:
        return TransferError(f"the transfer took longer than {bounds.seconds:g} s", late=True)
    if guard.refused:
        return TransferError(guard.refused)
    name = type(error).__name__
    if isinstance(error, (requests.ConnectionError, requests.Timeout, HTTPError)):
        return TransferError(
            f"the server could not be reached or closed the connection ({name})",
            may_pass=True,
            late=isinstance(error, requests.Timeout),
            nobody=any(isinstance(cause, ConnectionRefusedError) for cause in causes(error)),
        )
    return TransferError(f"the URL cannot be used ({name})")


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error and its causes; urllib3 also stores a cause in `reason`, requests in `args`."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        one = waiting.pop()
        if isinstance(one, BaseException) and id(one) not in seen:
            seen.add(id(one))
            yield one
            waiting += [one.__cause__, one.__context__, getattr(one, "reason", None), *one.args]


def own_credentials(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Send the password in the URL; with an explicit `auth`, requests does not read ~/.netrc."""
    user, password = get_auth_from_url(request.url or "")
    return requests.auth.HTTPBasicAuth(user, password)(request) if user else request


def _body(response: requests.Response, bounds: Bounds) -> bytes:
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise TransferError("the server compresses its answer although it was asked not to")
    body = bytearray()
    while chunk := response.raw.read(65_536, decode_content=False):
        body += chunk
        if len(body) > bounds.max_bytes:
            raise TransferError(f"the answer is larger than {bounds.max_bytes:,} bytes")
    length = response.headers.get("Content-Length", "")
    if length.isdigit() and len(body) < int(length):
        raise TransferError("the transfer ended early", may_pass=True)
    return bytes(body)
