"""Everything of DSPy that has changed or will change: models, retries, usage, errors, adapter.

Written against DSPy 3.4.1: `LM.__call__(messages=...)` returns texts, `LM.history` holds usage,
`dspy.utils.exceptions` names failures. Nothing else in this package calls a model directly.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import dspy
from dspy.clients.base_lm import GLOBAL_HISTORY

from .. import HoldfastError
from .cassette import Cassette
from .episode import Episode, Stop
from .limits import RateLimiter, Retry
from .search import ProviderError

Messages = list[dict[str, Any]]
ParseError: type[Exception] = dspy.utils.exceptions.AdapterParseError

# Class names of DSPy's errors, by what they mean for a run.
_TRANSIENT = {
    "LMRateLimitError", "LMTimeoutError", "LMServerError", "LMTransportError", "LMUnexpectedError",
    "LMStreamAssemblyError", "LMProviderError",
}  # fmt: skip
_HOPELESS = {
    "LMAuthError", "LMBillingError", "LMConfigurationError", "LMNotConfiguredError",
    "LMUnsupportedModelError", "LMUnsupportedFeatureError",
}  # fmt: skip
_CONTEXT = re.compile(
    r"context.{0,20}(length|window|size)|too many tokens|exceeds? .*context", re.I
)
_POLICY = re.compile(r"content.?(policy|filter)|safety system|usage policies", re.I)


@dataclass
class Reply:
    """A model's answer; token counts are the provider's own, `usd` None if it names no cost."""

    text: str
    usage: dict[str, int] = field(default_factory=dict)
    usd: float | None = None
    finish: str | None = None


@dataclass
class Failure:
    """A request that failed: DSPy's name for the error, its text, the wait the server asks for."""

    name: str
    text: str
    retry_after: float | None = None


class MeteredLM(dspy.LM):  # type: ignore[misc]
    """A DSPy model whose calls are limited, retried, recorded, and noted in the running episode."""

    episode: Episode | None = None
    limiter = RateLimiter()
    retry = Retry()
    cassette: Cassette | None = None

    def __init__(self, model: str, **settings: Any) -> None:
        # Without this DSPy fetches a price list from the network at the first call.
        os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "true")
        logging.getLogger("dspy").setLevel(logging.ERROR)
        super().__init__(model, cache=False, num_retries=0, **settings)

    def __call__(
        self, prompt: str | None = None, *, messages: Messages | None = None, **kwargs: Any
    ) -> list[str]:
        messages = messages or [{"role": "user", "content": prompt or ""}]
        return [self._metered(messages, kwargs).text]

    def for_episode(self, episode: Episode) -> MeteredLM:
        """Return a copy that notes its calls in `episode`; limiter and recording stay shared."""
        copy: MeteredLM = self.copy()
        copy.episode = episode
        return copy

    def complete(self, messages: Messages, kwargs: dict[str, Any]) -> Reply:
        """Send one request, once."""
        texts = super().__call__(messages=messages, **kwargs)
        entry = self.history[-1]
        # DSPy keeps the last 10,000 prompts of the process, whole: gigabytes over a long run.
        GLOBAL_HISTORY.clear()
        text = texts[0] if isinstance(texts[0], str) else texts[0].get("text")
        usage = entry.get("usage") or {}
        # A server of one's own may borrow a priced model's name.
        usd = None if self.kwargs.get("api_base") else entry.get("cost")
        return Reply(text or "", _tokens(usage), usd, _finish_reason(entry.get("response")))

    def _metered(self, messages: Messages, kwargs: dict[str, Any]) -> Reply:
        for attempt in range(1, self.retry.attempts + 1):
            start = time.monotonic()
            result = self._try(messages, kwargs)
            self._note(messages, attempt, time.monotonic() - start, result)
            if isinstance(result, Reply):
                if result.finish == "content_filter":
                    raise Stop("policy", "the provider withheld the reply")
                return result
            self._raise_if_final(result, attempt)
            wait = 0.0 if self._replaying else self.retry.delay(attempt, result.retry_after)
            self.limiter.pause(wait) if result.name == "LMRateLimitError" else time.sleep(wait)
        raise AssertionError("unreachable")

    @property
    def _replaying(self) -> bool:
        return self.cassette is not None and self.cassette.mode == "replay"

    def _try(self, messages: Messages, kwargs: dict[str, Any]) -> Reply | Failure:
        """Return the outcome of one request, from or into the recording if there is one."""
        request = {"model": self.model, "messages": messages, "sampling": _sampling(self, kwargs)}
        if self.cassette and self._replaying:
            answer = self.cassette.replay(request)
            return Failure(**answer["failure"]) if "failure" in answer else Reply(**answer)
        self.limiter.wait()
        result: Reply | Failure
        try:
            result = self.complete(messages, kwargs)
        except Exception as error:
            if not (name := _name(error)):
                raise
            result = Failure(name, str(error)[:500], getattr(error, "retry_after", None))
        if self.cassette:
            answer = asdict(result)
            self.cassette.record(
                request, answer if isinstance(result, Reply) else {"failure": answer}
            )
        return result

    def _raise_if_final(self, failure: Failure, attempt: int) -> None:
        """Raise what a failure means, unless another try may help."""
        name, text = failure.name, failure.text.partition("\n")[0]
        refused = name == "LMInvalidRequestError"
        if name == "ContextWindowExceededError" or (refused and _CONTEXT.search(text)):
            raise Stop("context", text)
        if refused and _POLICY.search(text):
            raise Stop("policy", text)
        if name in _HOPELESS:
            raise HoldfastError(
                f"The language model cannot be used ({text}); check --model, "
                "--api-base and the provider's key in the environment."
            )
        if refused:
            raise ProviderError(f"the request was refused: {text}")
        if attempt == self.retry.attempts:
            raise ProviderError(f"no reply after {attempt} tries: {name}: {text}")

    def _note(
        self, messages: Messages, attempt: int, seconds: float, result: Reply | Failure
    ) -> None:
        """Note a call in the episode; a message is written out where it is sent first."""
        if self.episode is None:
            return
        noted = self.episode.noted_messages
        new, prompt = [], []
        for message in messages:
            text = f"{message['role']}\n{message['content']}"
            key = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
            prompt.append(key)
            if key not in noted:
                noted.add(key)
                new.append({"id": key, "role": message["role"], "content": message["content"]})
        outcome = (
            {"reply": result.text, "finish": result.finish}
            if isinstance(result, Reply)
            else {"error": f"{result.name}: {result.text}"}
        )
        usage, usd = (result.usage, result.usd) if isinstance(result, Reply) else ({}, None)
        self.episode.note(
            "lm",
            prompt=prompt,
            new_messages=new,
            attempt=attempt,
            seconds=round(seconds, 4),
            usage=usage,
            usd=usd,
            **outcome,
        )


class ScriptedLM(MeteredLM):
    """A model whose replies a function makes from the messages; for tests and dry runs."""

    def __init__(self, reply: Callable[[Messages], str]) -> None:
        super().__init__("scripted/scripted")
        self.reply = reply

    def complete(self, messages: Messages, kwargs: dict[str, Any]) -> Reply:
        text = self.reply(messages)
        prompt = sum(len(str(m["content"]).split()) for m in messages)
        usage = {"input_tokens": prompt, "output_tokens": len(text.split())}
        return Reply(text, usage, None, "stop")


def endpoint(
    model: str,
    *,
    api_base: str | None = None,
    temperature: float | None = 0.95,
    max_tokens: int | None = 2048,
    timeout: float = 120.0,
    per_second: float | None = None,
    retry: Retry | None = None,
    cassette: Cassette | None = None,
) -> MeteredLM:
    """Return a model DSPy reaches: a hosted provider's, or one behind an OpenAI-compatible base.

    With `api_base` the model's name is the server's own, and a key is only sent if OPENAI_API_KEY
    is set. Temperature 0.95 is CiteME's. Raises `HoldfastError` where DSPy refuses the settings.
    """
    if api_base and not api_base.startswith(("http://", "https://")):
        raise HoldfastError(
            f"{api_base} is no address; --api-base starts with http:// or https://."
        )
    if not api_base and "/" not in model:
        raise HoldfastError(
            f"Name the provider of the model {model!r} as well, as in openai/gpt-4o, or give its "
            "server with --api-base."
        )
    settings: dict[str, Any] = {"temperature": temperature, "max_tokens": max_tokens}
    if api_base:
        model = model if model.startswith("openai/") else f"openai/{model}"
        settings["api_base"] = api_base
        settings["api_key"] = os.environ.get("OPENAI_API_KEY") or "none"
    if cassette and cassette.mode == "replay":
        settings["api_key"] = "none"
    try:
        lm = MeteredLM(model, timeout=timeout, **settings)
    except (ValueError, dspy.utils.exceptions.DSPyError) as error:
        raise HoldfastError(
            f"DSPy refuses the model {model!r}: {error}; see --model, --temperature, --max-tokens."
        ) from error
    lm.limiter = RateLimiter(per_second)
    lm.retry = retry or Retry()
    lm.cassette = cassette
    return lm


def active(lm: MeteredLM) -> Any:
    """Return a context in which DSPy's programs use `lm`, through our adapter, in this thread."""
    return dspy.context(lm=lm, adapter=adapter(), max_history_size=100)


def adapter() -> Any:
    """Return the chat adapter that asks once: its silent second request would not be counted."""
    return dspy.ChatAdapter(use_json_adapter_fallback=False)


def parses(signature: Any, reply: str) -> bool:
    """Whether `reply` has all output fields of `signature` with admissible values."""
    try:
        adapter().parse(signature, reply)
    except ParseError:
        return False
    return True


def _name(error: Exception) -> str:
    """Return the most specific known name among the error's classes."""
    known = _TRANSIENT | _HOPELESS | {"ContextWindowExceededError", "LMInvalidRequestError"}
    return next((c.__name__ for c in type(error).__mro__ if c.__name__ in known), "")


def _sampling(lm: dspy.LM, kwargs: dict[str, Any]) -> dict[str, Any]:
    merged = {**lm.kwargs, **kwargs}
    return {k: merged.get(k) for k in ("temperature", "max_tokens", "max_completion_tokens")}


def _tokens(usage: dict[str, Any]) -> dict[str, int]:
    """Return the counts under one name each, whichever of two naming schemes the provider uses."""
    names = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens"}
    return {names.get(k, k): v for k, v in usage.items() if isinstance(v, int)}


def _finish_reason(response: Any) -> str | None:
    choices = getattr(response, "choices", None)
    if choices:
        return getattr(choices[0], "finish_reason", None)
    return getattr(response, "finish_reason", None)
