"""CiteAgent's program and the model that runs it, as an agent."""

from typing import Any

import dspy

from ..episode import Episode
from ..lm.adapter import active
from ..lm.metered import MeteredLM
from .program import REPAIRS, CiteAgent, prompt_hash


class LMAgent:
    """A program and the model that runs it, as an agent; one copy of the model per episode."""

    def __init__(self, program: CiteAgent, lm: MeteredLM, program_hash: str | None = None) -> None:
        self.program, self.lm, self.program_hash = program, lm, program_hash

    def __call__(self, episode: Episode) -> None:
        with active(self.lm.for_episode(episode)):
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
            **({"repairs": repairs} if repairs != REPAIRS else {}),  # as before there was a choice
        }
