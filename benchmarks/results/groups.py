"""Groups of runs: those of one method in one setting, over the same streams and seeds."""

from collections.abc import Iterable, Mapping

from .palette import Style, method_styles
from .runs import Run, grouped
from .text_table import natural

Groups = dict[tuple[str, str], list[Run]]  # runs by the names of their setting and method
Methods = dict[str, list[Run]]  # the runs of one setting


def groups(everything: Iterable[Run]) -> Groups:
    """All runs, started or not, by setting and method; the source model first, then by name."""
    found: Groups = {}
    for setting, same in settings(everything).items():
        methods = apart(same).items()
        ordered = sorted(methods, key=lambda own: (any(r.adapts for r in own[1]), natural(own[0])))
        found |= {(setting, label): runs for label, runs in ordered}
    return found


def settings(everything: Iterable[Run]) -> dict[str, list[Run]]:
    """Runs by the name of their setting, in the order of the names.

    Runs outside a suite form one setting per stream, with all seeds. Streams with different protocols are
    always different settings, and their names say what differs; runs that have not begun join the first.
    """
    found: dict[str, list[Run]] = {}
    named = [run for run in everything if run.method]
    for name, same in grouped(named, lambda run: run.setting).items():
        kinds = grouped(same, kind)
        begun = {key: runs[0] for key, runs in kinds.items() if key}
        for key, runs in kinds.items():
            what = differing(key, begun) if key and len(begun) > 1 else ""
            found.setdefault(f"{name} ({what})" if what else name, []).extend(runs)
    return dict(sorted(found.items(), key=lambda item: natural(item[0])))


def kind(run: Run) -> str:
    """What runs of one setting share: the protocol in a suite, or else the stream without its seed."""
    if "names" in run.cell:
        return run.protocol.stream if run.provenance else ""
    return run.provenance.get("setting_id") or run.stream_id


def differing(key: str, kinds: Mapping[str, Run]) -> str:
    """What distinguishes the runs of one kind: a suite's protocol, or facts such as "images 64"."""
    own = kinds[key].provenance
    others = [run.provenance for run in kinds.values()]
    names = [] if "names" in kinds[key].cell else own.get("setting", ())
    facts = [
        f"{name} {own[name]}"
        for name in names
        if name not in ("stream", "seed")
        and isinstance(own.get(name), str | int | float)
        and any(other.get(name) != own[name] for other in others)
    ]
    return ", ".join(facts) or key


def apart(runs: list[Run]) -> Methods:
    """Runs by method and recovery.

    Runs with the same name on the same images differ in another option, so each forms its own group.
    """
    found: Methods = {}
    for same in grouped(runs, lambda run: run.variant).values():
        label = same[0].label
        recoveries = grouped([run for run in same if run.provenance], lambda r: r.protocol.recovery)
        if len(recoveries) > 1:
            found |= {f"{label} ({name})": runs for name, runs in recoveries.items()}
        elif len({(run.place, run.stream_id) for run in same}) == len(same):
            found[label] = same
        else:
            names = {run.folder.name for run in same}
            unique = len(names) == len(same)
            found |= {f"{label} ({r.folder.name if unique else r.folder})": [r] for r in same}
    return found


def by_setting(found: Groups) -> dict[str, Methods]:
    """The methods of each setting."""
    settings: dict[str, Methods] = {}
    for (setting, label), runs in found.items():
        settings.setdefault(setting, {})[label] = runs
    return settings


def styles_of(found: Groups) -> dict[str, Style]:
    """The style of each method in all settings; the source model comes first, then by name."""
    methods = {label: runs[0] for (_, label), runs in found.items()}
    ordered = sorted(methods.items(), key=lambda item: (item[1].adapts, natural(item[0])))
    return method_styles((label, run.provenance["method"]) for label, run in ordered)
