"""The provenance of the results: weights, streams, protocol, resets, versions and the command."""

from collections.abc import Iterable
from typing import Any

from ....files import read_json
from ....run_folder import CELL
from ..runs import Run, grouped
from ..text_table import first_of

PROTOCOL = {
    "batch_size": "batch size",
    "images": "images in a run",
    "seed": "seeds",
    "precision": "precision",
    "devices": "devices",
}
# Keys of a provenance; its other keys describe the stream.
OTHER = {"method", "arguments", "backbone", "weights", "optimizer", "resets", "estimators"}
OTHER |= {"stream_id", "method_seed", "weights_from", "normalisation", "parameters", "torch_seed"}
OTHER |= {"adapted_parameters", "skipped_layers", "device", "threads", "python", "versions"}
OTHER |= {"processor", "instructions", "commit", "factors"}
OTHER |= {"started", "resumed", "ran_on", "chosen", "setting_id", "setting", *PROTOCOL}


def header(runs: list[Run]) -> list[tuple[str, list[str]]]:
    """Each kind of fact with its distinct values over the runs."""
    facts = [run.provenance for run in runs]
    where = [entry for run in runs for entry in run.environments]
    versions = [f"{n} {v}" for f in where for n, v in (f.get("versions") or {}).items() if v]
    versions += [f"Python {f['python']}" for f in where if f.get("python")]
    started = sorted(f["started"][:16].replace("T", " ") for f in facts if f.get("started"))
    protocol = [
        f"{text} {', '.join(distinct(f[name] for f in facts if f.get(name) is not None))}"
        for name, text in PROTOCOL.items()
        if any(f.get(name) is not None for f in facts)
    ]
    found = {
        "Weights": distinct(weights(f) for f in facts),
        "Streams": first_of(distinct(stream(run) for run in runs)),
        "Protocol": protocol,
        "Resets": by_method(runs, resets),
        "Optimizers": by_method(runs, lambda f: settings(f.get("optimizer"))),
        "Estimators": distinct(
            settings({"class": name, **(own or {})})
            for f in facts
            for name, own in (f.get("estimators") or {}).items()
        ),
        "Versions": distinct(versions),
        "Device": distinct(device(entry) for entry in where if entry.get("device")),
        "Started": [" to ".join(dict.fromkeys((started[0], started[-1])))] if started else [],
    }
    return [(name, values) for name, values in found.items() if values]


def device(where: dict[str, Any]) -> str:
    threads = where.get("threads")
    return where["device"] + (f", {threads} thread{'s'[: threads != 1]}" if threads else "")


def commands(runs: list[Run]) -> list[str]:
    """The commands that repeat these runs."""
    found: dict[str | None, None] = {}
    for run in runs:
        named = read_json(run.folder / CELL).get("command")
        if named is None and (run.folder / "config.yaml").exists():
            named = f"holdfast test --config {run.folder / 'config.yaml'}"
        found[named] = None
    return first_of([str(name) for name in found if name is not None])


def streams(runs: list[Run]) -> list[tuple[str, str]]:
    """The stream of each setting with everything that determines its pixels."""
    found = {}
    for setting, same in grouped(runs, lambda run: run.setting).items():
        facts = same[0].provenance
        own = {key: value for key, value in facts.items() if key not in {*OTHER, "stream"}}
        found[setting] = settings({"class": facts.get("stream", ""), **own})
    return list(found.items())


def weights(facts: dict[str, Any]) -> str:
    """The network, its hash, and the origin of its weights if it is known."""
    named = (facts.get("weights_from") or {}).get("name")
    text = f"{facts.get('backbone') or 'network'}: {facts.get('weights')}"
    return f"{text} ({named})" if named else text


def stream(run: Run) -> str:
    return f"{run.place} ({run.provenance.get('stream_id')})"


def resets(facts: dict[str, Any]) -> str:
    return ", ".join(map(settings, facts.get("resets") or []))


def by_method(runs: list[Run], text: Any) -> list[str]:
    """One text per distinct value with the methods that share it: "Tent, ETA: SGD (lr 0.001)"."""
    same = grouped((run for run in runs if text(run.provenance)), lambda r: text(r.provenance))
    return [f"{', '.join(dict.fromkeys(r.label for r in own))}: {t}" for t, own in same.items()]


def settings(content: Any) -> str:
    """A class with its arguments, such as "PeriodicReset (every 1000)", without unset ones."""
    if not isinstance(content, dict):
        return value(content) if content else ""
    own = {
        key: v for key, v in content.items() if key != "class" and v not in (None, False, [], {})
    }
    inside = ", ".join(f"{key} {value(v)}" for key, v in own.items())
    return f"{content.get('class', '')} ({inside})" if inside else str(content.get("class", ""))


def value(content: Any) -> str:
    if isinstance(content, dict):
        inside = ", ".join(f"{key} {value(v)}" for key, v in content.items())
        return f"[{inside}]"
    if isinstance(content, list):
        return f"[{', '.join(map(value, content))}]"
    return str(content)


def distinct(values: Iterable[Any]) -> list[str]:
    return list(dict.fromkeys(map(str, values)))
