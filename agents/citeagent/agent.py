"""CiteAgent's program with a language model, as an agent."""

from typing import Any

import dspy

from ..episode import Episode
from ..lm.adapter import Form, active
from ..lm.metered import MeteredLM
from .program import REPAIRS, CiteAgent, prompt_hash


class LMAgent:
    """A program with its language model; each episode uses a copy of the model.

    Args:
        program, lm: the two.
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
