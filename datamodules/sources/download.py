"""Files from a server; failures that another attempt may overcome are repeated."""

import time
from pathlib import Path
from typing import Any

from ... import HoldfastError
from ...files import whole_file, written

TRANSIENT = (408, 425, 429, 500, 502, 503, 504)  # another attempt may succeed
ATTEMPTS = 8
TIMEOUT = 30.0  # seconds without a byte
PAUSE = 1.0  # seconds before the second attempt; doubled for each further one


def fetch(url: str, path: Path) -> None:
    """Download a file, which appears at `path` once it is complete.

    Raises HoldfastError if there is none, or after eight attempts, and if the disk is full.
    """
    with written(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as partial:
            if not _answered(url, partial):
                raise HoldfastError(f"{url} does not exist.")


def exists(url: str) -> bool:
    """Whether the server has that file."""
    return _answered(url)


def _answered(url: str, file: Path | None = None) -> bool:
    """Whether the server has the file, which is written if a path is given."""
    import requests  # loaded when something is downloaded

    # Not every server answers HEAD.
    options: dict[str, Any] = {"headers": {"Range": "bytes=0-0"}} if file is None else {}
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(PAUSE * 2 ** (attempt - 1))
        try:
            with requests.get(url, stream=True, timeout=TIMEOUT, **options) as answer:
                if answer.status_code in (404, 410):
                    return False
                if answer.status_code not in TRANSIENT and not answer.ok:
                    why = f"{answer.status_code} {answer.reason}"
                    raise HoldfastError(f"{url} is refused ({why}). Check the address.")
                answer.raise_for_status()
                if file is not None:
                    with file.open("wb") as content:
                        for chunk in answer.iter_content(2**20):
                            content.write(chunk)
                return True
        except requests.RequestException as error:
            problem = error
    raise HoldfastError(
        f"{url} could not be read in {ATTEMPTS} attempts ({problem}). Try again later."
    )
