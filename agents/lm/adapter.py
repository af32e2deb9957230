"""How DSPy's programs prompt a model and parse its reply: DSPy's fields, JSON, or a plain line."""

from typing import Any, Literal, get_args, get_origin

import dspy

from .metered import MeteredLM
from .plain import PlainAdapter
from .replies import clean

Form = Literal["dspy", "json", "plain"]
ParseError: type[Exception] = dspy.utils.exceptions.AdapterParseError


def active(lm: MeteredLM, form: Form = "dspy", structured: bool = False) -> Any:
    """A context in which DSPy's programs in this thread use `lm`, with replies of that form."""
    return dspy.context(lm=lm, adapter=adapter(form, structured), max_history_size=100)


def adapter(form: Form, structured: bool) -> Any:
    """The adapter of a form; with `structured` (form "json") the server enforces a schema."""
    if form == "json":
        return JSONAdapter(structured)
    if form == "plain":
        return PlainAdapter(use_json_adapter_fallback=False)
    # DSPy's fallback would send a second request without counting it.
    return dspy.ChatAdapter(use_json_adapter_fallback=False)


class JSONAdapter(dspy.JSONAdapter):  # type: ignore[misc]
    """DSPy's adapter with an option to send a schema, as DSPy decides correctly only for hosted models."""

    def __init__(self, structured: bool) -> None:
        super().__init__(use_native_function_calling=False)
        self.structured = structured

    def __call__(
        self, lm: Any, lm_kwargs: dict[str, Any], signature: Any, demos: Any, inputs: Any
    ) -> Any:
        if self.structured:
            lm_kwargs = {**lm_kwargs, "response_format": response_format(schema(signature))}
        return dspy.ChatAdapter.__call__(self, lm, lm_kwargs, signature, demos, inputs)

    def parse(self, signature: Any, completion: str) -> dict[str, Any]:
        found = super().parse(signature, completion)
        # JSON may contain a lone surrogate, as "\\ud83d".
        return {k: clean(v) if isinstance(v, str) else v for k, v in found.items()}


def schema(signature: Any) -> dict[str, Any]:
    """The JSON schema of a signature's output fields, which are strings or choices."""
    fields = {name: field.annotation for name, field in signature.output_fields.items()}
    return record_schema(
        {
            name: {"type": "string", "enum": list(get_args(kind))}
            if get_origin(kind) is Literal
            else {"type": "string"}
            for name, kind in fields.items()
        }
    )


def record_schema(properties: dict[str, Any]) -> dict[str, Any]:
    """The schema of an object with exactly these properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def response_format(schema: dict[str, Any]) -> dict[str, Any]:
    """The field of an OpenAI request that enforces a schema on the reply."""
    return {
        "type": "json_schema",
        "json_schema": {"name": "reply", "schema": schema, "strict": True},
    }


def parses(signature: Any, reply: str) -> bool:
    """Whether `reply`, in the active form, has all output fields with valid values."""
    try:
        dspy.settings.adapter.parse(signature, reply)
    except ParseError:
        return False
    return True
