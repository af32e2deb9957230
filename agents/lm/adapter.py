"""How DSPy's programs ask a model and read its reply."""

from typing import Any

import dspy

from .metered import MeteredLM

ParseError: type[Exception] = dspy.utils.exceptions.AdapterParseError


def active(lm: MeteredLM) -> Any:
    """A context in which DSPy's programs use `lm`, through our adapter, in this thread."""
    return dspy.context(lm=lm, adapter=adapter(), max_history_size=100)


def adapter() -> Any:
    """The chat adapter that asks once: its silent second request would not be counted."""
    return dspy.ChatAdapter(use_json_adapter_fallback=False)


def parses(signature: Any, reply: str) -> bool:
    """Whether `reply` has all output fields of `signature` with admissible values."""
    try:
        adapter().parse(signature, reply)
    except ParseError:
        return False
    return True
