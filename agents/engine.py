"""What DSPy's requests to a model pass through: bounded waits, errors in words, a recorded world."""

import dataclasses
import json
from collections import Counter
from typing import Any

import dspy
import requests
from dspy import lm15
from dspy.utils import exceptions

from .. import HoldfastError
from .records import clean, fingerprint
from .search.client import bounded_wait
from .world import FAILED, OK, REFUSED, World

# What an inner model knows and a request does not contain.
CLIENT = ("api_key", "api_base", "timeout")


class Engine:
    """One request at a time to a model of DSPy, or its answer from a world.

    `lm` sends requests, without retries and cache: DSPy's model around it repeats failed ones. With
    `structured` its server enforces JSON schemas; by default as DSPy knows the model. `sample` is the
    sample and the number of its repeat that the requests belong to.
    """

    def __init__(
        self,
        lm: dspy.LM,
        world: World | None = None,
        structured: bool = False,
        sample: tuple[str, int] = ("", 0),
    ) -> None:
        self.lm, self.world, self.structured, self.sample = lm.copy(), world, structured, sample
        self.usd: float | None = None  # price of the last reply
        self.stop: HoldfastError | None = None  # DSPy would report it as an error of the model
        self.was_sent = True  # whether the last reply was requested rather than recorded
        self._answered = Counter[str]()

    def within(self, sample: str, repeat: int) -> "Engine":
        """This engine for a sample."""
        return Engine(self.lm, self.world, self.structured, (sample, repeat))

    def dump_state(self) -> dict[str, Any]:
        """Nothing: a saved program has no connection."""
        return {}

    @classmethod
    def load_state(cls, state: dict[str, Any]) -> "Engine":
        raise HoldfastError("A saved program has no model. Pass it with set_lm or dspy.configure.")

    # DSPy asks an engine what its model can do.

    @property
    def supports_response_schema(self) -> bool:
        return self.structured or self.lm.supports_response_schema

    @property
    def supported_params(self) -> set[str]:
        return {*self.lm.supported_params, *(["response_format"] if self.structured else [])}

    def complete(self, request: lm15.Request) -> lm15.Response:
        """The reply to a request.

        Raises `LMError` if there is none, and `HoldfastError` if a replayed world lacks the request.
        """
        if self.world is None:
            return self._send(request)
        config = json.loads(json.dumps(dataclasses.asdict(request.config), default=str))
        key = fingerprint([request.model, messages_of(request), config])
        failure: list[exceptions.LMError] = []

        def ask() -> tuple[str, dict[str, Any]]:
            try:
                response = self._send(request)
            except exceptions.LMError as error:
                failure.append(error)
                is_final = isinstance(error, exceptions.LMInvalidRequestError)
                facts = {"message": error.message, "status": error.status}
                return REFUSED if is_final else FAILED, {"error": type(error).__name__, **facts}
            tokens = response.usage.input_tokens, response.usage.output_tokens
            usage = dict(zip(("input_tokens", "output_tokens"), tokens, strict=True))
            reply, finish = clean(response.text or ""), response.finish_reason
            return OK, {"reply": reply, "finish": finish, "usage": usage, "usd": self.usd}

        self.was_sent = False
        sample, repeat = self.sample
        asked = {"kind": "lm", "run": self.world.run, "sample": sample, "repeat": repeat}
        asked |= {"number": self._answered[key], "model": request.model, "messages": key}
        try:
            status, result = self.world.answer(asked, ask)
        except HoldfastError as error:
            self.stop = error
            raise
        if failure:
            raise failure[0]
        if status != OK:
            kind = getattr(exceptions, result["error"])
            raise kind(result["message"], model=request.model, status=result["status"])
        self._answered[key] += 1
        self.usd = result["usd"]
        return lm15.Response(
            id=None,
            model=request.model,
            message=lm15.Message.assistant(result["reply"] or " "),
            finish_reason=result["finish"],
            usage=lm15.Usage(**result["usage"]),
        )

    def _send(self, request: lm15.Request) -> lm15.Response:
        """Send a request and record its price; None for a server at `api_base`."""
        self.was_sent = True
        # The model around this one counts and records the request.
        quiet: dict[str, Any] = {"usage_tracker": None, "callbacks": [], "caller_modules": []}
        with dspy.context(**quiet, disable_history=False, max_history_size=1):
            try:
                response = self.lm(request)
            except exceptions.LMError as error:
                self._explain(error, request)
                if error.retry_after is not None:
                    error.retry_after = bounded_wait(error.retry_after, str(error.model))
                raise
        self.usd = None if "api_base" in self.lm.kwargs else self.lm.history[-1]["cost"]
        return response

    def _explain(self, error: exceptions.LMError, request: lm15.Request) -> None:
        """Add the words of a server that does not report errors in OpenAI's form, which DSPy drops."""
        api_base = self.lm.kwargs.get("api_base")
        if error.message or not api_base or not isinstance(error, exceptions.LMInvalidRequestError):
            return
        options = {k: v for k, v in self.lm.kwargs.items() if k not in CLIENT and v is not None}
        body = {"model": request.model.partition("/")[2], "messages": messages_of(request)}
        headers = {"Authorization": f"Bearer {self.lm.kwargs.get('api_key')}"}
        url = f"{api_base.rstrip('/')}/chat/completions"
        try:
            answer = requests.post(url, json={**options, **body}, headers=headers, timeout=10.0)
        except requests.RequestException:
            return
        error.message = clean(answer.text, 500)


def messages_of(request: lm15.Request) -> list[dict[str, str]]:
    """The messages of a request as mappings."""
    system = [{"role": "system", "content": request.system}] if request.system else []
    return [*system, *({"role": m.role, "content": m.text or ""} for m in request.messages)]
