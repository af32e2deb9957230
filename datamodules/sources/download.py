"""Files from a server; failures that another attempt may overcome are repeated."""

import time
from pathlib import Path
from typing import Any

from ... import HoldfastError
from ...files import whole_file

TRANSIENT = (408, 425, 429, 500, 502, 503, 504)  # another attempt may succeed
ATTEMPTS = 8
TIMEOUT = 30.0  # seconds without a byte
PAUSE = 1.0  # seconds before the second attempt; doubled for each further one


def fetch(url: str, path: Path | None = None) -> bool:
    """Whether the server has a file, which is downloaded if a path is given, whole or not at all.

    Raises HoldfastError if the server refuses it, or after eight attempts.
    """
    import requests  # loaded when something is downloaded

    # Not every server answers HEAD.
    options: dict[str, Any] = {"headers": {"Range": "bytes=0-0"}} if path is None else {}
    for attempt in range(ATTEMPTS):
        time.sleep(PAUSE * 2 ** (attempt - 1) if attempt else 0)
        try:
            with requests.get(url, stream=True, timeout=TIMEOUT, **options) as answer:
                if answer.status_code in (404, 410):
                    return False
                if answer.status_code not in TRANSIENT and not answer.ok:
                    why = f"{answer.status_code} {answer.reason}"
                    raise HoldfastError(f"{url} is refused ({why}). Check the address.")
                answer.raise_for_status()
                if path is not None:
                    with whole_file(path) as partial, partial.open("wb") as file:
                        file.writelines(answer.iter_content(2**20))
                return True
        except requests.RequestException as error:
            problem = error
    raise HoldfastError(
        f"{url} could not be read in {ATTEMPTS} attempts ({problem}). Try again later."
    )
