"""Language models by DSPy: opening one, and recording its requests and errors in a sample.

Transport, retries, cache, prices and the formats of replies are DSPy's.
"""

import contextlib
import hashlib
import logging
import os
import re
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dspy
import requests
from dspy.clients.base_lm import GLOBAL_HISTORY
from dspy.utils import exceptions
from dspy.utils.callback import BaseCallback
from requests.exceptions import ProxyError

from .. import HoldfastError
from .episode import Episode, Stop
from .records import Call, Message, clean
from .search.provider import ProviderError

_FATAL = (  # errors that the next sample would meet, too
    exceptions.LMAuthError,
    exceptions.LMBillingError,
    exceptions.LMConfigurationError,
    exceptions.LMUnsupportedModelError,
    exceptions.LMUnsupportedFeatureError,
)
_REASONING = re.compile(r"(o\d|gpt-5)(?!.*chat)", re.IGNORECASE)
_CONTEXT = re.compile(
    r"context.{0,20}(length|window|size)|too many tokens|exceeds? .*context", re.I
)
_POLICY = re.compile(r"content.?(policy|filter)|safety system|usage policies", re.I)
# Far more than --max-tokens allows. A server that ignores it may send megabytes, which every later turn
# would repeat.
REPLY_CHARS = 100_000
_ERROR_CHARS = 500


def language_model(
    model: str,
    *,
    api_base: str | None = None,
    temperature: float | None = 0.95,
    max_tokens: int | None = 2048,
    timeout: float = 120.0,
    tries: int = 6,
    cache: Path | None = None,
) -> dspy.LM:
    """Open the model of this name.

    Args:
        model: provider and name, as in openai/gpt-4o; with `api_base`, the server's name for it.
        api_base: the URL of an OpenAI-compatible server, which receives OPENAI_API_KEY if it is set.
        temperature: sampling temperature (default: CiteME's).
        max_tokens: maximum tokens per reply.
        timeout: seconds per request without a byte.
        tries: maximum tries per request.
        cache: folder of DSPy's cache, which repeats known replies.

    Raises:
        HoldfastError: if the name has no provider, no server answers at `api_base` (unless its replies are
            in the cache), or DSPy refuses the settings.
    """
    # Otherwise DSPy downloads a price list at the first call.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "true")
    logging.getLogger("dspy").setLevel(logging.ERROR)
    options: dict[str, Any] = {"temperature": temperature, "max_tokens": max_tokens}
    if api_base:
        if not cache:
            _check_server(api_base)
        name = model.removeprefix("openai/")
        # To openai's models DSPy sends `max_completion_tokens`, which Ollama and llama-cpp-python ignore.
        # All servers know vLLM's `max_tokens`; only OpenAI's reasoning models refuse it.
        is_reasoning = _REASONING.match(name.rpartition("/")[2])
        model = f"{'openai' if is_reasoning else 'hosted_vllm'}/{name}"
        options["api_base"] = api_base
        options["api_key"] = os.environ.get("OPENAI_API_KEY") or "none"
    elif "/" not in model:
        raise HoldfastError(
            f"The model {model!r} has no provider. Write it like openai/gpt-4o, or pass the model's "
            "server with --api-base."
        )
    if cache:
        dspy.configure_cache(disk_cache_dir=str(cache), enable_memory_cache=False)
    try:
        return dspy.LM(model, cache=bool(cache), num_retries=tries - 1, timeout=timeout, **options)
    except (ValueError, exceptions.DSPyError) as error:
        raise HoldfastError(
            f"DSPy refuses the model {model!r} ({error}). Change --model, --temperature or --max-tokens."
        ) from error


def _check_server(api_base: str) -> None:
    """Raise `HoldfastError` unless a server answers at this URL."""
    try:
        requests.get(f"{api_base.rstrip('/')}/models", timeout=10.0)
    except requests.RequestException as error:
        proxy = "set NO_PROXY to its host, " if isinstance(error, ProxyError) else ""
        raise HoldfastError(
            f"No server answers at {api_base} ({type(error).__name__}). Start it, {proxy}or correct "
            "--api-base, as in http://127.0.0.1:8000/v1."
        ) from None


def describe(lm: dspy.LM) -> dict[str, Any]:
    """The facts that identify a model in a result file, without API keys."""
    api_base = lm.kwargs.get("api_base")
    facts = {
        "model": f"openai/{lm.model.partition('/')[2]}" if api_base else lm.model,
        "api_base": api_base,
    }
    for name in ("temperature", "max_tokens"):
        if name in lm.kwargs:
            facts[name] = lm.kwargs[name]
    return facts


class Conversation(BaseCallback):  # type: ignore[misc]
    """A language model in one episode: each request is checked against limits, then recorded as an event.

    DSPy reports requests to a model's callbacks, of which this is one.
    """

    def __init__(self, lm: dspy.LM, episode: Episode) -> None:
        self.episode = episode
        self._lm = lm.copy(callbacks=[*lm.callbacks, self])
        if lm.cache:
            # DSPy's key leaves out the server, and repeats must differ.
            draw = zlib.crc32(f"{lm.kwargs.get('api_base')} {episode.repeat}".encode())
            self._lm.kwargs["rollout_id"] = draw
        self._sent: set[str | None] = set()  # ids of messages
        self._calls: list[Call] = []  # since the last call of `asking`; an adapter may send several

    @contextlib.contextmanager
    def asking(self) -> Iterator[None]:
        """A context in which DSPy's programs use this model; on exit, their requests become events.

        Raises:
            Stop: if a limit is reached, the prompt exceeds the model's context, or the provider's policy
                refuses the prompt or the reply.
            ProviderError: if the request was refused, or no try was answered.
            HoldfastError: if no request can succeed, for example with a wrong API key.
        """
        self.episode.check_allowance()
        self._calls = []
        try:
            with dspy.context(lm=self._lm, max_history_size=1):
                yield
        except exceptions.LMError as error:
            raise _consequence(error) from None
        finally:
            for call in self._calls:
                self.episode.add(call)
            if self._last_finish == "content_filter":
                raise Stop("policy", "the provider withheld the reply")

    def reply(self, messages: list[dict[str, str]]) -> str:
        """The model's reply to messages; raises as `asking` does."""
        body: dict[str, Any] = {"model": self._lm.model, "messages": messages}
        for name in ("temperature", "max_tokens", "max_completion_tokens"):
            if self._lm.kwargs.get(name) is not None:
                body[name] = self._lm.kwargs[name]
        with self.asking():
            response = self._lm(dspy.lm15.request_from_openai_chat(body))
        return clean(response.text or "", REPLY_CHARS)

    def explained(self, problem: str) -> str:
        """The problem with the last reply, with a hint if it was cut off."""
        is_cut = self._last_finish == "length"
        return f"the reply was cut off (see --max-tokens): {problem}" if is_cut else problem

    @property
    def _last_finish(self) -> str | None:
        """Why the last reply ended; None if the provider does not report it."""
        return self._calls[-1].finish if self._calls else None

    def on_lm_start(self, call_id: str, instance: dspy.LM, inputs: dict[str, Any]) -> None:
        """Store the start time and the messages of a request."""
        self._start = time.monotonic()
        self._messages = inputs["messages"] or _messages_of(inputs["prompt"])

    def on_lm_end(self, call_id: str, outputs: Any, exception: BaseException | None = None) -> None:
        """Store a request with its reply, tokens and price, or with its error."""
        messages = [_message(content) for content in self._messages]
        new_messages = {m.id: m for m in messages if m.id not in self._sent}
        self._sent.update(new_messages)
        call = Call(
            kind="lm",
            step=self.episode.turn,
            prompt=[message.id for message in messages],
            new_messages=list(new_messages.values()),
            seconds=round(time.monotonic() - self._start, 4),
            usage={},
            usd=None,
        )
        if exception:
            # A server may repeat the header with the key.
            text = re.sub(r"bearer \S+", "Bearer [removed]", str(exception), flags=re.IGNORECASE)
            call.error = clean(f"{type(exception).__name__}: {text}", _ERROR_CHARS)
        else:
            # DSPy keeps the last 10,000 prompts of the process: gigabytes over a long run.
            GLOBAL_HISTORY.clear()
            self._add_reply(call, self._lm.history[-1])
        self._calls.append(call)

    def _add_reply(self, call: Call, entry: dict[str, Any]) -> None:
        """Add reply, reason of the end, tokens and price from an entry of DSPy's history."""
        response, text = entry["response"], entry["outputs"][0]
        # Providers that DSPy reaches by LiteLLM answer in OpenAI's form.
        choice = (getattr(response, "choices", None) or [response])[0]
        usage = response.usage
        call.reply = clean(
            (text.get("text") if isinstance(text, dict) else text) or "", REPLY_CHARS
        )
        call.finish = choice.finish_reason
        call.usage = {
            "input_tokens": _count(usage, "input_tokens", "prompt_tokens"),
            "output_tokens": _count(usage, "output_tokens", "completion_tokens"),
        }
        if "api_base" not in self._lm.kwargs:  # a private server may use the name of a priced model
            call.usd = entry["cost"]


def _messages_of(request: dspy.lm15.Request) -> list[dict[str, str]]:
    """The messages of a request as mappings."""
    system = [{"role": "system", "content": request.system}] if request.system else []
    return [*system, *({"role": m.role, "content": m.text or ""} for m in request.messages)]


def _message(content: dict[str, str]) -> Message:
    """A message for a result file, whose id is the hash of its text."""
    text = f"{content['role']}\n{content['content']}"
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
    return Message(id=digest, role=content["role"], content=content["content"])


def _count(usage: Any, *names: str) -> int | None:
    """The first of these counts that the provider reports."""
    counts = (getattr(usage, name, None) for name in names)
    return next((count for count in counts if isinstance(count, int)), None)


def _consequence(error: exceptions.LMError) -> Exception:
    """What an error means: the end of the sample, a sample to be run again, or the end of the run."""
    text = clean(error.message.partition("\n")[0], _ERROR_CHARS)
    if isinstance(error, _FATAL):
        return HoldfastError(
            f"The language model is not usable ({text}). Check --model, --api-base and the provider's API "
            "key in the environment."
        )
    if isinstance(error, exceptions.LMInvalidRequestError):
        if isinstance(error, exceptions.ContextWindowExceededError) or _CONTEXT.search(text):
            return Stop("context", text)
        if _POLICY.search(text):
            return Stop("policy", text)
    is_late = isinstance(error, exceptions.LMTimeoutError) or "timed out" in text
    hint = ". Increase --lm-timeout, or shorten replies with --max-tokens" if is_late else ""
    return ProviderError(f"no reply ({type(error).__name__}: {text}){hint}.")
