"""Language models by DSPy: opening one, and recording its requests and errors in a sample.

Transport, retries, prices and the formats of replies are DSPy's.
"""

import contextlib
import hashlib
import logging
import os
import re
import time
from collections.abc import Iterator
from typing import Any

import dspy
import requests
from dspy.utils import exceptions
from dspy.utils.callback import BaseCallback
from requests.exceptions import ProxyError

from .. import HoldfastError
from .engine import CLIENT, Engine, messages_of
from .episode import Episode, Stop
from .records import Call, Message, clean, without_keys
from .search.provider import ProviderError
from .world import World

_FATAL = (  # errors that the next sample would meet, too
    exceptions.LMAuthError,
    exceptions.LMBillingError,
    exceptions.LMConfigurationError,
    exceptions.LMUnsupportedModelError,
    exceptions.LMUnsupportedFeatureError,
)
_REASONING = re.compile(r"(o\d|gpt-5)(?!.*chat)", re.IGNORECASE)
_CONTEXT = re.compile(
    r"context.{0,20}(length|window|size)|too many tokens|exceeds? .*context|max_new_tokens", re.I
)
_PARAMETER = re.compile(
    r"temperature|top_p|max_(completion_)?tokens|response_format|reasoning|extra inputs|field required|"
    r"(unknown|unsupported|unrecogni[sz]ed) (request )?(argument|parameter|value|field)",
    re.I,
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
    world: World | None = None,
    structured: bool = False,
    **options: Any,
) -> dspy.LM:
    """Open the model of this name.

    Args:
        model: provider and name, as in openai/gpt-4o; with `api_base`, the server's name for it.
        api_base: the URL of an OpenAI-compatible server, which receives OPENAI_API_KEY if it is set.
        timeout: seconds per request without a byte.
        world: a recorded world, in which replies are recorded or from which they are replayed.
        structured: whether the server at `api_base` enforces JSON schemas.
        **options: further parameters of requests, such as `seed` or `reasoning_effort`.

    Raises `HoldfastError` if the name has no provider, no server answers at `api_base` (unless its replies
    are replayed), or DSPy refuses the settings.
    """
    # Otherwise DSPy downloads a price list at the first call.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "true")
    logging.getLogger("dspy").setLevel(logging.ERROR)
    options |= {"temperature": temperature, "max_tokens": max_tokens}
    client: dict[str, Any] = {"timeout": timeout}
    if api_base:
        if not world or not world.is_replay:
            _check_server(api_base)
        name = model.removeprefix("openai/")
        # To openai's models DSPy sends `max_completion_tokens`, which Ollama and llama-cpp-python ignore.
        # All servers know vLLM's `max_tokens`; only OpenAI's reasoning models refuse it.
        model = f"{'openai' if is_reasoning(name) else 'hosted_vllm'}/{name}"
        client["api_base"] = api_base
        client["api_key"] = os.environ.get("OPENAI_API_KEY") or "none"
    elif "/" not in model:
        raise HoldfastError(
            f"The model {model!r} has no provider. Write it like openai/gpt-4o, or pass the model's "
            "server with --api-base."
        )
    try:
        inner = dspy.LM(model, cache=False, num_retries=0, **client, **options)
        engine = Engine(inner, world, structured)
        return dspy.LM(model, cache=False, num_retries=tries - 1, engine=engine, **options)
    except (ValueError, exceptions.DSPyError) as error:
        raise HoldfastError(
            f"DSPy refuses the model {model!r} ({error}). Change --model, --temperature or --max-tokens."
        ) from error


def is_reasoning(model: str) -> bool:
    """Whether OpenAI's model of this name takes no temperature but 1, and many tokens."""
    return bool(_REASONING.match(model.rpartition("/")[2]))


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


def describe(lm: dspy.LM | None) -> dict[str, Any]:
    """The facts that identify a model in a result file, without API keys."""
    if lm is None:
        return {"model": None}
    engine = getattr(lm, "engine", None)
    kwargs = engine.lm.kwargs if isinstance(engine, Engine) else lm.kwargs
    api_base = kwargs.get("api_base")
    facts = {
        "model": f"openai/{lm.model.partition('/')[2]}" if api_base else lm.model,
        "api_base": re.sub(r"//[^/@]*@", "//", api_base) if api_base else None,
    }
    if isinstance(engine, Engine) and engine.structured:
        facts["structured"] = True
    return facts | {name: value for name, value in kwargs.items() if name not in CLIENT}


class Conversation(BaseCallback):  # type: ignore[misc]
    """Requests to language models in one episode: checked against limits, then recorded as events.

    DSPy reports requests to a model's callbacks, of which this is one.
    """

    def __init__(self, episode: Episode) -> None:
        self.episode = episode
        self._engines: dict[int, Engine] = {}  # by the id of the engine that they were made from
        self._sent: set[str | None] = set()  # ids of messages
        self._calls: list[Call] = []  # since the last call of `asking`; an adapter may send several

    @contextlib.contextmanager
    def asking(self, lm: dspy.LM) -> Iterator[dspy.LM]:
        """A context with a model whose requests become events on exit.

        Raises `Stop` at a limit, or if the prompt is too long or refused; `ProviderError` if no try was
        answered; `HoldfastError` if no request can succeed, for example with a wrong API key.
        """
        self.episode.check_allowance()
        self._calls = []
        recorded_lm = lm.copy(callbacks=[*lm.callbacks, self])
        if isinstance(engine := getattr(lm, "engine", None), Engine):
            sample = self.episode.sample.id, self.episode.repeat
            engine = self._engines.setdefault(id(engine), engine.within(*sample))
            recorded_lm = recorded_lm.copy(engine=engine)
        try:
            with dspy.context(disable_history=False):
                yield recorded_lm
        except exceptions.LMError as error:
            if isinstance(engine, Engine) and engine.stop:
                raise engine.stop from None
            raise _consequence(error) from None
        finally:
            for call in self._calls:
                self.episode.add(call)
            if self._last_finish == "content_filter":
                raise Stop("policy", "the provider withheld the reply")

    def reply(self, lm: dspy.LM, messages: list[dict[str, str]]) -> str:
        """The model's reply to messages; raises as `asking` does."""
        options = {k: v for k, v in lm.kwargs.items() if k not in CLIENT and v is not None}
        body = {"model": lm.model, "messages": messages, **options}
        with self.asking(lm) as recorded_lm:
            response = recorded_lm(dspy.lm15.request_from_openai_chat(body))
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
        self._start, self._lm = time.monotonic(), instance
        prompt = inputs["prompt"]
        self._messages = inputs["messages"] or (
            messages_of(prompt)
            if isinstance(prompt, dspy.lm15.Request)
            else [{"role": "user", "content": str(prompt)}]
        )

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
            call.error = without_keys(f"{type(exception).__name__}: {exception}", _ERROR_CHARS)
        else:
            self._add_reply(call, self._lm.history[-1])
        self._calls.append(call)

    def _add_reply(self, call: Call, entry: dict[str, Any]) -> None:
        """Add reply, reason of the end, tokens and price from an entry of DSPy's history."""
        response, text = entry["response"], entry["outputs"][0]
        # Providers that DSPy reaches by LiteLLM answer in OpenAI's form.
        choice = (getattr(response, "choices", None) or [response])[0]
        usage = response.usage
        text = text.get("text") if isinstance(text, dict) else text
        call.reply = clean(text or "", REPLY_CHARS)
        call.finish = choice.finish_reason
        call.usage = {
            "input_tokens": _count(usage, "input_tokens", "prompt_tokens"),
            "output_tokens": _count(usage, "output_tokens", "completion_tokens"),
        }
        engine = getattr(self._lm, "engine", None)
        if isinstance(engine, Engine):
            call.usd, call.was_sent = engine.usd, engine.was_sent
        elif "api_base" not in self._lm.kwargs:  # a private server may use a priced model's name
            call.usd = entry["cost"]


class RequestCount(BaseCallback):  # type: ignore[misc]
    """The number of requests to language models."""

    def __init__(self) -> None:
        self.requests = 0

    def on_lm_start(self, call_id: str, instance: dspy.LM, inputs: dict[str, Any]) -> None:
        """Count a request."""
        self.requests += 1


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
    text = without_keys(error.message.partition("\n")[0], _ERROR_CHARS)
    if isinstance(error, _FATAL):
        return HoldfastError(
            f"The language model is not usable ({text}). Check --model, --api-base and the provider's API "
            "key in the environment."
        )
    if isinstance(error, exceptions.LMInvalidRequestError):
        is_long = isinstance(error, exceptions.ContextWindowExceededError) or error.status == 413
        if is_long or _CONTEXT.search(text):
            return Stop("context", text)
        if _POLICY.search(text):
            return Stop("policy", text)
        if _PARAMETER.search(text):
            return HoldfastError(
                f"The language model refuses the settings of every request ({text}). Change "
                "--temperature, --max-tokens, --prompt or --lm-option."
            )
        return Stop("refused", text or f"status {error.status}")
    is_late = isinstance(error, exceptions.LMTimeoutError) or "timed out" in text
    hint = ". Increase --lm-timeout, or shorten replies with --max-tokens" if is_late else ""
    return ProviderError(f"no reply ({type(error).__name__}: {text}){hint}.")
