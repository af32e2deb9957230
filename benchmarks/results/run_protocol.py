"""A run's evaluation protocol, in the papers' terms: recovery, order of labels, number of images."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from .text_table import first_of

CONTINUAL, AT_EACH, EPISODIC = "continual", "reset at each corruption", "episodic"
ALONE = "each corruption from the source model"  # of runs with one corruption each
_AS_GIVEN = "images as given"  # for datasets that are not Holdfast streams
_MANY = 6  # maximum number of names listed in a sentence


class Protocol(NamedTuple):
    """The properties that runs must share to be averaged.

    recovery: CONTINUAL, AT_EACH, ALONE or EPISODIC. order: the order of labels and corruptions. images: the
    number per corruption; None if a stream has no such number, as in CCC. classes: the mean number of
    classes in a batch of 64, and at random, as measured, so it may differ between seeds.
    """

    recovery: str = CONTINUAL
    order: str = _AS_GIVEN
    images: int | None = None
    classes: tuple[float, float] | None = None

    @property
    def stream(self) -> str:
        """The part of the protocol that does not depend on the method."""
        return self.order + (f", {self.images:,} images of each corruption" if self.images else "")

    @property
    def measured(self) -> str:
        """`stream`, and the measured numbers of classes."""
        text = ", {:.0f} classes in a batch of 64 ({:.0f} at random)"
        return self.stream + (text.format(*self.classes) if self.classes else "")

    def __str__(self) -> str:
        return f"{self.recovery}, {self.measured}, accuracy"


def protocol(facts: Mapping[str, Any]) -> Protocol:
    """The protocol of a run, from its provenance.

    Uses `wrappers` of the stream, innermost first; `resets`; `arguments` of the method; `setting`, the
    names of all facts that identify the stream; and `parts`, its segments with their numbers of images.
    Other keys may be missing.
    """
    resets = {reset.get("class"): reset for reset in facts.get("resets") or ()}
    every = resets.get("PeriodicReset", {}).get("every")
    parts = facts.get("parts") or ()
    recovery = ALONE if len(parts) == 1 else CONTINUAL
    if "SegmentReset" in resets:
        recovery = AT_EACH
    if every == 1 or (facts.get("arguments") or {}).get("episodic"):
        recovery = EPISODIC
    sizes = {part[-1] for part in parts}
    images = sizes.pop() if len(sizes) == 1 else None
    classes = [
        w["classes_in_a_batch"] for w in facts.get("wrappers") or () if "classes_in_a_batch" in w
    ]
    return Protocol(recovery, _order(facts), images, tuple(classes[-1]) if classes else None)


def _order(facts: Mapping[str, Any]) -> str:
    """The order of labels and corruptions, such as "labels correlated (delta 0.1), 20 visits".

    The outermost wrapper's entry says it, or in earlier records, which lack it, the wrapper's class.
    """
    if not facts.get("setting"):
        return _AS_GIVEN
    order = facts.get("order", "i.i.d. labels")
    for wrapper in facts.get("wrappers") or ():
        order = wrapper.get("order") or _recorded_order(wrapper, order)
    return order


def _recorded_order(wrapper: Mapping[str, Any], inner: str) -> str:
    # Deferred: they import torch, which only earlier records need.
    from ... import datamodules
    from ...datamodules.wrapper import other_labels

    name = wrapper["wrapper"]
    kind = getattr(datamodules, name, None)
    return kind.order_of(wrapper, inner) if kind else other_labels(inner, name)


def alike(protocols: Iterable[Protocol]) -> bool:
    """Whether runs of these protocols may be averaged; a stream without a number of images matches any."""
    known = set(protocols)
    orders = {(protocol.recovery, protocol.order) for protocol in known}
    return len(orders) <= 1 and len({p.images for p in known if p.images}) <= 1


def sentence(runs: Iterable[tuple[str, str, Protocol]]) -> str:
    """The protocols of a table's runs as text, from (setting, method, protocol); "" without runs."""
    known = list(dict.fromkeys(runs))
    if not known:
        return ""
    recoveries = _with_names((protocol.recovery, method) for _, method, protocol in known)
    streams = _with_names((protocol.measured, setting) for setting, _, protocol in known)
    return f"protocol: {recoveries}; {streams}"


def _with_names(pairs: Iterable[tuple[str, str]]) -> str:
    """The first distinct texts, each with the names it applies to; without names if it is the only one."""
    names: dict[str, dict[str, None]] = {}
    for text, name in pairs:
        names.setdefault(text, {})[name] = None
    texts = [f"{text} ({', '.join(first_of(list(of), _MANY))})" for text, of in names.items()]
    return ", ".join(first_of(texts, _MANY)) if len(names) > 1 else next(iter(names))
