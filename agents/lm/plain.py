"""The shortest form of a reply, a line of plain text, for models that do not follow other forms."""

import re
from typing import Any, Literal, get_args, get_origin

import dspy

LEAD_IN = re.compile(
    r"^\W*(?:\w+ ){0,6}(?:title|paper|answer)\b(?:[^:\n]{0,60}\b(?:is|be|title|paper|cited))?\W{0,3}:\s*",
    re.IGNORECASE,
)
QUOTED = re.compile(r"[\"“]([^\"”\n]{10,})[\"”]")
THOUGHT = re.compile(r"\A.*</think>", re.DOTALL)


class PlainAdapter(dspy.ChatAdapter):  # type: ignore[misc]
    """Replies in plain text: `ACTION: ARGUMENT` on a separate line, or the one field's value.

    For signatures with one output field, or with an action, its argument and a reason, which may be in the
    preceding lines.
    """

    def format_system_message(self, signature: Any) -> str:
        choice = choice_of(signature)
        if choice is None:
            (field,) = signature.output_fields.values()
            how = f"Reply with {field.json_schema_extra['desc']}, in one line."
        else:
            # No placeholders: small models repeat them.
            kinds = signature.output_fields["argument"].json_schema_extra["desc"]
            kinds = re.sub(rf"; (?=(?:{'|'.join(choice)}): )", "\n", kinds)
            how = f"Reply with one line: an action, a colon, and what belongs to it, one of\n\n{kinds}"
        return f"{signature.instructions}\n\n{how}"

    def format_user_message_content(
        self,
        signature: Any,
        inputs: dict[str, Any],
        prefix: str = "",
        suffix: str = "",
        main_request: bool = False,
    ) -> str:
        given = [
            f"{name.capitalize()}: {inputs[name]}"
            for name in signature.input_fields
            if name in inputs
        ]
        choice = choice_of(signature)
        ask = f"Your line, {' or '.join(choice)}:" if choice else "The title:"
        return "\n\n".join(filter(None, [prefix, *given, ask if main_request else "", suffix]))

    def format_assistant_message_content(
        self, signature: Any, outputs: dict[str, Any], missing_field_message: Any = None
    ) -> str:
        if choice_of(signature) is None:
            (name,) = signature.output_fields
            return str(outputs[name])
        return f"{outputs['action']}: {outputs['argument']}"

    def parse(self, signature: Any, completion: str) -> dict[str, Any]:
        text = THOUGHT.sub("", completion).strip()
        choice = choice_of(signature)
        if choice is None:
            (name,) = signature.output_fields
            found = {name: title_in(text)}
        else:
            found = dict(
                zip(("reason", "action", "argument"), action_in(text, choice), strict=True)
            )
        empty = [k for k, v in found.items() if k != "reason" and not re.search(r"\w", v)]
        if empty and found.get("action") != "ask_for_more_context":
            raise dspy.utils.exceptions.AdapterParseError(
                adapter_name="PlainAdapter", signature=signature, lm_response=completion
            )
        return found


def choice_of(signature: Any) -> tuple[str, ...] | None:
    """The actions that a signature allows; None if it has none."""
    action = signature.output_fields.get("action")
    return (
        get_args(action.annotation) if action and get_origin(action.annotation) is Literal else None
    )


def title_in(text: str) -> str:
    """The title in the first line with words, without lead-in, quotes and markup."""
    lines = [LEAD_IN.sub("", line).strip(" *_`'\"“”#-") for line in text.splitlines()]
    first = next((line for line in lines if re.search(r"\w", line)), "")
    quoted = QUOTED.search(first)
    return quoted[1] if quoted else first


def action_in(text: str, choice: tuple[str, ...]) -> tuple[str, str, str]:
    """The lines before the first action, the action, and its argument; "" if missing.

    A line may be `search_relevance: words`, `Action: select(id)`, or `select id`.
    """
    names = "|".join(sorted(choice, key=len, reverse=True))
    line = re.compile(
        rf"^[\W\d]*(?:(?:my |your )?(?:action|line)\W+)?({names})\b\W{{0,3}}?(?:[:=(]\s*(.*)|\s+(\S+))?$",
        re.M | re.I,
    )
    found = line.search(text)
    if not found:
        return "", "", ""
    argument = (found[2] or found[3] or "").strip(" *_`'\"“”()<>[]")
    return text[: found.start()].strip(), found[1].lower(), argument
