"""CiteAgent as a DSPy program, and the agent that combines it with a language model.

Press et al., "CiteME", arXiv:2407.12861, section 3; prompts and demonstrations are Holdfast's.
"""

import hashlib
import json
from pathlib import Path
from typing import Any, get_args

import dspy

from ... import HoldfastError
from ...files import reason
from ..episode import Episode, Stop, UnknownId
from ..lm.adapter import Form, ParseError, active, parses
from ..lm.metered import MeteredLM
from ..lm.replies import explained
from ..results import fingerprint
from ..schema import Repair
from .actions import ACTIONS, Commands, act, bare, countdown, quote
from .demonstration import demonstrations, trajectory
from .signatures import Guess, step_signature

REPAIRS = 1  # maximum repairs of an unreadable reply per turn; CiteME has none


class CiteAgent(dspy.Module):  # type: ignore[misc]
    """The agent's program; `commands` and `demonstration` span CiteME's six settings.

    Instructions are the same with and without demonstration. A reply that cannot be parsed, or a last
    reply without a known id, is sent back up to `repairs` times per turn.

    Raises:
        HoldfastError: if there are no such commands.
    """

    def __init__(
        self,
        commands: Commands = "search+read",
        demonstration: bool = False,
        repairs: int = REPAIRS,
    ) -> None:
        super().__init__()
        if commands not in get_args(Commands):
            raise HoldfastError(
                f"There are no commands {commands!r}. Use one of {', '.join(get_args(Commands))}."
            )
        self.commands, self.demonstration, self.repairs = commands, demonstration, repairs
        if commands == "none":
            self.guess = dspy.Predict(Guess)
            if demonstration:
                pairs = demonstrations()["none"]
                self.guess.demos = [dspy.Example(**p).with_inputs("excerpt") for p in pairs]
        else:
            self.step = dspy.Predict(step_signature(ACTIONS[commands]))
            self.last = dspy.Predict(step_signature(("select",)))

    def forward(self, episode: Episode) -> dspy.Prediction:
        """Run an episode until it has a selection; raises `Stop` if it ends without one."""
        if self.commands == "none":
            reply = self._ask(self.guess, episode, {"excerpt": episode.sample.excerpt})
            episode.guess(reply.title)
            return dspy.Prediction(title=reply.title)
        turns = list(trajectory(self.commands)) if self.demonstration else []
        observation = "Nothing has been searched yet."
        while True:
            inputs = {
                "excerpt": episode.sample.excerpt,
                "observation": f"{observation}\n{countdown(episode.actions_left)}",
            }
            last = episode.actions_left <= 1
            reply = self._turn(episode, turns, inputs, last)
            if reply.action == "select" and (last or bare(reply.argument) in episode.seen):
                try:
                    episode.select(bare(reply.argument))
                except UnknownId as error:
                    raise Stop("unknown_id", str(error)) from None
                assert episode.selection is not None
                return dspy.Prediction(title=episode.selection.title)
            observation = act(episode, reply.action, reply.argument)
            answer = {"reason": reply.reason, "action": reply.action, "argument": reply.argument}
            turns.append({**inputs, **answer})

    def _turn(
        self, episode: Episode, turns: list[dict[str, str]], inputs: dict[str, str], last: bool
    ) -> Any:
        given = {"history": dspy.History(messages=turns), **inputs}
        if not last:
            return self._ask(self.step, episode, given)
        reply = self._ask(self.last, episode, given)
        if bare(reply.argument) not in episode.seen and self._may_repair(episode):
            problem = f"no search returned a paper with the id {bare(reply.argument)!r}"
            reply = self._ask(
                self.last, episode, self._corrected(self.last, episode, problem, given)
            )
        return reply

    def _ask(self, predict: Any, episode: Episode, inputs: dict[str, Any]) -> Any:
        """The parsed reply, repaired if necessary; raises `Stop` if it cannot be parsed."""
        while True:
            try:
                return predict(**inputs)
            except ParseError as error:
                if not self._may_repair(episode):
                    raise self._unusable(predict, episode, error) from None
                inputs = self._corrected(predict, episode, unreadable(error), inputs)

    def _may_repair(self, episode: Episode) -> bool:
        sent_back = [e for e in episode.events if isinstance(e, Repair) and e.step > episode.steps]
        return len(sent_back) < self.repairs

    def _corrected(
        self, predict: Any, episode: Episode, problem: str, inputs: dict[str, Any]
    ) -> dict[str, Any]:
        """The inputs, with a note on what was wrong with the last reply."""
        episode.note("repair", problem=problem)
        where = "observation" if "observation" in inputs else "excerpt"
        fields = ", ".join(predict.signature.output_fields)
        said = (
            f"\n(Your reply to this was not usable: {quote(problem, 400)} "
            f"Reply again, with the fields {fields}, each in the asked form.)"
        )
        return {**inputs, where: inputs[where] + said}

    def _unusable(self, predict: Any, episode: Episode, error: Exception) -> Stop:
        text = str(getattr(error, "lm_response", ""))
        another_action = self.commands != "none" and predict is self.last
        if another_action and parses(self.step.signature, text):
            return Stop("action_limit", f"no selection within {episode.max_actions} actions")
        return Stop("bad_format", explained(unreadable(error), episode))


def prompt_hash(program: CiteAgent) -> str:
    """The sha256 of the parts of the prompt that are the same for all samples."""
    fixed: list[Any] = [
        (name, p.signature.instructions, json.loads(json.dumps(p.dump_state(), default=str)))
        for name, p in program.named_predictors()
    ]
    if program.demonstration and program.commands != "none":
        fixed += trajectory(program.commands)
    return fingerprint(fixed)


def load_program(program: CiteAgent, path: Path) -> str:
    """Load a compiled state, and return the file's sha256; raises `HoldfastError` if it does not fit."""
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
        if state.pop("commands") != program.commands:
            raise KeyError("commands")
        program.load_state(state)
    except Exception as error:  # DSPy raises various errors
        raise HoldfastError(
            f"Cannot use {path} as a program for the commands {program.commands!r} ({reason(error)}). Pass "
            "one that `holdfast cite optimize` wrote with the same --commands."
        ) from None
    return hashlib.sha256(path.read_bytes()).hexdigest()


def unreadable(error: Exception) -> str:
    """The note for a model whose reply could not be parsed."""
    reply = str(getattr(error, "lm_response", "") or "").strip()
    return f"its fields could not be read from: {reply[:300] or '(an empty reply)'}"


class LMAgent:
    """A program with its language model; each episode uses a copy of the model.

    Args:
        program: the agent's program.
        lm: the language model.
        program_hash: the sha256 of a compiled program.
        form: the form of the model's replies.
        structured: have the server enforce a JSON schema (form "json").
    """

    def __init__(
        self,
        program: CiteAgent,
        lm: MeteredLM,
        program_hash: str | None = None,
        *,
        form: Form = "dspy",
        structured: bool = False,
    ) -> None:
        self.program, self.lm, self.program_hash = program, lm, program_hash
        self.form: Form = form
        self.structured = structured

    def __call__(self, episode: Episode) -> None:
        with active(self.lm.for_episode(episode), self.form, self.structured):
            self.program(episode=episode)

    def describe(self) -> dict[str, Any]:
        repairs = self.program.repairs
        return {
            "name": "citeagent",
            **self.lm.describe(),
            "commands": self.program.commands,
            "demonstration": self.program.demonstration,
            "prompt": prompt_hash(self.program),
            "program": self.program_hash,
            "dspy": dspy.__version__,
            # Only if not the default, so that runs of older versions can be resumed.
            **({"repairs": repairs} if repairs != REPAIRS else {}),
            **({"format": self.form} if self.form != "dspy" else {}),
            **({"structured": True} if self.structured else {}),
        }
