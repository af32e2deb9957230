"""Why an answer is wrong, as far as a record shows it (CiteME, section 5.1, by hand there).

The paper's authors read 50 failures: 50 % misread the excerpt, 32 % stopped at a similar paper (2 of
these 16 had the target among their results), 18 % found the target named in a paper and selected that
paper. A record shows whether the target was found, and whether its title stood in a text that was read.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from .data import Sample
from .matching import THRESHOLD, normalise
from .trajectory import Turn, turns

CITING = "the citing paper selected"
FOUND = "found, not selected"
NAMED = "named in a text read, not found"
NEVER = "never found"
KINDS = {
    CITING: "the target's title stood in a text that was read, and the paper of that text was selected",
    FOUND: "a search returned the target, and another paper was selected",
    NAMED: "the target's title stood in a text that was read, and no search returned it",
    NEVER: "neither a search nor a text that was read showed the target",
}


def failure(record: dict[str, Any], sample: Sample, threshold: float = THRESHOLD) -> str:
    """Which of `KINDS` a wrong answer is; the first that holds."""
    taken = turns(record, sample, threshold)
    named = {turn.argument.split(" ")[0] for turn in taken if names_target(turn, sample)}
    if record["selection"] and record["selection"]["id"] in named:
        return CITING
    if any(hit["target"] for turn in taken for hit in turn.hits):
        return FOUND
    return NAMED if named else NEVER


def names_target(turn: Turn, sample: Sample) -> bool:
    """Whether a text that was read holds a target's title, whatever its case and punctuation."""
    if turn.action not in ("read", "find_in_text", "search_text_snippet") or turn.error:
        return False
    text = f" {normalise(turn.seen)} "
    # Text of PDFs may have lost the spaces between its words.
    squeezed = text.replace(" ", "")
    titles = [normalise(title) for title in sample.titles]
    return any(f" {t} " in text or (len(t) > 30 and t.replace(" ", "") in squeezed) for t in titles)


def failures(wrong: Iterable[tuple[dict[str, Any], Sample]], threshold: float) -> dict[str, int]:
    """How many of the wrong answers are of which kind, all kinds listed."""
    counts = Counter(failure(record, sample, threshold) for record, sample in wrong)
    return {kind: counts[kind] for kind in KINDS}
