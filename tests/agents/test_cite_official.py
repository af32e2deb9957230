"""CiteME's form beside the authors' program, run whole: its parser, its requests, its verdicts.

Set HOLDFAST_CITEME_CLONE to a clone of https://github.com/bethgelab/CiteME to compare requests to the
character; otherwise a folder of the same structure with other texts stands in for it.
"""

import json
import os
from pathlib import Path

import pytest
from common import GOLDEN
from official_scenarios import SCENARIOS, Services, digest, excerpt, named

from holdfast import HoldfastError
from holdfast.agents.authors_prompt import authors_texts
from holdfast.agents.citeme import CiteMEAgent
from holdfast.agents.citeme_prompts import COMMANDS
from holdfast.agents.data import Sample
from holdfast.agents.episode import Budget, Episode
from holdfast.agents.lenient_json import action_in
from holdfast.agents.lm import language_model
from holdfast.agents.run import attempt
from holdfast.agents.score import judge
from holdfast.agents.search.semantic_scholar import SemanticScholar

PARSED = json.loads((GOLDEN / "citeme" / "parser.json").read_text())
OFFICIAL = json.loads((GOLDEN / "citeme" / "official_requests.json").read_text())
CLONE = os.environ.get("HOLDFAST_CITEME_CLONE")
MODELS = """
class Find(BaseModel):
    name: Literal["search_relevance"] = Field(description="find it")
    query: str = Field(description="words")

class Take(BaseModel):
    name: Literal["select"] = Field(description="take it")
    paper_id: str = Field(description="which")

class Output(BaseModel):
    reason: str = Field(description="why")
    action: (Find | Take)

class OutputSearchOnly(BaseModel):
    reason: str = Field(description="why")
    action: Take | Find
"""
AGENT = """
class LLMSelfAskAgentPydantic(BaseAgent):
    prompts = {"zero_shot_search": ["src/retriever/prompt_templates/zero_shot_search.txt", 0]}
    human_intros = ["Here is an excerpt of ours. Go.", "Here is an excerpt of ours. Go, and read."]

    def __find_paper_by_id(self, paper_id):
        raise Error(f"There is no {paper_id} among these: {[p.paperId for p in buffer]}. Stop it.")

    def __process_search(self, papers):
        papers_str = f"- Paper ID: {paper.paperId}"
        if not papers:
            papers_str = "The search has come back with nothing. Really."

    def _read(self, paper_id):
        if paper.openAccessPdf is None:
            return HumanMessage(content="Nobody has put this paper online. Sorry.")
        except Exception:
            return HumanMessage(content="Something is wrong with this file. Sorry.")

    def _ask_llm(self, message, last_action=False):
        HumanMessage(content="Beware, nothing comes after this. Select.")

class LLMNoSearch(BaseAgent):
    def __call__(self, excerpt):
        message = HumanMessage(content="Here is an excerpt of ours. Name it.\\n\\n" + f"{excerpt}")
""".replace(
    "        except Exception:\n            return", "        if not text:\n            return"
)


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory):
    """A folder with the structure of the authors' repository and other texts."""
    root = tmp_path_factory.mktemp("clone")
    templates = root / "src/retriever/prompt_templates"
    for folder in (templates, root / "src/utils"):
        folder.mkdir(parents=True)
    for name in ("zero_shot_search", "few_shot_search", "few_shot_search_no_read"):
        (templates / f"{name}.txt").write_text(f"By {name}.\n\n<FORMAT_INSTRUCTIONS>")
    for name in ("zero_shot_no_search", "few_shot_no_search"):
        (templates / f"{name}.txt").write_text(f"By {name}, without tools.")
    (root / "src/retriever/agent.py").write_text(AGENT)
    (root / "src/utils/data_model.py").write_text(MODELS)
    return root


def conversation(name, clone):
    """The agent's requests in a scenario, its record, and the record's verdict."""
    scenario, services = SCENARIOS[name], Services()
    titles = tuple(scenario.titles.split("[TITLE_SEPARATOR]"))
    dated = (scenario.source, "", scenario.year or None, "test")
    sample = Sample(name, excerpt(name), titles, "", *dated)
    services.start(name)
    with services.serve() as services.address:
        lm = language_model(
            f"openai/{scenario.model}",
            api_base=f"{services.address}/v1",
            temperature=1.0 if scenario.model.startswith("o1") else 0.95,
            max_tokens=None,
        )
        search = SemanticScholar(
            f"{services.address}/graph/v1", per_second=None, tries=1, as_published=True
        )
        agent = CiteMEAgent(lm, scenario.commands, scenario.demonstration, clone)
        record = attempt(agent, Episode(sample, search, Budget(read_chars=None)))
    return services.sent[name], record, judge(record, sample)


def test_replies_are_parsed_as_by_the_official_parser():
    arguments = {name: [key] for name, (key, _) in COMMANDS.items()}
    for entry in PARSED:
        try:
            name, (argument,) = action_in(entry["reply"], arguments)
            parsed = [name, argument]
        except ValueError:
            parsed = "ERR"
        assert parsed == entry["official"], entry["reply"]
    assert len(PARSED) > 300


def test_endless_or_nested_replies_are_refused_at_once():
    for reply in (
        "{" * 50_000 + '"' * 7,
        '{"a": "' + "x" * 90_000,
        "{" + "[" * 90_000,
        "{}{" * 999,
    ):
        with pytest.raises(ValueError, match="it "):
            action_in(reply, {"select": ["paper_id"]})


@pytest.mark.parametrize("name", SCENARIOS)
def test_requests_are_those_of_the_official_program(name, stand_in):
    pytest.importorskip("langchain_core")
    scenario, official = SCENARIOS[name], OFFICIAL[name]
    setting = scenario.commands, scenario.demonstration
    sent, record, row = conversation(name, Path(CLONE) if CLONE else stand_in)
    if CLONE:
        assert [digest(messages) for messages in sent] == official["requests"]
    texts = authors_texts(Path(CLONE) if CLONE else stand_in, *setting)
    assert [digest(named(messages, texts)) for messages in sent] == official["named"]
    assert row["official"] == official["correct"]
    assert record.answered == official["ended"]
    assert (record.selection.id if record.selection else None) == official["selected"]


def test_a_changed_clone_is_told_apart_and_others_are_refused(stand_in, tmp_path):
    pytest.importorskip("langchain_core")
    lm = language_model("openai/gpt-4o")
    changed = CiteMEAgent(lm, "search", clone=stand_in)
    assert changed.describe()["prompts"] == "changed"
    assert '"anyOf": [{"$ref": "#/definitions/Take"}' in changed.prompt.system
    if CLONE:
        assert CiteMEAgent(lm, "search", clone=Path(CLONE)).describe()["prompts"] == "authors"
    for broken in ("src/utils/data_model.py", "src/retriever/agent.py"):
        for content in ("x = (", "x = 1"):
            (tmp_path / broken).parent.mkdir(parents=True, exist_ok=True)
            for path in stand_in.rglob("*.*"):
                copy = tmp_path / path.relative_to(stand_in)
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(path.read_bytes())
            (tmp_path / broken).write_text(content)
            with pytest.raises(HoldfastError, match="a clone of"):
                CiteMEAgent(lm, clone=tmp_path)
    with pytest.raises(HoldfastError, match="a clone of"):
        CiteMEAgent(lm, clone=tmp_path / "nowhere")
