"""`holdfast cite tags`: tag every cited paper with three topics from a language model; resumable.

CiteME, figure 2, appendix D.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ... import HoldfastError
from ...files import reason, written
from ...redaction import redacted
from ..commands.build import cassette_of, language_model
from ..commands.options import CiteParser, chosen_dataset
from ..episode import Stop
from ..protocol import ProviderError
from ..results import encodable, whole_lines
from ..schema import Shape, checked

if TYPE_CHECKING:
    from ..lm.metered import MeteredLM

# Holdfast's prompt; the paper does not print its own.
ASK = (
    "Name three general topics that describe the paper with the title below, from the broadest to the "
    "narrowest, separated by commas, and nothing else.\n\n"
)
TOO_BROAD = ("machine learning", "deep learning", "deep networks", "artificial intelligence")


class TagLine(Shape):
    """A line that `holdfast cite tags` writes."""

    title: str
    tags: list[str]


def tags_of(lm: "MeteredLM", title: str) -> list[str]:
    """At most three tags for a paper; fewer if the reply has fewer."""
    reply = lm(messages=[{"role": "user", "content": ASK + title}])[0]
    words = re.split(r"[,;\n]", re.sub(r"^\s*tags?\s*:", "", reply, flags=re.IGNORECASE))
    tags = [re.sub(r"^\s*(?:\d+[.)]|[-*•])\s*", "", word).strip(" .*\"'") for word in words]
    return [tag for tag in tags if tag][:3]


def most_frequent(tags: Iterable[list[str]], n: int = 10) -> list[tuple[str, int]]:
    """The `n` most frequent tags with their number of papers, without those in `TOO_BROAD`."""
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


def main(argv: list[str]) -> None:
    """Request tags for papers that are missing in --out, and print the most frequent tags."""
    args = parser().parse_args(argv)
    dataset = chosen_dataset(args)
    tags = known(args.out)
    from ..lm.adapter import active

    titles = list(dict.fromkeys(sample.titles[0] for sample in dataset.samples))
    lm = language_model(args, cassette_of(args))
    with written(args.out, "or pass --out another file."):
        args.out.parent.mkdir(parents=True, exist_ok=True)
        with args.out.open("a", encoding="utf-8") as file, active(lm):
            for title in (title for title in titles if title not in tags):
                try:
                    tags[title] = redacted(tags_of(lm, title))
                except (ProviderError, Stop) as error:
                    raise HoldfastError(
                        f"No tags for {title!r} ({error}). Fix the cause and rerun the same command to "
                        "continue."
                    ) from None
                line = json.dumps({"title": title, "tags": tags[title]}, ensure_ascii=False)
                file.write(line + "\n")
                file.flush()
    print(f"{len(titles)} papers; wrote {args.out}")
    for tag, count in most_frequent(tags[title] for title in titles):
        print(f"{count:4d}  {tag}")


def known(path: Path) -> dict[str, list[str]]:
    """The tags in a file, by title; an incomplete last line of an interrupted run is dropped."""
    if not path.exists():
        return {}
    try:
        whole, _ = whole_lines(path)
        os.truncate(path, len(whole))
        lines = whole.decode("utf-8").splitlines()
        entries = [checked(encodable(json.loads(line)), TagLine) for line in lines]
    except (OSError, ValueError, RecursionError) as error:
        raise HoldfastError(
            f"{path} is not a file of tags ({reason(error)}). Pass --out another file."
        ) from None
    return {entry.title: entry.tags for entry in entries}


def parser() -> CiteParser:
    parser = CiteParser("tags", __doc__, "--model openai/gpt-4o --out tags.csv")
    parser.data(split="all")
    parser.out("tags (.jsonl)")
    parser.model()
    parser.recording()
    return parser
