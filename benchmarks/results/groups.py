"""Groups of runs: those of one method in one setting, over the same streams and seeds."""

from collections.abc import Iterable, Mapping

from .runs import Run, grouped
from .text_table import natural

Methods = dict[str, list[Run]]  # the runs of one setting, by the name of the method
Groups = dict[str, Methods]  # by the name of the setting


def groups(everything: Iterable[Run]) -> Groups:
    """All runs, started or not, by setting and method, in the order of the names.

    Runs outside a suite form one setting per stream, with all seeds. Streams with different protocols are
    always different settings, and their names say what differs; runs that have not begun join the first.
    """
    settings: dict[str, list[Run]] = {}
    named = [run for run in everything if run.method]
    for name, same in grouped(named, lambda run: run.setting).items():
        kinds = grouped(same, _kind)
        begun = {key: runs[0] for key, runs in kinds.items() if key}
        for key, runs in kinds.items():
            what = f" ({_differing(key, begun)})" if key and len(begun) > 1 else ""
            settings.setdefault(name + what, []).extend(runs)
    return {setting: _by_method(settings[setting]) for setting in sorted(settings, key=natural)}


def _kind(run: Run) -> str:
    """What runs of one setting share: the protocol in a suite, or else the stream without its seed."""
    if "names" in run.cell:
        return run.protocol.stream if run.provenance else ""
    return run.provenance.get("setting_id") or run.stream_id


def _differing(key: str, kinds: Mapping[str, Run]) -> str:
    """What distinguishes the runs of one kind: a suite's protocol, or facts such as "images 64"."""
    if "names" in kinds[key].cell:
        return key
    facts, others = kinds[key].provenance, [run.provenance for run in kinds.values()]
    differences = [
        f"{name} {facts[name]}"
        for name in facts.get("setting", ())
        if name not in ("stream", "seed")
        and isinstance(facts.get(name), str | int | float)
        and any(other.get(name) != facts[name] for other in others)
    ]
    return ", ".join(differences) or key


def _by_method(runs: list[Run]) -> Methods:
    """Runs by method, the source model first, then by name.

    Runs of several recoveries are apart; runs with the same name on the same images differ in another
    option, so each forms its own group.
    """
    methods: Methods = {}
    for same in grouped(runs, lambda run: run.variant).values():
        label, folders = same[0].label, {run.folder.name for run in same}
        recoveries = grouped([run for run in same if run.provenance], lambda r: r.protocol.recovery)
        if len(recoveries) > 1:
            methods |= {f"{label} ({name})": group for name, group in recoveries.items()}
        elif len({(run.place, run.stream_id) for run in same}) == len(same):
            methods[label] = same
        else:
            unique = len(folders) == len(same)
            methods |= {f"{label} ({r.folder.name if unique else r.folder})": [r] for r in same}
    return {
        label: methods[label] for label in sorted(methods, key=lambda name: order(name, methods))
    }


def order(label: str, methods: Methods) -> tuple[bool, list[tuple[int, str]]]:
    """A sort key of methods that puts the source model first."""
    return any(run.adapts for run in methods[label]), natural(label)
