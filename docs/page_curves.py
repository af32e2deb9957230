"""The curves on the pages of methods and estimators: stored as numbers, drawn when the site is built.

python docs/page_curves.py RUNS ... writes docs/curves.json from the runs of `holdfast demo` or
`holdfast suite methods-2026`, and of `holdfast suite aetta/estimators --scale quick`. New curves
take the place of all curves of their kind, since methods that are drawn together need one stream.
"""

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

KEPT = Path(__file__).with_name("curves.json")
DIGITS = 4
OTHERS = "#C4C4C4"
WATCHED = "Tent"  # whose estimates are shown


def main(folders: list[str]) -> None:
    """Write the curves of these runs."""
    from holdfast.benchmarks.results.runs import collect

    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {"methods": {}, "estimators": {}}
    for folder in folders:
        for part, found in curves([run for run in collect(Path(folder)) if run.finished]).items():
            kept[part] = found or kept[part]
            print(f"{folder}: {part} {', '.join(found) or 'none'}")
    KEPT.write_text(json.dumps(kept, sort_keys=True).replace("}, ", "},\n ") + "\n")


def curves(runs: list[Any]) -> dict[str, dict[str, Any]]:
    """By class: of methods, accuracy along the stream; of estimators, accuracy and estimate."""
    from holdfast.benchmarks.results.batch_means import curve, mean_curve
    from holdfast.benchmarks.results.runs import grouped

    def mean(several: list[Any], column: str) -> list[Any]:
        return mean_curve([curve(run, column) for run in several])["mean"].round(DIGITS).tolist()

    def facts(several: list[Any]) -> dict[str, Any]:
        images = (
            mean_curve([curve(run) for run in several]).index.values.round().astype(int).tolist()
        )
        seeds = sorted({run.seed for run in several})
        return {"images": images, "length": several[0].images, "seeds": seeds}

    found: dict[str, dict[str, Any]] = {"methods": {}, "estimators": {}}
    for name, several in grouped(runs, lambda run: run.provenance["method"]).items():
        longest = max(run.images for run in several)
        several = [run for run in several if run.images == longest]
        watched = [run for run in several if run.estimators]
        free = [run for run in several if not run.estimators]
        if free:
            found["methods"][name] = {**facts(free), "accuracy": mean(free, "accuracy")}
        if watched and name == WATCHED:
            for estimator in sorted(set.intersection(*(set(run.estimators) for run in watched))):
                found["estimators"][estimator] = {
                    **facts(watched),
                    "accuracy": mean(watched, "accuracy"),
                    "estimate": mean(watched, estimator),
                }
    return found


def picture(part: str, name: str, kept: dict[str, dict[str, Any]]) -> str:
    """The curve of a class as SVG, the same bytes each time."""
    from matplotlib.ticker import EngFormatter, PercentFormatter

    from holdfast.drawing import GREY, TWO, legend, method_colour, panels

    # An estimate has the colour of the method that is watched.
    colour = method_colour(name if part == "methods" else WATCHED)
    own = kept[part][name]
    with TemporaryDirectory() as folder:
        file = Path(folder, "curve.svg")
        with panels(file, height=2.3, width=TWO) as (figure, [ax]):
            if part == "methods":
                for other, line in kept[part].items():
                    if other not in (name, "Source"):
                        ax.plot(line["images"], line["accuracy"], color=OTHERS, lw=1)
                source = kept[part]["Source"]
                ax.plot(source["images"], source["accuracy"], "--", color=GREY, label="Source")
                if name != "Source":
                    ax.plot(own["images"], own["accuracy"], color=colour, lw=2.2, label=name)
                if len(kept[part]) > 2:
                    ax.plot([], [], color=OTHERS, lw=1, label="the other methods")
            else:
                ax.plot(own["images"], own["accuracy"], "--", color=GREY, label="accuracy")
                estimate = f"{name}'s estimate"
                ax.plot(own["images"], own["estimate"], color=colour, lw=2.2, label=estimate)
            ax.set(xlabel="images seen", xlim=(0, None), ylim=(0, None))
            ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
            ax.xaxis.set_major_formatter(EngFormatter(sep=""))
            legend(figure, [ax])
        return file.read_text()


def caption(part: str, name: str, kept: dict[str, dict[str, Any]]) -> str:
    """What the picture shows, in a sentence."""
    own = kept[part][name]
    seeds = ", ".join(map(str, own["seeds"]))
    length = f"{own['length']:,} images, seed{'s' * (len(own['seeds']) > 1)} {seeds}"
    if part == "methods":
        return f"Accuracy over a CCC stream of glyphs ({length})."
    return (
        f"{WATCHED}'s accuracy over the corruptions one after another, and what {name} makes of it "
        f"({length}; `holdfast suite aetta/estimators --scale quick`)."
    )


if __name__ == "__main__":
    main(sys.argv[1:])
