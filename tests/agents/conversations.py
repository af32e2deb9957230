"""An agent at work on a sample of mini-cite, with a model whose replies are given."""

from holdfast.agents.data import MINI_CITE_CORPUS, load
from holdfast.agents.episode import Episode
from holdfast.agents.lm.providers import ScriptedLM
from holdfast.agents.run import attempt
from holdfast.agents.search.local import LocalSearch

MINI = load("mini-cite")
SAMPLE = {s.id: s for s in MINI.samples}["mini-04"]  # target: eata-2022
SEARCH = LocalSearch(MINI_CITE_CORPUS)


def in_order(replies):
    """A model that gives these replies one after another, and the list of the prompts it is sent."""
    sent, left = [], iter(replies)

    def reply(messages):
        sent.append([dict(message) for message in messages])
        return next(left)

    return ScriptedLM(reply), sent


def converse(make, replies, sample=SAMPLE, **budget):
    """Run the agent `make(model)` on replies in order; return its record and the prompts it sent."""
    lm, sent = in_order(replies)
    return attempt(make(lm), Episode(sample, SEARCH, **budget)), sent
