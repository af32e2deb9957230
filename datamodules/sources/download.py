"""Downloads a file over an unreliable connection: retries, continues partial files, verifies the length."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ... import HoldfastError
from ...files import PARTIAL, written

if TYPE_CHECKING:  # loaded when something is downloaded
    import requests

T = TypeVar("T")

TRANSIENT = (408, 425, 429, 500, 502, 503, 504)  # another attempt may succeed
CHUNK = 2**14  # bytes; at most this many are read in vain when a connection is cut


class Patience(NamedTuple):
    """Time limits and attempts for a server."""

    timeout: float = 30.0  # seconds without a byte
    attempts: int = 8  # in a row without progress
    pause: float = 1.0  # seconds before the second attempt; doubled for each further one, up to 60


PATIENT = Patience()


class Absent(HoldfastError):
    """The server says that there is no such file."""


class TransientFailure(Exception):
    """A failure that another attempt may overcome."""


def fetch(url: str, path: Path, patience: Patience = PATIENT) -> None:
    """Download to `path`, which appears once it is complete; an existing PATH.partial is continued.

    Raises Absent on 404 and 410, HoldfastError on other refusals, when the attempts are exhausted,
    and when the disk is full.
    """
    import requests

    partial = path.with_name(f"{path.name}{PARTIAL}")
    validators: dict[str, str] = {}
    with written(path), requests.Session() as session:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.touch()

        def attempt() -> None:
            _continue(session, url, partial, patience.timeout, validators)

        _patiently(attempt, url, patience, lambda: partial.stat().st_size)
        partial.replace(path)


def exists(url: str, patience: Patience = PATIENT) -> bool:
    """Whether the server has that file."""
    import requests

    def attempt() -> None:
        one_byte = {"Range": "bytes=0-0"}  # not every server answers HEAD
        with requests.get(url, headers=one_byte, stream=True, timeout=patience.timeout) as answer:
            _check(answer)

    try:
        _patiently(attempt, url, patience, lambda: 0)
    except Absent:
        return False
    return True


def _patiently(
    attempt: Callable[[], T], url: str, patience: Patience, progress: Callable[[], int]
) -> T:
    """Repeat a request until it succeeds, or fails too often without receiving more bytes."""
    import requests

    failures, reached = 0, progress()
    while True:
        try:
            return attempt()
        except (requests.RequestException, TransientFailure) as error:
            failures = 1 if progress() > reached else failures + 1
            reached = max(reached, progress())
            if failures >= patience.attempts:
                raise HoldfastError(
                    f"{url} could not be read in {failures} attempts ({error}). The {reached} "
                    "bytes read so far are kept. Try again later."
                ) from error
            time.sleep(min(60.0, patience.pause * 2 ** (failures - 1)))


def _check(answer: "requests.Response") -> None:
    """Refuse answers that are not a file."""
    if answer.status_code in (404, 410):
        raise Absent(f"{answer.url} does not exist ({answer.status_code}).")
    if answer.status_code in TRANSIENT:
        raise TransientFailure(f"{answer.status_code} {answer.reason}")
    if not answer.ok:
        raise HoldfastError(f"{answer.url} is refused ({answer.status_code} {answer.reason}).")


def _continue(
    session: "requests.Session", url: str, partial: Path, timeout: float, validators: dict[str, str]
) -> None:
    """Append the missing bytes; start again if the server cannot continue, or the file has changed."""
    have = partial.stat().st_size
    headers = {"Accept-Encoding": "identity"}
    if have:
        headers |= {"Range": f"bytes={have}-", **validators}
    with session.get(url, headers=headers, stream=True, timeout=timeout) as answer:
        total = _total(answer)
        if answer.status_code == 416:
            if have == total:
                return
            partial.write_bytes(b"")
            raise TransientFailure("the partial file was longer than the whole one")
        _check(answer)
        if etag := answer.headers.get("ETag"):
            validators["If-Range"] = etag
        offset = have if answer.status_code == 206 else 0
        with partial.open("r+b") as file:
            file.truncate(offset)
            file.seek(offset)
            for chunk in answer.iter_content(CHUNK):
                file.write(chunk)
    size = partial.stat().st_size
    if total is not None and size != total:
        if size > total:
            partial.write_bytes(b"")
        raise TransientFailure(f"cut after {size} of {total} bytes")


def _total(answer: "requests.Response") -> int | None:
    """Length of the whole file, if the server reports it."""
    if answer.status_code in (206, 416):
        number = answer.headers.get("Content-Range", "").rpartition("/")[2]
    else:
        number = answer.headers.get("Content-Length", "")
    return int(number) if number.isdigit() else None
