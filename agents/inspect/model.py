"""`--model holdfast/first-hit`: a model of Inspect without network, to try the task."""

import re
from typing import Any

from inspect_ai.model import (
    ChatMessage,
    GenerateConfig,
    ModelAPI,
    ModelOutput,
    ModelUsage,
    modelapi,
)
from inspect_ai.tool import ToolChoice, ToolInfo

HIT = re.compile(r"^id: (\S+)$", re.MULTILINE)  # how a search shows a paper's id


@modelapi(name="holdfast")
class FirstHit(ModelAPI):
    """Searches for the excerpt and selects the first hit; without tools it gives no guess."""

    async def generate(
        self,
        input: list[ChatMessage],
        tools: list[ToolInfo],
        tool_choice: ToolChoice,
        config: GenerateConfig,
    ) -> ModelOutput:
        output = self._reply(input, bool(tools))
        # Inspect would download a tokenizer to count tokens.
        words = sum(len(message.text.split()) for message in input)
        output.usage = ModelUsage(input_tokens=words, output_tokens=1, total_tokens=words + 1)
        return output

    def _reply(self, messages: list[ChatMessage], may_search: bool) -> ModelOutput:
        if not may_search:
            return ModelOutput.from_content(self.model_name, "(no guess)")
        hits = [hit for m in messages if m.role == "tool" for hit in HIT.findall(m.text)]
        if hits:
            return self._call("select", paper_id=hits[0])
        excerpt = next(m.text for m in messages if m.role == "user")
        return self._call("search_relevance", query=excerpt.replace("[CITATION]", " "))

    def _call(self, name: str, **arguments: Any) -> ModelOutput:
        return ModelOutput.for_tool_call(self.model_name, name, arguments)
