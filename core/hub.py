"""The Hugging Face hub, from a machine that may not reach it."""

import warnings
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen


def try_hub(model: str) -> None:
    """Put the hub's client into its offline mode if the hub does not answer and `model` is not a folder.

    Otherwise each file is requested for half a minute. Offline, what was downloaded before is found.
    """
    from huggingface_hub import constants  # loaded when something is downloaded

    if constants.HF_HUB_OFFLINE or Path(model).is_dir():
        return
    try:
        urlopen(Request(constants.ENDPOINT, method="HEAD"), timeout=10).close()
    except HTTPError:
        return  # it answers
    except OSError as error:
        constants.HF_HUB_OFFLINE = True
        why = f"{constants.ENDPOINT} does not answer ({type(error).__name__})"
        warnings.warn(f"{why}; only files that were downloaded before are used.", stacklevel=2)
