"""An agent with a language model on one sample, whose replies are given."""

from servers import chat, model_at

from holdfast.agents.data import MINI_CITE_CORPUS, load
from holdfast.agents.episode import Budget, Episode
from holdfast.agents.run import attempt
from holdfast.agents.search.local import LocalSearch

MINI = load("mini-cite")
SAMPLE = {s.id: s for s in MINI.samples}["mini-04"]  # target: eata-2022
SEARCH = LocalSearch(MINI_CITE_CORPUS)


def converse(make, replies, sample=SAMPLE, search=SEARCH, **budget):
    """Run the agent `make(lm)` on replies in order; return its record and the prompts it sent."""
    sent, left = [], iter(replies)

    def reply(messages):
        sent.append(messages)
        return next(left)

    with chat(reply) as base:
        record = attempt(make(model_at(base)), Episode(sample, search, Budget(**budget)))
    return record, sent
