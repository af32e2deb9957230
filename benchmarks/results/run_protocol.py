"""A run's evaluation protocol, in the papers' terms: recovery, order of labels, number of images."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from .text_table import first_of

CONTINUAL, AT_EACH, EPISODIC = "continual", "reset at each corruption", "episodic"
AS_GIVEN = "images as given"  # for datasets that are not Holdfast streams
MANY = 6  # maximum number of names listed in a sentence


class Protocol(NamedTuple):
    """The properties that runs must share to be averaged.

    recovery: CONTINUAL, AT_EACH or EPISODIC. order: the order of labels and corruptions. images: the number
    per corruption; None if a stream has no such number, as in CCC.
    """

    recovery: str = CONTINUAL
    order: str = AS_GIVEN
    images: int | None = None

    @property
    def stream(self) -> str:
        """The part of the protocol that does not depend on the method."""
        return self.order + (f", {self.images:,} images of each corruption" if self.images else "")

    def __str__(self) -> str:
        return f"{self.recovery}, {self.stream}, accuracy"


def protocol(facts: Mapping[str, Any]) -> Protocol:
    """The protocol of a run, from its provenance.

    Uses `wrappers` of the stream, innermost first; `resets`; `arguments` of the method; `setting`, the
    names of all facts that identify the stream; and `parts`, its segments with their numbers of images.
    Other keys may be missing.
    """
    resets = {own.get("class"): own for own in facts.get("resets") or ()}
    every = resets.get("PeriodicReset", {}).get("every")
    recovery = AT_EACH if "SegmentReset" in resets else CONTINUAL
    if every == 1 or (facts.get("arguments") or {}).get("episodic"):
        recovery = EPISODIC
    sizes = {part[-1] for part in facts.get("parts") or ()}
    images = sizes.pop() if len(sizes) == 1 else None
    return Protocol(recovery, order_of(facts), images)


def order_of(facts: Mapping[str, Any]) -> str:
    """The order of labels and corruptions, such as "labels correlated (delta 0.1), 20 visits"."""
    if not facts.get("setting"):
        return AS_GIVEN
    words = {
        "CorrelatedLabels": lambda own: (
            f"labels correlated (delta {own['delta']:g})" if own["delta"] else "labels sorted"
        ),
        "ClassImbalance": lambda own: f"classes imbalanced {own['ratio']:g} to 1",
        "MixedDomains": lambda own: (
            "corruptions mixed"
            if own["delta"] is None
            else f"corruptions mixed (delta {own['delta']:g})"
        ),
        "Recurring": lambda own: f"{own['visits'] or 'endless'} visits",
    }
    found = [
        words[own["wrapper"]](own) for own in facts.get("wrappers") or () if own["wrapper"] in words
    ]
    first = (
        [] if any(word.startswith(("labels", "classes")) for word in found) else ["i.i.d. labels"]
    )
    return ", ".join([*first, *found])


def alike(several: Iterable[Protocol]) -> bool:
    """Whether runs of these protocols may be averaged; a stream without a number of images matches any."""
    known = set(several)
    return (
        len({(own.recovery, own.order) for own in known}) <= 1
        and len({own.images for own in known if own.images}) <= 1
    )


def sentence(several: Iterable[tuple[str, str, Protocol]]) -> str:
    """The protocols of a table's runs as text, from (setting, method, protocol); "" without runs."""
    known = list(dict.fromkeys(several))
    recoveries = apart((own.recovery, method) for _, method, own in known)
    streams = apart((own.stream, setting) for setting, _, own in known)
    return f"protocol: {recoveries}; {streams}" if known else ""


def apart(pairs: Iterable[tuple[str, str]]) -> str:
    """Distinct texts, each with the names it applies to; without names if there is only one text."""
    found: dict[str, dict[str, None]] = {}
    for text, of in pairs:
        found.setdefault(text, {})[of] = None
    if len(found) == 1:
        return next(iter(found))
    return ", ".join(
        f"{text} ({', '.join(first_of(list(of), MANY))})" for text, of in found.items()
    )
