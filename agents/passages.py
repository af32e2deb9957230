"""Parts of a paper's text: chosen sections, passages with given words, the context of an excerpt.

CiteGuard (arXiv:2510.17853) gives its agent the last two, as `find_in_text` and `ask_for_more_context`;
how passages are selected is Holdfast's.
"""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

from .data import MARKER
from .search.provider import Section

AROUND = 300  # characters on each side of the words that were found
CONTEXT = 800  # characters on each side of an excerpt
MOST = 5  # maximum number of passages shown
PIECE = 1200  # maximum characters of a passage in a search of texts
LEAST = 30  # minimum characters of an excerpt that must occur in its paper
REFERENCES = re.compile(r"(?:^|\n)\s*(?:\d+\.?\s*)?references\b", re.IGNORECASE)


def passages(text: str, words: str) -> list[str]:
    """At most five passages that contain the phrase, or otherwise most of its words."""
    text = " ".join(text.split())
    wanted = words.lower().split()
    places = [m.start() for m in re.finditer(r"\s+".join(map(re.escape, wanted)), text.lower())]
    if not places and len(wanted) > 1:
        places = densest(text.lower(), wanted)
    found: list[str] = []
    end = -1
    for place in places if wanted else []:
        if place >= end:
            end = place + len(words) + AROUND
            found.append(text[max(0, place - AROUND) : end])
    return found[:MOST]


def pieces(text: str, most: int = PIECE) -> list[str]:
    """Split a text into passages of complete sentences, of up to `most` characters if possible."""
    found: list[str] = []
    for sentence in re.split(r"(?<=[.!?])\s+", text.strip()):
        if found and len(found[-1]) + len(sentence) < most:
            found[-1] += f" {sentence}"
        elif sentence:
            found.append(sentence)
    return found


def densest(text: str, wanted: Sequence[str]) -> list[int]:
    """The positions with the most words nearby, if these are more than half of the words."""
    step = AROUND
    held = [
        (sum(word in text[start : start + 2 * step] for word in wanted), start)
        for start in range(0, max(len(text) - step, 1), step)
    ]
    most = max(count for count, _ in held)
    if 2 * most <= len(wanted):
        return []
    return [start + step for count, start in held if count == most]


def surroundings(sections: Sequence[Section], excerpt: str, titles: Sequence[str]) -> str:
    """The text around an excerpt in its paper; "" if it is not found.

    References are removed, and the target's titles are replaced by the marker.
    """
    body = [s.text for s in sections if not REFERENCES.match(s.heading)]
    text = " ".join(REFERENCES.split("\n".join(body))[0].split())
    best = max(
        (
            SequenceMatcher(None, text, part, autojunk=False).find_longest_match()
            for part in map(str.strip, " ".join(excerpt.split()).split(MARKER))
        ),
        key=lambda match: match.size,
    )
    if best.size < LEAST:
        return ""
    around = text[max(0, best.a - CONTEXT) : best.a + best.size + CONTEXT]
    for title in titles:
        letters = re.findall(r"\w+", title)
        around = re.sub(r"\W+".join(letters), MARKER, around, flags=re.IGNORECASE)
    return around


def excerpt(sections: list[Section], part: str, budget: int | None) -> str:
    """The chosen sections with at most `budget` characters (None: all), and a list of omitted ones."""
    first, chosen = choose(sections, part)
    shown: list[str] = []
    used = 0
    for number, section in enumerate(chosen, start=first):
        text = f"## {number}. {section.heading}\n{section.text}"
        if budget is not None and used + len(text) > budget:
            room = max(budget - used, 0)
            shown.append(text[:room])
            rest = "; ".join(
                f"{n}. {s.heading}" for n, s in enumerate(chosen[number - first :], start=number)
            )
            shown.append(
                f"(Cut after {budget:,} characters, within section {number} of {len(sections)}. "
                f"Not or not wholly shown: {rest[:600]}.)"
            )
            return "\n".join(shown)
        shown.append(text)
        used += len(text)
    if len(chosen) < len(sections):
        shown.append(f"(Sections {first} to {first + len(chosen) - 1} of {len(sections)}.)")
    return "\n".join(shown)


def choose(sections: list[Section], part: str) -> tuple[int, list[Section]]:
    """The number of the first section, from 1, and the sections that `part` selects."""
    found = re.fullmatch(r"\D*(\d+)(?:\s*(?:-|–|to)\s*(\d+))?", part.strip())
    if found:
        low = int(found[1])
        chosen = sections[low - 1 : int(found[2] or low)] if low else []
        if chosen:
            return low, chosen
    elif part.strip():
        for number, section in enumerate(sections, start=1):
            if part.strip().lower() in section.heading.lower():
                return number, [section]
    return 1, sections
