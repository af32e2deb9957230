"""The language model of all agents: DSPy's model with limits, retries, recordings and events."""

import hashlib
import logging
import os
import re
import threading
import time
from dataclasses import asdict
from typing import Any

import dspy
from dspy.clients.base_lm import GLOBAL_HISTORY

from ... import HoldfastError
from ..cassette import Cassette, is_replay
from ..episode import Episode, Stop
from ..limits import RateLimiter, Retry
from ..search.transfer import causes
from .lm_transport import waited_for, within
from .replies import (
    RATE_LIMIT,
    TIMEOUT,
    Failure,
    Reply,
    finish_reason,
    known_name,
    raise_if_final,
    token_counts,
)

Messages = list[dict[str, Any]]
log = logging.getLogger(__name__)


class MeteredLM(dspy.LM):  # type: ignore[misc]
    """A DSPy model with rate limits, retries and recordings, whose calls become events of an episode.

    Args:
        model: name of the model in DSPy.
        timeout: seconds per request.
        **settings: further arguments of `dspy.LM`.
    """

    episode: Episode | None = None
    limiter = RateLimiter()
    retry = Retry()
    cassette: Cassette | None = None
    name: str | None = None  # in result files and recordings, if it differs from DSPy's name
    api_base: str | None = None  # URL of the user's server

    def __init__(self, model: str, timeout: float = 120.0, **settings: Any) -> None:
        # Otherwise DSPy downloads a price list at the first call.
        os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "true")
        logging.getLogger("dspy").setLevel(logging.ERROR)
        if "engine" not in settings:
            settings["timeout"] = timeout
        super().__init__(model, cache=False, num_retries=0, **settings)
        self.seconds = timeout  # per request, doubled after a timeout
        self.was_answered = threading.Event()

    def __call__(
        self, prompt: str | None = None, *, messages: Messages | None = None, **kwargs: Any
    ) -> list[str]:
        messages = messages or [{"role": "user", "content": prompt or ""}]
        return [self._metered(messages, kwargs).text]

    def for_episode(self, episode: Episode) -> "MeteredLM":
        """A copy that records its calls in `episode`; limiter and recording are shared."""
        copy: MeteredLM = self.copy()
        copy.episode = episode
        return copy

    def describe(self) -> dict[str, Any]:
        """The facts that identify the model in a result file, without API keys and passwords."""
        sampling = {k: v for k, v in self.kwargs.items() if k in ("temperature", "max_tokens")}
        address = re.sub(r"//[^/@]*@", "//", self.api_base or "") or None
        return {"model": self.name or self.model, "api_base": address, **sampling}

    def complete(self, messages: Messages, kwargs: dict[str, Any], seconds: float) -> Reply:
        """Send one request once, with a timeout of `seconds`."""
        asked = self.copy()  # so that an abandoned request does not write to the history

        def ask(**more: Any) -> Any:
            return super(MeteredLM, asked).__call__(messages=messages, **kwargs, **more)

        if "timeout" in self.kwargs:  # DSPy's own transport, or LiteLLM's
            texts = waited_for(seconds, lambda: ask(timeout=seconds))
        else:
            with within(seconds):
                texts = ask()
        entry = asked.history[-1]
        # DSPy stores the last 10,000 prompts of the process: gigabytes over a long run.
        GLOBAL_HISTORY.clear()
        text = texts[0] if isinstance(texts[0], str) else texts[0].get("text")
        usage = entry.get("usage") or {}
        # A private server may use the name of a priced model.
        usd = None if self.api_base else entry.get("cost")
        return Reply(text or "", token_counts(usage), usd, finish_reason(entry.get("response")))

    def _metered(self, messages: Messages, kwargs: dict[str, Any]) -> Reply:
        seconds = self.seconds
        late: list[float] = []  # timeouts, in seconds, of requests that were abandoned
        for attempt in range(1, self.retry.attempts + 1):
            if self.episode:
                self.episode.check_allowances()
            if late:
                seconds = 2 * late[-1]
            start = time.monotonic()
            result = self._try(messages, kwargs, seconds)
            self._note(messages, attempt, time.monotonic() - start, result)
            if isinstance(result, Reply):
                self.was_answered.set()
                if result.finish == "content_filter":
                    raise Stop("policy", "the provider withheld the reply")
                return result
            if result.name == TIMEOUT:
                late.append(seconds)
            if result.nobody and not self.was_answered.is_set():
                raise HoldfastError(
                    f"No server listens at {self.describe()['api_base']} (connection refused). Start it, "
                    "or correct --api-base."
                )
            raise_if_final(result, attempt, self.retry.attempts, late)
            if result.name == TIMEOUT:
                log.warning("no reply within %g s (--lm-timeout): doubling the timeout", late[-1])
            wait = (
                0.0 if is_replay(self.cassette) else self.retry.delay(attempt, result.retry_after)
            )
            self.limiter.pause(wait) if result.name == RATE_LIMIT else time.sleep(wait)
        raise AssertionError("unreachable")

    def _try(self, messages: Messages, kwargs: dict[str, Any], seconds: float) -> Reply | Failure:
        """The outcome of one request, sent or replayed."""
        merged = {**self.kwargs, **kwargs}
        sampling = {
            k: merged.get(k) for k in ("temperature", "max_tokens", "max_completion_tokens")
        }
        if form := merged.get("response_format"):
            sampling["response_format"] = form
        request = {"model": self.name or self.model, "messages": messages, "sampling": sampling}

        def send() -> dict[str, Any]:
            self.limiter.wait()
            try:
                return asdict(self.complete(messages, kwargs, seconds))
            except Exception as error:
                if not (name := known_name(error)):
                    raise
                nobody = any(getattr(cause, "nobody", False) for cause in causes(error))
                after = getattr(error, "retry_after", None)
                return {"failure": asdict(Failure(name, str(error), after, nobody))}

        answer = self.cassette.exchange(request, send) if self.cassette else send()
        return Failure(**answer["failure"]) if "failure" in answer else Reply(**answer)

    def _note(
        self, messages: Messages, attempt: int, seconds: float, result: Reply | Failure
    ) -> None:
        """Record a call in the episode; each message is stored in full only when it is first sent."""
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
