"""Language models by DSPy: how one is opened, and how its calls and errors become those of a sample.

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
from .records import Call, clean
from .search.provider import ProviderError

UNUSABLE = (  # errors that the next sample would meet, too
    *(exceptions.LMAuthError, exceptions.LMBillingError, exceptions.LMConfigurationError),
    *(exceptions.LMUnsupportedModelError, exceptions.LMUnsupportedFeatureError),
)
REASONING = re.compile(r"(o\d|gpt-5)(?!.*chat)", re.IGNORECASE)
CONTEXT = re.compile(r"context.{0,20}(length|window|size)|too many tokens|exceeds? .*context", re.I)
POLICY = re.compile(r"content.?(policy|filter)|safety system|usage policies", re.I)
# Far more than --max-tokens allows. A server that ignores it may send megabytes, which every later turn
# would repeat.
REPLY_CHARS = 100_000
ERROR_CHARS = 500


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
    server: dict[str, Any] = {}
    if api_base:
        if not cache:
            check_server(api_base)
        name = model.removeprefix("openai/")
        # To openai's models DSPy sends `max_completion_tokens`, which Ollama and llama-cpp-python ignore.
        # All servers know vLLM's `max_tokens`; only OpenAI's reasoning models refuse it.
        is_reasoning = REASONING.match(name.rpartition("/")[2])
        model = f"{'openai' if is_reasoning else 'hosted_vllm'}/{name}"
        server = {"api_base": api_base, "api_key": os.environ.get("OPENAI_API_KEY") or "none"}
    elif "/" not in model:
        raise HoldfastError(
            f"The model {model!r} has no provider. Write it like openai/gpt-4o, or pass the model's "
            "server with --api-base."
        )
    if cache:
        dspy.configure_cache(disk_cache_dir=str(cache), enable_memory_cache=False)
    sampling = {"temperature": temperature, "max_tokens": max_tokens, "timeout": timeout}
    try:
        return dspy.LM(model, cache=bool(cache), num_retries=tries - 1, **sampling, **server)
    except (ValueError, exceptions.DSPyError) as error:
        raise HoldfastError(
            f"DSPy refuses the model {model!r} ({error}). Change --model, --temperature or --max-tokens."
        ) from error


def check_server(api_base: str) -> None:
    """Raise `HoldfastError` unless a server answers at this URL, so that a run need not find out."""
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
    return {
        "model": f"openai/{lm.model.partition('/')[2]}" if api_base else lm.model,
        "api_base": api_base,
        **{k: v for k, v in lm.kwargs.items() if k in ("temperature", "max_tokens")},
    }


def in_episode(lm: dspy.LM, episode: Episode) -> dspy.LM:
    """A copy of a model whose calls become events of an episode."""
    copy = lm.copy(callbacks=[CallLog(episode)])
    if lm.cache:
        # DSPy's key leaves out the server, and repeats must differ.
        draw = zlib.crc32(f"{lm.kwargs.get('api_base')} {episode.repeat}".encode())
        copy.kwargs["rollout_id"] = draw
    return copy


class CallLog(BaseCallback):  # type: ignore[misc]
    """Notes every call of a model in an episode; a message in full only when it is first sent."""

    def __init__(self, episode: Episode) -> None:
        self.episode = episode
        self._known: set[str] = set()  # ids of noted messages

    def on_lm_start(self, call_id: str, instance: dspy.LM, inputs: dict[str, Any]) -> None:
        """Remember what is sent, and when."""
        self._lm, self._start = instance, time.monotonic()
        self._messages = inputs["messages"] or messages_of(inputs["prompt"])

    def on_lm_end(self, call_id: str, outputs: Any, exception: BaseException | None = None) -> None:
        """Note the call with its reply, tokens and price, or with its error."""
        answer: dict[str, Any] = {"usage": {}, "usd": None}
        if exception:
            # A server may repeat the header with the key.
            text = re.sub(r"bearer \S+", "Bearer [removed]", str(exception), flags=re.IGNORECASE)
            answer["error"] = clean(f"{type(exception).__name__}: {text}", ERROR_CHARS)
        else:
            # DSPy keeps the last 10,000 prompts of the process: gigabytes over a long run.
            GLOBAL_HISTORY.clear()
            answer = answer_of(self._lm.history[-1])
            if "api_base" in self._lm.kwargs:
                answer["usd"] = None  # a private server may use the name of a priced model
        new, prompt = [], []
        for message in self._messages:
            text = f"{message['role']}\n{message['content']}"
            key = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
            prompt.append(key)
            if key not in self._known:
                self._known.add(key)
                new.append({"id": key, "role": message["role"], "content": message["content"]})
        answer["seconds"] = round(time.monotonic() - self._start, 4)
        self.episode.note("lm", prompt=prompt, new_messages=new, **answer)


def messages_of(request: dspy.lm15.Request) -> list[dict[str, str]]:
    """The messages of a request as mappings."""
    system = [{"role": "system", "content": request.system}] if request.system else []
    return [*system, *({"role": m.role, "content": m.text or ""} for m in request.messages)]


def answer_of(entry: dict[str, Any]) -> dict[str, Any]:
    """Reply, reason of the end, tokens and price from an entry of DSPy's history."""
    response, text = entry["response"], entry["outputs"][0]
    # Providers that DSPy reaches by LiteLLM answer in OpenAI's form.
    choice = (getattr(response, "choices", None) or [response])[0]
    usage = {}
    for side, openai in (("input", "prompt"), ("output", "completion")):
        names = (f"{side}_tokens", f"{openai}_tokens")
        counts = (getattr(response.usage, name, None) for name in names)
        usage[names[0]] = next((count for count in counts if isinstance(count, int)), None)
    return {
        "reply": clean((text.get("text") if isinstance(text, dict) else text) or "", REPLY_CHARS),
        "finish": choice.finish_reason,
        "usage": usage,
        "usd": entry["cost"],
    }


def complete(lm: dspy.LM, messages: list[dict[str, str]]) -> str:
    """A model's reply to a conversation."""
    sampling = ("temperature", "max_tokens", "max_completion_tokens")
    options = {k: v for k, v in lm.kwargs.items() if k in sampling and v is not None}
    body = {"model": lm.model, "messages": messages, **options}
    return clean(lm(dspy.lm15.request_from_openai_chat(body)).text or "", REPLY_CHARS)


@contextlib.contextmanager
def asking(episode: Episode) -> Iterator[None]:
    """Check the limits before a call of the model, and raise what an error means for the sample or run.

    Raises:
        Stop: if a limit is reached, the prompt does not fit the context, or the provider's policy refuses
            the prompt or the reply.
        ProviderError: if the request was refused, or no try was answered.
        HoldfastError: if no request can succeed, for example with a wrong API key.
    """
    episode.check_allowance()
    try:
        yield
    except exceptions.LMError as error:
        raise consequence(error) from None
    finally:
        if last_finish(episode) == "content_filter":
            raise Stop("policy", "the provider withheld the reply")


def last_finish(episode: Episode) -> str | None:
    """Why the last reply ended; None if the provider does not report it."""
    return next((e.finish for e in reversed(episode.events) if isinstance(e, Call)), None)


def consequence(error: exceptions.LMError) -> Exception:
    """What an error means: the end of the sample, a sample to be run again, or the end of the run."""
    text = clean(error.message.partition("\n")[0], ERROR_CHARS)
    if isinstance(error, UNUSABLE):
        return HoldfastError(
            f"The language model is not usable ({text}). Check --model, --api-base and the provider's API "
            "key in the environment."
        )
    if isinstance(error, exceptions.LMInvalidRequestError):
        if isinstance(error, exceptions.ContextWindowExceededError) or CONTEXT.search(text):
            return Stop("context", text)
        if POLICY.search(text):
            return Stop("policy", text)
    is_late = isinstance(error, exceptions.LMTimeoutError) or "timed out" in text
    hint = ". Increase --lm-timeout, or shorten replies with --max-tokens" if is_late else ""
    return ProviderError(f"no reply ({type(error).__name__}: {text}){hint}.")


def explained(problem: str, episode: Episode) -> str:
    """The problem with the last reply, with a hint if it was cut off."""
    cut = last_finish(episode) == "length"
    return f"the reply was cut off (see --max-tokens): {problem}" if cut else problem
