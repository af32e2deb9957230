"""Create a model from its name: a table of known prefixes, and DSPy for all others."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import dspy
from pydantic import Field

from ... import HoldfastError
from ...files import reason
from ..cassette import Cassette, is_replay
from ..limits import RateLimiter, Retry
from ..schema import Call, checked
from .lm_transport import engine
from .metered import Messages, MeteredLM
from .replies import Reply

REASONING = re.compile(r"(o\d|gpt-5)(?!.*chat)", re.IGNORECASE)
Replies = Annotated[list[str], Field(min_length=1)]  # replies of a scripted model, in order
Settings = dict[str, Any]  # settings of a model in DSPy: temperature, max_tokens, ...


class ScriptedLM(MeteredLM):
    """A model whose replies are a function of the messages; for tests and dry runs."""

    def __init__(self, reply: Callable[[Messages], str]) -> None:
        super().__init__("scripted/scripted")
        self.reply = reply

    def complete(self, messages: Messages, kwargs: dict[str, Any], seconds: float) -> Reply:
        text = self.reply(messages)
        prompt = sum(len(str(m["content"]).split()) for m in messages)
        usage = {"input_tokens": prompt, "output_tokens": len(text.split())}
        return Reply(text, usage, None, "stop")


def scripted(model: str, settings: Settings) -> MeteredLM:
    """`scripted/FILE`: the k-th string of a JSON list in FILE answers call k of each sample.

    The last string answers all further calls. For dry runs of prompts and tools.

    Raises:
        HoldfastError: if the file is not a list of strings.
    """
    path = Path(model.partition("/")[2])
    try:
        replies = checked(json.loads(path.read_text(encoding="utf-8")), Replies)
    except (OSError, ValueError, RecursionError) as error:
        raise HoldfastError(
            f"Cannot read {path} as a model's replies ({reason(error)}). Pass a JSON list of strings."
        ) from None

    class FromFile(ScriptedLM):
        def complete(self, messages: Messages, kwargs: dict[str, Any], seconds: float) -> Reply:
            calls = sum(isinstance(e, Call) for e in self.episode.events) if self.episode else 0
            self.reply = lambda _: replies[min(calls, len(replies) - 1)]
            return super().complete(messages, kwargs, seconds)

    lm = FromFile(lambda _: "")
    lm.model = model
    return lm


def server(model: str, settings: Settings) -> MeteredLM:
    """A model behind an OpenAI-compatible server; a key is only sent if OPENAI_API_KEY is set."""
    settings = dict(settings)
    address, key = settings.pop("api_base"), settings.pop("api_key", None)
    if not address.startswith(("http://", "https://")):
        raise HoldfastError(
            f"--api-base {address} is not a URL. Start it with http:// or https://."
        )
    model = model.removeprefix("openai/")
    # For openai's models DSPy sends `max_completion_tokens`, which Ollama and llama-cpp-python ignore, so
    # a small model would fill its context. All servers know vLLM's `max_tokens`; only OpenAI's reasoning
    # models refuse it.
    door = "openai" if REASONING.match(model.rpartition("/")[2]) else "hosted_vllm"
    key = key or os.environ.get("OPENAI_API_KEY") or "none"
    own = engine("openai-chat" if door == "openai" else "vllm", address, key)
    lm = MeteredLM(f"{door}/{model}", engine=own, **settings)
    lm.name, lm.api_base = f"openai/{model}", address
    return lm


def hosted(model: str, settings: Settings) -> MeteredLM:
    """A hosted provider's model, named as DSPy names it; the key is in the environment."""
    if "/" not in model:
        raise HoldfastError(
            f"The model {model!r} has no provider. Write it like openai/gpt-4o, or pass the model's "
            "server with --api-base."
        )
    return MeteredLM(model, **settings)


# The prefix of a custom provider, and a function from the full name and the settings.
PROVIDERS: dict[str, Callable[[str, Settings], MeteredLM]] = {"scripted": scripted}


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
    """Create the model of this name.

    Args:
        model: provider and name, as in openai/gpt-4o; with `api_base`, the server's name for it.
        api_base: the URL of an OpenAI-compatible server.
        temperature: sampling temperature (default: CiteME's).
        max_tokens: maximum tokens per reply.
        timeout: seconds per request.
        per_second: maximum requests per second.
        retry: number of tries and waits between them.
        cassette: a recording to write or to replay.

    Raises:
        HoldfastError: if there is no such provider, or DSPy refuses the settings.
    """
    settings: Settings = {"temperature": temperature, "max_tokens": max_tokens, "timeout": timeout}
    if api_base:
        settings["api_base"] = api_base
    if is_replay(cassette):
        settings["api_key"] = "none"
    open_model = server if api_base else PROVIDERS.get(model.partition("/")[0], hosted)
    try:
        lm = open_model(model, settings)
    except (ValueError, dspy.utils.exceptions.DSPyError) as error:
        raise HoldfastError(
            f"DSPy refuses the model {model!r} ({error}). Change --model, --temperature or --max-tokens."
        ) from error
    lm.limiter = RateLimiter(per_second)
    lm.retry = retry or Retry()
    lm.cassette = cassette
    return lm
