"""`holdfast cite curate`: CiteME's analyses of a dataset.

Samples that models answer from memory (section 2), answers of people (section 2), excerpts that cite
several papers at once, so that no single paper is the answer (table 6), and topics (appendix D).
"""

import contextlib
import json
import re
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import HoldfastError
from . import cite_options as options
from .cite_options import say
from .data import MARKER, Dataset, Sample, new_file, read_table, write_samples
from .matching import official_match
from .records import RETRIED, Action, Record, settings_of
from .score import Records, judged, proportion
from .world import World

if TYPE_CHECKING:
    import dspy

# CiteME, table 6: the share of ambiguous excerpts in percent, by its regular expression.
AMBIGUOUS_PERCENT = {"arXiv": 54.96, "ACL-200": 27.2, "RefSeer": 12.61}
# CiteME, section 2: the share of samples in percent that people answer correctly.
HUMAN_PERCENT = 69.7


def add_options(parser: ArgumentParser) -> None:
    """Add the analyses, each with its options and its action."""
    analyses = parser.add_subparsers(title="analyses", metavar="ANALYSIS", required=True)

    def analysis(name: str, action: Callable[[Namespace], None], about: str) -> ArgumentParser:
        parser = analyses.add_parser(name, help=about, description=f"{about}.")
        parser.set_defaults(action=action)
        return parser

    about = (
        "Estimate how many excerpts cite several papers (a lower bound), beside CiteME's table 6"
    )
    ambiguity = analysis("ambiguity", _count_ambiguous, about)
    columns = "CSV or TSV with the column excerpt, in which TARGETCIT or [CITATION] is the citation"
    ambiguity.add_argument("files", nargs="+", type=Path, metavar="FILE", help=columns)

    about = "Write the samples that no run answers from memory, and list the excluded ones"
    memory = analysis("filter", _filter_known, about)
    files = "result files of --commands none"
    memory.add_argument("runs", nargs="+", type=Path, metavar="RUN", help=files)
    options.add_out(memory, "the remaining samples, in CiteME's columns (.csv)")
    options.add_run_data(memory)

    about = "Convert answers of people to a run, and measure their agreement"
    people = analysis("people", _import_people, about)
    columns = "CSV with the columns sample, annotator, title, seconds"
    people.add_argument("answers", type=Path, help=columns)
    options.add_out(people, "result file (.jsonl)")
    options.add_data(people)

    about = "Tag every cited paper with three topics from a language model (CiteME, figure 2), resumable"
    tags = analysis("tags", _tag, about)
    options.add_data(tags, split="all")
    options.add_out(tags, "tags (.jsonl)")
    options.add_model(tags)


# ---- answers from memory ----


def _filter_known(args: Namespace) -> None:
    known: dict[str, str] = {}
    for path in args.runs:
        header, records, dataset = options.read_run(args, path)
        if header.agent.commands != "none":
            raise HoldfastError(
                f"{path} is not a run from memory. Make one with `holdfast cite run --commands none "
                "--repeats 5`."
            )
        for sample in _answered_from_memory(records, dataset, header.repeats):
            known.setdefault(sample, header.agent.model_or_name)
    remaining = [sample for sample in dataset.samples if sample.id not in known]
    write_samples(args.out, remaining)
    for name in sorted(known):
        say(f"excluded {name}: answered from memory by {known[name]}")
    asked = len(dataset.samples)
    print(f"{len(remaining)} of {asked} samples remain, {len(known)} excluded; wrote {args.out}")
    print("CiteME excluded 124 of 254 (section 2), by five tries of GPT-4o.")


def _answered_from_memory(records: Records, dataset: Dataset, tries: int) -> list[str]:
    """The samples that have a correct answer among `tries`, by CiteME's matcher.

    Raises `HoldfastError` if a sample has fewer answers, none of them correct.
    """
    rows = judged(records, dataset)
    rows = rows.assign(is_answer=~rows.outcome.isin(RETRIED))
    counts = rows.groupby("sample")[["official", "is_answer"]].sum()
    samples = counts.reindex([sample.id for sample in dataset.samples], fill_value=0)
    for name, some in samples[samples.official == 0].iterrows():
        if some.is_answer < tries:
            raise HoldfastError(
                f"{name} has {some.is_answer} of {tries} answers. Finish the run first."
            )
    return list(samples.index[samples.official > 0])


# ---- people ----

_ANSWERS = ("sample", "annotator", "title", "seconds")


def _import_people(args: Namespace) -> None:
    dataset = options.read_dataset(args)
    rows = _answers(args.answers, dataset)
    records = _as_records(rows)
    agent = {"name": "people", "annotators": len({row["annotator"] for row in rows})}
    repeats = max(record.repeat for record in records) + 1
    options.write_run(args.out, settings_of(dataset, agent, repeats=repeats), records)
    print(f"{len(rows)} answers of {agent['annotators']} people; wrote {args.out}")
    figures = _agreement(rows, dataset.samples)
    if figures["pairs"]:
        print(f"pairs of answers to a sample: {figures['pairs']}")
        print(f"  the same title      {figures['same_title']}   (CiteME 71 %)")
        print(f"  both right or wrong {figures['same_verdict']}")
        print(f"  at least one right  {figures['at_least_one_right']}   (CiteME 93 %)")
    print(f"CiteME: {HUMAN_PERCENT} % right, 38.2 s on average, at most two minutes.")
    print(f"Next: holdfast cite score {args.out}")


def _answers(path: Path, dataset: Dataset) -> list[dict[str, str]]:
    """The rows of a CSV with `sample`, `annotator`, `title` ("" for none) and `seconds`.

    Raises `HoldfastError` if it is none, or a row has an unknown sample, is repeated, or has no valid time.
    """
    rows = read_table(path, _ANSWERS, "answers")
    known, seen = {s.id for s in dataset.samples}, set()
    for number, row in enumerate(rows, start=2):
        name, annotator = key = row["sample"], row["annotator"]
        problem = ""
        if name not in known:
            problem = f"there is no sample {name!r} in {dataset.name}, {dataset.split}"
        elif key in seen:
            problem = f"{annotator} answers {name} twice"
        elif not re.fullmatch(r"\d{1,9}(\.\d*)?", row["seconds"].strip()):
            problem = f"seconds are {row['seconds']!r}"
        if problem:
            raise HoldfastError(f"{path}, row {number}: {problem}. Correct or remove the row.")
        seen.add(key)
    return rows


def _as_records(rows: Iterable[dict[str, str]]) -> list[Record]:
    """Each answer as a record; the repeats of a sample are its annotators, in order."""
    repeats: Counter[str] = Counter()
    records = []
    for row in rows:
        name, title = row["sample"], row["title"].strip()
        events = [Action(kind="action", step=1, action="guess")] if title else []
        facts = {"detail": f"by {row['annotator']}", "seconds": float(row["seconds"])}
        records.append(Record.guessed(name, title, repeat=repeats[name], events=events, **facts))
        repeats[name] += 1
    return records


def _agreement(rows: Sequence[dict[str, str]], samples: Iterable[Sample]) -> dict[str, Any]:
    """Rates over all pairs of answers to a sample: same title, same verdict, at least one correct."""
    pairs = same = verdict = either = 0
    for sample in samples:
        titles = [row["title"].strip() for row in rows if row["sample"] == sample.id]
        for a, b in combinations(titles, 2):
            right = [bool(title) and official_match(title, sample.titles) for title in (a, b)]
            pairs += 1
            same += all(right) or bool(a and b and official_match(a, [b]))
            verdict += right[0] == right[1]
            either += any(right)
    return {
        "pairs": pairs,
        "same_title": proportion(same, pairs),
        "same_verdict": proportion(verdict, pairs),
        "at_least_one_right": proportion(either, pairs),
    }


# ---- ambiguous excerpts ----

_TARGETS = ("TARGETCIT", MARKER)
# Another citation: a masked one, a LaTeX command, numbers in brackets, a name and a year. The paper prints
# no regular expression; this one is Holdfast's.
_NO_NAME = r"(?!(?:In|Since|By|From|Until|Before|After|During)\b)"
_AUTHOR = _NO_NAME + r"[A-Z][^\s\d,;()\[\]]+"
_NAME = rf"{_AUTHOR}(?:\s+(?:et\s+al\.?|(?:and|&)\s+{_AUTHOR}))?"
_NUMBERS = r"\[\d+(?:\s*[,–-]\s*\d+)*\]"
_OTHER = rf"(?:OTHERCIT|\\cite[a-z]*\*?\{{[^}}]*\}}|{_NUMBERS}|{_NAME},?\s+\(?(?:19|20)\d\d[a-z]?)"
# Text allowed between citations of one group, including the letter of a year ("TARGETCIT a").
_LINK = r"(?:\s+[a-z]\b(?!\s+\w))?[\s,;&(\[\])]*(?:\band\b)?[\s,;&(\[]*"
_BEFORE = re.compile(_OTHER + r"[\s,;&)\]]*(?:\band\b)?[\s,;&(\[]*$")
_AFTER = re.compile(_LINK + _OTHER)
_KEYS = re.compile(r"\\cite[a-z]*\*?(?:\[[^\]]*\])*\{([^}]*)$")


def _count_ambiguous(args: Namespace) -> None:
    for path in args.files:
        excerpts = [row["excerpt"] for row in read_table(path, ["excerpt"], "excerpts")]
        verdicts = [is_ambiguous(text) for text in excerpts]
        unmarked = verdicts.count(None)
        rate = proportion(verdicts.count(True), len(excerpts) - unmarked)
        say(f"{path.name}: {rate}; {unmarked} without a mark of the target excluded")
    printed = ", ".join(f"{name} {percent} %" for name, percent in AMBIGUOUS_PERCENT.items())
    print(f"CiteME, table 6 (its regular expression is not published): {printed}.")


def is_ambiguous(excerpt: str) -> bool | None:
    r"""Whether the target is cited together with other papers.

    Only citations in one group are detected, such as `\cite{a, TARGETCIT}`, `[OTHERCIT, TARGETCIT]`,
    `(Lee 1998; TARGETCIT)` or `TARGETCIT OTHERCIT`, so the share of such excerpts is a lower bound. None
    if the excerpt does not mark its target.
    """
    marks = [mark for mark in _TARGETS if mark in excerpt]
    if not marks:
        return None
    before, _, after = excerpt.partition(marks[0])
    if keys := _KEYS.search(before):  # within the braces of a LaTeX command
        return "," in keys[1] or "," in after.partition("}")[0]
    if _BEFORE.search(before) or _AFTER.match(after):
        return True
    group = _bracketed(before, after)
    return bool(re.search(_OTHER, group)) or bool(re.search(r"(?:^|,)\s*\d+\s*(?:,|$)", group))


def _bracketed(before: str, after: str) -> str:
    """The rest of the bracket around the target; "" if it is not in brackets."""
    opened = max(before.rfind("("), before.rfind("["))
    if opened < 0 or re.search(r"[)\]]", before[opened:]):
        return ""
    closed = re.search(r"[()\[\]]|\.\s+[A-Z]", after)
    if not closed or closed[0] not in ")]":
        return before[opened + 1 :]
    return before[opened + 1 :] + "," + after[: closed.start()]


# ---- topics ----

# Holdfast's prompt; the paper does not print its own.
_ASK = (
    "Name three general topics that describe the paper with the title below, from the broadest to the "
    "narrowest, separated by commas, and nothing else.\n\n"
)
_TOO_BROAD = ("machine learning", "deep learning", "deep networks", "artificial intelligence")


def _tag(args: Namespace) -> None:
    titles = list(dict.fromkeys(sample.titles[0] for sample in options.read_dataset(args).samples))
    # Replies are recorded beside the file, so that an interrupted command continues where it stopped.
    world = World(args.out.with_suffix(".world"))
    with contextlib.closing(world):
        lm = options.open_model(args, world)
        tags = {title: _tags_of(title, lm) for title in titles}
    with new_file(args.out) as partial:
        lines = (json.dumps({"title": t, "tags": tags[t]}, ensure_ascii=False) for t in titles)
        partial.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    print(f"{len(titles)} papers; wrote {args.out}")
    for tag, count in _most_frequent(tags.values()):
        say(f"{count:4d}  {tag}")


def _tags_of(title: str, lm: "dspy.LM") -> list[str]:
    """At most three tags of a paper, fewer if the reply has fewer; `HoldfastError` without a reply."""
    from dspy.utils.exceptions import LMError

    try:
        reply = lm(_ASK + title)[0]
    except LMError as error:
        raise HoldfastError(
            f"No tags for {title!r} ({error}). Fix the cause and rerun the same command to continue."
        ) from None
    words = re.split(r"[,;\n]", re.sub(r"^\s*tags?\s*:", "", reply, flags=re.IGNORECASE))
    tags = [re.sub(r"^\s*(?:\d+[.)]|[-*•])\s*", "", word).strip(" .*\"'") for word in words]
    return [tag for tag in tags if tag][:3]


def _most_frequent(tags: Iterable[list[str]], n: int = 10) -> list[tuple[str, int]]:
    """The `n` most frequent tags with their number of papers, without those in `_TOO_BROAD`."""
    papers = [{tag.lower(): tag for tag in reversed(of_paper)} for of_paper in tags]
    counts = Counter(key for paper in papers for key in paper if key not in _TOO_BROAD)
    names = {key: tag for paper in reversed(papers) for key, tag in paper.items()}
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [(names[key], count) for key, count in ordered[:n]]
