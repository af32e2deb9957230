"""What EmbeddingClusters and HoldOut measured in a run, by the step."""

from ...results.corruptions import pairs_of
from ...results.runs import Run

CLUSTERS = ("silhouette", "shift", "accuracy")
Measured = dict[int, dict[str, float]]  # by the step


def measured(run: Run, observer: str, names: tuple[str, ...]) -> Measured:
    """The columns NAME of an observer at the steps at which all of them are numbers."""
    found: Measured = {}
    for row in run.rows:
        columns = {name: row.get(f"{observer}_{name}") for name in names}
        values = {name: value for name, value in columns.items() if value is not None}
        if len(values) == len(names):
            found[row["step"]] = values
    return found


def clusters(run: Run) -> Measured:
    """Silhouette x 100, shift and accuracy in percent of the held images."""
    return {
        step: {
            "silhouette": 100 * values["silhouette"],
            "shift": values["shift"],
            "accuracy": 100 * values["accuracy"],
        }
        for step, values in measured(run, "EmbeddingClusters", CLUSTERS).items()
    }


def peak(steps: Measured) -> int:
    """The step at which accuracy is highest, the first of equal ones."""
    return max(steps, key=lambda step: (steps[step]["accuracy"], -step))


def severity(run: Run) -> str:
    """Of the stream's only corruption: "3" of fog at severity 3."""
    ((_, level),) = pairs_of(run.rows[0])
    return f"{level:g}"
