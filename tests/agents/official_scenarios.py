"""Conversations with scripted replies and hits, in which requests are compared with the authors' program.

`tests/golden/citeme/official_requests.json` has the hashes of its requests for the same conversations.
"""

import hashlib
import json
import re
from dataclasses import dataclass, field
from typing import Any

from pdfs import PDF, pdf
from servers import Reply, completion, serve

SOURCE = "Deep Widgets: A Study of Widgets"


def say(action, argument, reason="because"):
    key = "query" if action.startswith("search") else "paper_id"
    return json.dumps({"reason": reason, "action": {"name": action, key: argument}})


@dataclass
class Scenario:
    """A conversation: replies in order, the hits of each search in order, and the setting."""

    replies: list[str]
    searches: list[list[dict[str, Any]]] = field(default_factory=list)
    commands: str = "search+read"
    demonstration: bool = False
    titles: str = "Widget Networks"
    source: str = SOURCE
    year: str = "2023"
    model: str = "gpt-4o"


def paper(name, title, **more):
    """A hit with all fields that the authors' program requires."""
    facts = {
        "paperId": name,
        "title": title,
        "authors": [{"authorId": "1", "name": "A. Author"}],
        "abstract": f"We study {title.lower()}.",
        "venue": "Venue",
        "year": 2019,
        "citationCount": 7,
        "openAccessPdf": None,
    }
    return facts | more


def linked(name, title, file):
    """A hit whose text is `file` of `FILES`; the server's address replaces HOST."""
    return paper(name, title, openAccessPdf={"url": f"HOST/{file}", "status": "GREEN"})


FILES = {
    "two.pdf": pdf("first page of widgets", "second page"),
    "one.pdf": pdf("only page"),
    "scan.pdf": pdf(""),
    "torn.pdf": pdf("x")[:200],
    "page.html": b"<html>no</html>",
}
TARGET = paper("w1", "Widget networks")
OTHER = paper("w2", "Gadget networks", citationCount=900)
BOTH = [TARGET, OTHER]
FIND = say("search_relevance", "widget networks")
COUNT = say("search_citation_count", "widgets")
TAKE = say("select", "w1")
MANY = [paper(f"m{k}", f"Paper number {k}", citationCount=k % 7) for k in range(24)]
MISSING = paper("w3", "A paper without facts", abstract=None, year=None)
NONE = {"commands": "none"}
SEARCH = {"commands": "search"}

SCENARIOS = {
    "title": Scenario(["Widget Networks"], **NONE),
    "title after based on": Scenario(["Based on the excerpt: Widget Networks"], **NONE),
    "title after guess": Scenario(
        ["My best guess is: Widget: Networks"], demonstration=True, **NONE
    ),
    "title after most likely": Scenario(["It is most likely: Widget Networks "], **NONE),
    "guess without a colon": Scenario(["I guess Widget Networks"], **NONE),
    "title with a colon": Scenario(["Widgets: Widget Networks"], **NONE),
    "search": Scenario([FIND, TAKE], [BOTH], **SEARCH),
    "search, demonstration": Scenario([COUNT, TAKE], [BOTH], demonstration=True, **SEARCH),
    "read": Scenario(
        [FIND, say("read", "w4"), TAKE], [[*BOTH, linked("w4", "Widgets in depth", "two.pdf")]]
    ),
    "read, demonstration": Scenario(
        [FIND, say("read", "w4"), say("select", "w4")],
        [[linked("w4", "Widget Networks", "one.pdf")]],
        demonstration=True,
    ),
    "read of an earlier search": Scenario(
        [FIND, COUNT, say("read", "w1"), TAKE], [BOTH, [MISSING, OTHER]]
    ),
    "unknown id, one search": Scenario([FIND, say("select", "no such"), TAKE], [BOTH]),
    "unknown id, two searches": Scenario(
        [FIND, COUNT, say("select", "x" * 1200), TAKE], [BOTH, [MISSING, OTHER]]
    ),
    "read before a search": Scenario([say("read", "w1"), FIND, TAKE], [BOTH]),
    "select before a search": Scenario([TAKE, FIND, TAKE], [BOTH], demonstration=True),
    "no hits": Scenario([FIND, say("read", "w1"), COUNT, TAKE], [[], BOTH]),
    "the source among the hits": Scenario(
        [FIND, TAKE], [[paper("s1", "Deep widgets - a study of widgets"), *BOTH]]
    ),
    "the source twice": Scenario(
        [FIND, TAKE], [[OTHER, paper("s1", SOURCE), paper("s2", SOURCE.lower()), TARGET]]
    ),
    "nothing but the source": Scenario([FIND, COUNT, TAKE], [[paper("s1", SOURCE)], BOTH]),
    "missing facts": Scenario([FIND, TAKE], [[MISSING, TARGET]]),
    "no PDF": Scenario([FIND, say("read", "w1"), TAKE], [BOTH]),
    "PDF without text": Scenario(
        [FIND, say("read", "w4"), TAKE], [[linked("w4", "Scanned", "scan.pdf"), TARGET]]
    ),
    "torn PDF": Scenario(
        [FIND, say("read", "w4"), TAKE], [[linked("w4", "Torn", "torn.pdf"), TARGET]]
    ),
    "no PDF but a page": Scenario(
        [FIND, say("read", "w4"), TAKE], [[linked("w4", "Page", "page.html"), TARGET]]
    ),
    "a PDF without address": Scenario(
        [FIND, say("read", "w4"), TAKE],
        [[paper("w4", "Empty", openAccessPdf={"url": "", "status": "CLOSED"}), TARGET]],
    ),
    "selected with the last action": Scenario([FIND, *[COUNT] * 13, TAKE], [BOTH] * 14),
    "never selected": Scenario([FIND, *[COUNT] * 14], [BOTH] * 15),
    "unknown id with the last action": Scenario(
        [FIND, *[say("read", "w1")] * 13, say("select", "w9")], [BOTH]
    ),
    "prose": Scenario([FIND, "I do not know.", TAKE], [BOTH]),
    "words before and after": Scenario([f"Let me see. {FIND} Good.", f"{TAKE}\nDone."], [BOTH]),
    "a fence": Scenario([f"Well.\n```json\n{FIND}\n```\nI chose this.", TAKE], [BOTH]),
    "missing braces": Scenario([FIND[:-1], TAKE[:-2]], [BOTH]),
    "a cut query": Scenario([FIND[:-8], TAKE], [BOTH]),
    "braces after the object": Scenario([f"{FIND} (see {{x}})", TAKE], [BOTH]),
    "two objects": Scenario([f"{FIND}\n{TAKE}", TAKE], [BOTH]),
    "a missing comma": Scenario([FIND.replace(', "query"', ' "query"'), TAKE], [BOTH]),
    "an unknown action": Scenario([FIND.replace("search_relevance", "search"), TAKE], [BOTH]),
    "read where there is none": Scenario([FIND, say("read", "w1"), TAKE], [BOTH], **SEARCH),
    "numbers": Scenario(
        [say("search_relevance", 7, reason=5), say("select", 12)],
        [[paper("12", "Widget Networks")]],
    ),
    "an empty query": Scenario([say("search_relevance", ""), FIND, TAKE], [BOTH]),
    "a long query": Scenario([say("search_relevance", "state-of-the-art " * 90), TAKE], [BOTH]),
    "the most cited": Scenario([COUNT, say("select", "m6")], [MANY]),
    "no year": Scenario([FIND, TAKE], [BOTH], year=""),
    "several titles": Scenario(
        [FIND, say("select", "w2")], [BOTH], titles="Widget Networks[TITLE_SEPARATOR]Gadget Nets"
    ),
    "odd characters": Scenario(
        [say("search_relevance", "naïve 🙂 \\alpha"), TAKE],
        [[paper("w1", "Wídget $\\beta$ 🙂 {x}", abstract="Line\nbreak and {braces} "), OTHER]],
    ),
    "o1": Scenario([FIND, TAKE], [BOTH], model="o1-mini"),
    "o1 from memory": Scenario(["Widget Networks"], model="o1-preview", **NONE),
}


def excerpt(name):
    """A scenario's excerpt, by which the servers recognise it."""
    return f"As scenario <{name}> shows, widgets {{x}} hold [CITATION]."


class Services:
    """A language model's and Semantic Scholar's servers, which play one scenario at a time."""

    def __init__(self):
        self.sent = {}  # scenario: the messages of each request
        self.address = ""
        self._searches = 0

    def start(self, name):
        self.sent[name], self._searches = [], 0
        self.scenario = SCENARIOS[name]
        self.name = name

    def serve(self):
        return serve(self._respond)

    def _respond(self, method, path, query, body, headers):
        if body is not None:
            said = [m["content"] for m in body["messages"] if m["role"] == "user"]
            (name,) = re.findall(r"scenario <([^>]*)>", "\n".join(said))[:1]
            assert name == self.name
            self.sent[name].append(body["messages"])
            return completion(self.scenario.replies[len(self.sent[name]) - 1])
        if path.endswith("/paper/search"):
            if not query.get("query"):
                return Reply({"error": "Missing query"}, 400)
            hits = self.scenario.searches[self._searches]
            self._searches += 1
            first, limit = int(query.get("offset", 0)), int(query["limit"])
            page = json.dumps(hits[first : first + limit]).replace("HOST", self.address)
            return Reply({"total": len(hits), "offset": first, "data": json.loads(page)})
        name = path.rpartition("/")[2]
        if name in FILES:
            return Reply(FILES[name], headers=PDF)
        return Reply({"data": []})


def digest(messages):
    """The beginning of the sha256 of a request's messages."""
    text = json.dumps([[m["role"], m["content"]] for m in messages], ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def named(messages, texts):
    """The messages with the name of each text of a prompt in its place, whatever the prompt says."""
    return [{"role": m["role"], "content": _named(m["content"], texts)} for m in messages]


def _named(content, texts):
    before, between, after = texts.get("unknown", ("no such text", " ", ""))
    if content.startswith(before) and content.endswith(after) and between in content:
        given, _, known = content[len(before) : len(content) - len(after)].partition(between)
        return f"<unknown>{given}|{known}"
    for name, text in texts.items():
        if name != "unknown" and content.startswith(text):
            return f"<{name}>{content[len(text) :]}"
    return content
