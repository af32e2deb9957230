"""Three general tags for every cited paper, by a language model (CiteME, figure 2, appendix D)."""

import re
from collections import Counter
from collections.abc import Iterable

from ..lm.metered import MeteredLM

# Our words; the paper does not print its own.
ASK = (
    "Name three general topics that describe the paper with the title below, from the broadest to the "
    "narrowest, separated by commas, and nothing else.\n\n"
)
TOO_BROAD = ("machine learning", "deep learning", "deep networks", "artificial intelligence")


def tags_of(lm: MeteredLM, title: str) -> list[str]:
    """At most three tags for a paper; fewer where the reply holds no more."""
    reply = lm(messages=[{"role": "user", "content": ASK + title}])[0]
    words = re.split(r"[,;\n]", re.sub(r"^\s*tags?\s*:", "", reply, flags=re.IGNORECASE))
    tags = [re.sub(r"^\s*(?:\d+[.)]|[-*•])\s*", "", word).strip(" .*\"'") for word in words]
    return [tag for tag in tags if tag][:3]


def most_frequent(tags: Iterable[list[str]], n: int = 10) -> list[tuple[str, int]]:
    """The `n` most frequent tags and their numbers of papers, without the too broad ones."""
    names: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for several in tags:
        for tag in dict.fromkeys(several):
            key = tag.lower()
            if key not in TOO_BROAD:
                names.setdefault(key, tag)
                counts[key] += 1
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [(names[key], count) for key, count in ordered[:n]]
