"""Compile CiteAgent with a DSPy optimizer: steps of its correct answers become examples."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dspy

from .. import HoldfastError
from .data import Dataset, Sample, new_file
from .episode import Episode, Stop
from .limits import tokens_of
from .lm import in_episode
from .matching import official_match
from .program import CiteAgent, adapter
from .records import Call
from .search.provider import ProviderError


def optimize(
    agent: CiteAgent,
    dataset: Dataset,
    lm: dspy.LM,
    start: Callable[[Sample], Episode],
    out: Path,
    *,
    steps: int = 2,
) -> str:
    """Compile `agent` with BootstrapFewShot, write it to `out`, and return a summary.

    The agent runs on the samples; up to `steps` of its steps, from samples that it answers correctly by
    CiteME's matcher, become worked examples in its prompt.

    Raises:
        HoldfastError: if no answer is correct, or a provider fails.
    """
    episodes: list[Episode] = []

    class Task(dspy.Module):  # type: ignore[misc]
        """The agent as the optimizer calls it: from a sample to a title ("" without an answer)."""

        def __init__(self) -> None:
            super().__init__()
            self.agent = agent

        def forward(self, sample: Sample) -> dspy.Prediction:
            episodes.append(start(sample))
            with dspy.context(lm=in_episode(lm, episodes[-1])):
                try:
                    return self.agent(episode=episodes[-1])
                except Stop:
                    return dspy.Prediction(title="")

    def metric(example: Any, prediction: Any, trace: Any = None) -> bool:
        return official_match(prediction.title, example.sample.titles)

    examples = [dspy.Example(sample=s).with_inputs("sample") for s in dataset.samples]
    optimizer = dspy.BootstrapFewShot(
        metric=metric, max_bootstrapped_demos=steps, max_labeled_demos=0, max_errors=1
    )
    try:
        with dspy.context(lm=lm, adapter=adapter("dspy")):
            compiled = optimizer.compile(Task(), trainset=examples).agent
    except ProviderError as error:
        raise HoldfastError(f"A provider failed ({error}). Run the command again.") from error
    shown = without_histories(compiled)
    if not shown:
        raise HoldfastError(
            f"The agent answered none of the {len(examples)} samples correctly, so there are no examples. "
            "Use another model or more samples."
        )
    state = {"commands": agent.commands, **compiled.dump_state()}
    text = json.dumps(state, indent=1, ensure_ascii=False, default=str)
    with new_file(out) as partial:
        partial.write_text(text, encoding="utf-8")
    calls = [e for episode in episodes for e in episode.events if isinstance(e, Call)]
    return (
        f"{shown} example steps from {len(episodes)} attempts ({len(calls)} calls, "
        f"{sum(tokens_of(calls).values())} tokens); wrote {out}, sha256 "
        f"{hashlib.sha256(out.read_bytes()).hexdigest()[:12]}"
    )


def without_histories(agent: CiteAgent) -> int:
    """Remove the history of each example, which DSPy would print, and count the bootstrapped ones."""
    count = 0
    for predictor in agent.predictors():
        demos = [dict(demo) for demo in predictor.demos]
        predictor.demos = [
            dspy.Example(**{k: v for k, v in demo.items() if k not in ("history", "augmented")})
            for demo in demos
        ]
        count += sum(bool(demo.get("augmented")) for demo in demos)
    return count
