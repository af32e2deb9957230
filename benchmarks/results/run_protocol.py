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
    labels, order = "i.i.d. labels", []
    for wrapper in facts.get("wrappers") or ():
        delta = wrapper.get("delta")
        match wrapper["wrapper"]:
            case "CorrelatedLabels":
                terms = [f"delta {delta:g}"] if delta else []
                if "classes_in_a_batch" in wrapper:
                    found, independent = wrapper["classes_in_a_batch"]
                    terms.append(
                        f"{found:.0f} classes in a batch of 64, {independent:.0f} at random"
                    )
                labels = "labels correlated" if delta else "labels sorted"
                labels += f" ({'; '.join(terms)})" if terms else ""
                order.append(labels)
            case "ClassImbalance":
                labels = f"classes imbalanced {wrapper['ratio']:g} to 1"
                order.append(labels)
            case "MixedDomains":
                order.append(
                    "corruptions mixed" + (f" (delta {delta:g})" if delta is not None else "")
                )
            case "Recurring":
                order.append(f"{wrapper['visits'] or 'endless'} visits")
    return ", ".join(order if labels in order else [labels, *order])


def alike(several: Iterable[Protocol]) -> bool:
    """Whether runs of these protocols may be averaged; a stream without a number of images matches any."""
    known = set(several)
    orders = {(own.recovery, own.order) for own in known}
    return len(orders) <= 1 and len({own.images for own in known if own.images}) <= 1


def sentence(several: Iterable[tuple[str, str, Protocol]]) -> str:
    """The protocols of a table's runs as text, from (setting, method, protocol); "" without runs."""
    known = list(dict.fromkeys(several))
    if not known:
        return ""
    recoveries = with_names((own.recovery, method) for _, method, own in known)
    streams = with_names((own.stream, setting) for setting, _, own in known)
    return f"protocol: {recoveries}; {streams}"


def with_names(pairs: Iterable[tuple[str, str]]) -> str:
    """Distinct texts, each with the names it applies to; without names if there is only one text."""
    found: dict[str, dict[str, None]] = {}
    for text, name in pairs:
        found.setdefault(text, {})[name] = None
    texts = [f"{text} ({', '.join(first_of(list(of), MANY))})" for text, of in found.items()]
    return ", ".join(texts) if len(found) > 1 else next(iter(found))
