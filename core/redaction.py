"""Removes keys and passwords from everything that is written: results, recordings, messages."""

import base64
import json
import os
import re
from typing import Any, TypeVar
from urllib.parse import quote, unquote, urlsplit

T = TypeVar("T")

SECRETIVE = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD)$", re.I)  # names in the environment
CREDENTIALS = re.compile(r"(?<=//)[^\s/?#\"'<>]+@")  # before the host of an address
SHORTEST = 8  # characters of a secret; shorter values, such as "none", occur in texts
INSTEAD = "[removed]"
_sent: set[str] = set()


def keep_secret(value: str) -> None:
    """Redact this value from now on, and, if it is a URL, the password in it."""
    parts = urlsplit(value) if "//" in value else None
    if parts is None:
        _sent.add(value)
    elif parts.username:
        user, password = unquote(parts.username), unquote(parts.password or "")
        pair = base64.b64encode(f"{user}:{password}".encode()).decode()
        _sent.update((password or user, pair))


def redacted(value: T) -> T:
    """The text or JSON value without the environment's keys and the credentials in URLs.

    >>> redacted({"api": ["https://me:secret@host/v1"]})
    {'api': ['https://host/v1']}
    """
    return _without(value, _secrets())


def _secrets() -> list[str]:
    """All values to remove, plain and as quoted in texts, longest first."""
    values = {value for name, value in os.environ.items() if SECRETIVE.search(name)} | _sent
    forms = {
        form
        for value in values
        if len(value) >= SHORTEST
        for form in (value, quote(value, safe=""), json.dumps(value)[1:-1])
    }
    return sorted(forms, key=len, reverse=True)


def _without(value: Any, secrets: list[str]) -> Any:
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, INSTEAD)
        return CREDENTIALS.sub("", value)
    if isinstance(value, dict):
        return {_without(k, secrets): _without(v, secrets) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_without(item, secrets) for item in value]
    return value
