"""CiteAgent's program and the model that runs it, as an agent."""

from typing import Any

import dspy

from ..episode import Episode
from ..lm.adapter import Form, active
from ..lm.metered import MeteredLM
from .program import REPAIRS, CiteAgent, prompt_hash


class LMAgent:
    """A program and the model that runs it, as an agent; one copy of the model per episode.

    `form` is that of the model's replies; `structured` (of json) asks its server to hold them to it.
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
            # The rest only where it is not as it was before there was a choice.
            **({"repairs": repairs} if repairs != REPAIRS else {}),
            **({"format": self.form} if self.form != "dspy" else {}),
            **({"structured": True} if self.structured else {}),
        }
