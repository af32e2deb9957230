"""The outcome of a request to a language model: a reply, or a failure and its consequence."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ... import HoldfastError
from ..episode import Episode, Stop
from ..protocol import ProviderError
from ..schema import Call

# Class names of DSPy's errors: temporary ones, and those for which no retry helps.
TRANSIENT = {
    "LMRateLimitError",
    "LMTimeoutError",
    "LMServerError",
    "LMTransportError",
    "LMUnexpectedError",
    "LMStreamAssemblyError",
    "LMProviderError",
}
HOPELESS = {
    "LMAuthError",
    "LMBillingError",
    "LMConfigurationError",
    "LMNotConfiguredError",
    "LMUnsupportedModelError",
    "LMUnsupportedFeatureError",
}
RATE_LIMIT, REFUSED, TOO_LONG = (
    "LMRateLimitError",
    "LMInvalidRequestError",
    "ContextWindowExceededError",
)
TIMEOUT = "LMTimeoutError"
CONTEXT = re.compile(r"context.{0,20}(length|window|size)|too many tokens|exceeds? .*context", re.I)
SCHEMA = re.compile(r"response_?format|json_?schema|grammar", re.I)
LATE = re.compile(r"\bread timed out\b", re.I)
POLICY = re.compile(r"content.?(policy|filter)|safety system|usage policies", re.I)
# Far more than --max-tokens allows. A server that ignores it may send megabytes, which every later turn
# would repeat.
REPLY_CHARS = 100_000
ERROR_CHARS = 500


def clean(text: str, limit: int | None = None) -> str:
    """Text that can be stored and sent: at most `limit` characters, without lone surrogates."""
    return text[:limit].encode("utf-8", "replace").decode("utf-8")


@dataclass
class Reply:
    """A model's answer; token counts and `usd` are the provider's, None if it reports no price."""

    text: str
    usage: dict[str, int] = field(default_factory=dict)
    usd: float | None = None
    finish: str | None = None

    def __post_init__(self) -> None:
        if len(self.text) > REPLY_CHARS:
            self.finish = "length"
        self.text = clean(self.text, REPLY_CHARS)


@dataclass
class Failure:
    """A request that failed.

    Args:
        name: name of DSPy's error class.
        text: message of the error.
        retry_after: seconds to wait, as requested by the server.
        nobody: whether no server listens at the address.
    """

    name: str
    text: str
    retry_after: float | None = None
    nobody: bool = False

    def __post_init__(self) -> None:
        self.text = clean(self.text, ERROR_CHARS)


def known_name(error: Exception) -> str:
    """The most specific known name among the error's classes, "" if there is none."""
    if LATE.search(str(error)):  # DSPy's client reports a timeout as a broken connection
        return TIMEOUT
    known = TRANSIENT | HOPELESS | {TOO_LONG, REFUSED}
    return next((c.__name__ for c in type(error).__mro__ if c.__name__ in known), "")


def raise_if_final(
    failure: Failure, attempt: int, attempts: int, late: Sequence[float] = ()
) -> None:
    """Raise the error that a failure means for the sample or the run; return if a retry may help.

    Args:
        failure: the failure of this try.
        attempt: the number of this try, from 1.
        attempts: the maximum number of tries.
        late: timeouts in seconds of the abandoned tries of this request.

    Raises:
        Stop: if the prompt does not fit the context, or the provider's policy refuses it.
        ProviderError: if the request was refused, or this was the last try.
        HoldfastError: if no request can succeed, for example with a wrong API key.
    """
    name, text = failure.name, failure.text.partition("\n")[0]
    refused = name == REFUSED
    if name == TOO_LONG or (refused and CONTEXT.search(text)):
        raise Stop("context", text)
    if refused and POLICY.search(text):
        raise Stop("policy", text)
    if name in HOPELESS:
        raise HoldfastError(
            f"The language model is not usable ({text}). Check --model, --api-base and the provider's API "
            "key in the environment."
        )
    if refused:
        hint = " (omit --structured)" if SCHEMA.search(text) else ""
        raise ProviderError(f"the request was refused{hint}: {text}")
    if name == TIMEOUT and (attempt == attempts or len(late) > 1):
        waited = ", nor within ".join(f"{seconds:g} s" for seconds in late)
        raise ProviderError(
            f"no reply within {waited}. Increase --lm-timeout, or shorten replies with --max-tokens."
        )
    if attempt == attempts:
        raise ProviderError(f"no reply after {attempt} tries: {name}: {text}")


def explained(problem: str, episode: Episode) -> str:
    """The problem with the last reply, with a hint if it was cut off."""
    calls = [event for event in episode.events if isinstance(event, Call)]
    cut = calls and calls[-1].finish == "length"
    return f"the reply was cut off (see --max-tokens): {problem}" if cut else problem


def token_counts(usage: dict[str, Any]) -> dict[str, int]:
    """The provider's token counts under the names `input_tokens` and `output_tokens`."""
    names = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens"}
    return {names.get(k, k): v for k, v in usage.items() if isinstance(v, int)}


def finish_reason(response: Any) -> str | None:
    """Why the model stopped; None if the provider does not report it."""
    choices = getattr(response, "choices", None)
    if choices:
        return getattr(choices[0], "finish_reason", None)
    return getattr(response, "finish_reason", None)
