"""JSON replies as CiteME's program reads them: its parser, LangChain's, repairs what is torn or trails.

Text before the first `{` is dropped. If the rest is not JSON, open strings, lists and objects are closed,
and the longest prefix that is then JSON is used; if there is none, the same is tried on the text after the
first code fence. Checked against the official program with langchain-core 0.2.43.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

_FENCE = re.compile(r"```(?:json)?")
_PADDING = " \n\r\t`"


def object_in(reply: str) -> Any:
    """The JSON value of a reply; raises `ValueError` if nothing in it can be repaired to one."""
    text = reply[reply.find("{") :].strip()
    try:
        return repaired(text.strip(_PADDING))
    except ValueError:
        fence = _FENCE.search(text)
        if not fence:
            raise
    return repaired(text[fence.end() :].strip(_PADDING))


def repaired(text: str) -> Any:
    """The JSON value of the longest prefix that is JSON once it is closed; None if brackets cross.

    Raises `ValueError` if no prefix is JSON.
    """
    try:
        return json.loads(text, strict=False)
    except ValueError as error:
        unreadable = error
    closers = _closers(text)
    if closers is None:
        return None
    # A string is closed at the end of the text only, so a shorter prefix loses its quote.
    prefix, end = (text + '"' if closers[1] else text), closers[0]
    while prefix:
        try:
            return json.loads(prefix + end, strict=False)
        except json.JSONDecodeError as error:
            # Any longer prefix contains the character at which reading failed.
            prefix = prefix[: min(error.pos, len(prefix) - 1)]
    raise unreadable


def _closers(text: str) -> tuple[str, bool] | None:
    """The brackets that close a text, and whether a string is open; None if brackets cross."""
    stack: list[str] = []
    is_string = is_escaped = False
    for char in text:
        if is_string:
            is_string = char != '"' or is_escaped
            is_escaped = char == "\\" and not is_escaped
        elif char == '"':
            is_string, is_escaped = True, False
        elif char in "{[":
            stack.append("}" if char == "{" else "]")
        elif char in "}]" and (not stack or stack.pop() != char):
            return None
    return "".join(reversed(stack)), is_string


def text_of(value: Any) -> str:
    """A field that should be a string, from a string or a number; raises `ValueError` for others."""
    if not isinstance(value, str | int | float):
        raise ValueError(f"{json.dumps(value)[:60]} is not text")
    return str(value)


def action_in(reply: str, arguments: Mapping[str, Sequence[str]]) -> tuple[str, list[str]]:
    """The action of a reply, and its arguments by name from `arguments`.

    Raises `ValueError` if the reply has no reason, no such action, or lacks an argument of it.
    """
    if "{" not in reply:
        raise ValueError("it has no JSON object")
    try:
        # As in LangChain, a list of pairs is an object, too.
        content = dict(object_in(reply))
        action = dict(content["action"])
        text_of(content["reason"])
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON ({error.msg})") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except (KeyError, TypeError, ValueError):
        raise ValueError("it lacks the reason or the action") from None
    name = action.get("name")
    if not isinstance(name, str) or name not in arguments:
        raise ValueError(f"{name!r} is none of the actions {', '.join(arguments)}")
    try:
        return name, [text_of(action[key]) for key in arguments[name]]
    except (KeyError, ValueError):
        raise ValueError(f"the action {name} lacks its {' or '.join(arguments[name])}") from None
