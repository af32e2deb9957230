"""`holdfast cite tags`: three tags for every cited paper, by a language model; the same command resumes."""

import argparse
import json
import os
from pathlib import Path

from ... import HoldfastError
from ...files import reason, written
from ...redaction import redacted
from ..episode import Stop
from ..protocol import ProviderError
from ..results import encodable
from ..schema import TagLine, checked
from .build import cassette_of, language_model
from .options import chosen_dataset, data_options, model_options, recording_options


def main(argv: list[str]) -> None:
    """Ask for the tags that --out does not hold yet, and print the most frequent ones."""
    args = parser().parse_args(argv)
    dataset = chosen_dataset(args)
    tags = known(args.out)
    from ..curation.tags import most_frequent, tags_of
    from ..lm.adapter import active

    titles = list(dict.fromkeys(sample.titles[0] for sample in dataset.samples))
    lm = language_model(args, cassette_of(args))
    with written(args.out, "or give --out another file."):
        args.out.parent.mkdir(parents=True, exist_ok=True)
        with args.out.open("a", encoding="utf-8") as file, active(lm):
            for title in titles:
                if title in tags:
                    continue
                try:
                    tags[title] = redacted(tags_of(lm, title))
                except (ProviderError, Stop) as error:
                    raise HoldfastError(
                        f"no tags for {title!r} ({error}): mend that, and the same command goes on "
                        "from there."
                    ) from None
                line = json.dumps({"title": title, "tags": tags[title]}, ensure_ascii=False)
                file.write(line + "\n")
                file.flush()
    print(f"{len(titles)} papers; wrote {args.out}")
    for tag, count in most_frequent(tags[title] for title in titles):
        print(f"{count:4d}  {tag}")


def known(path: Path) -> dict[str, list[str]]:
    """The tags that a file holds; a last line that a kill has torn is dropped."""
    if not path.exists():
        return {}
    try:
        raw = path.read_bytes()
        whole = raw[: raw.rfind(b"\n") + 1]
        os.truncate(path, len(whole))
        lines = whole.decode("utf-8").splitlines()
        entries = [checked(encodable(json.loads(line)), TagLine) for line in lines]
        tags = {entry["title"]: entry["tags"] for entry in entries}
    except (OSError, ValueError, RecursionError) as error:
        raise HoldfastError(
            f"{path} does not hold tags ({reason(error)}): give --out another file."
        ) from None
    return tags


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = argparse.ArgumentParser(
        prog="holdfast cite tags",
        description=__doc__,
        epilog="example: holdfast cite tags --model openai/gpt-4o --out tags.csv",
    )
    data_options(parser, split="all")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="tags (.jsonl)")
    model_options(parser)
    recording_options(parser)
    return parser
