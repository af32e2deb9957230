"""The commands of `holdfast`, group by group; imports nothing heavy."""

from typing import NamedTuple


class Command(NamedTuple):
    """A row of the table below."""

    module: str  # relative to this package; its `main(argv)` returns an exit status or None
    help: str
    quick: str = ""  # answers the words of `is_quick` where importing the module takes seconds


GROUPS: dict[str, dict[str, Command]] = {
    "runs": {
        "demo": Command(".demo", "show collapse and RDumb on this machine, without downloads"),
        "corruptions": Command(
            ".corruption_table", "accuracy of a model under each corruption: table and figure"
        ),
        "test": Command(
            ".run.one_run", "run one method on one stream (LightningCLI)", quick=".run.cli_help"
        ),
        "plan": Command(
            ".measure.plan", "how long a suite takes, what limits it, disk: before it runs"
        ),
        "check-method": Command(
            ".check_method",
            "does a method do what all methods promise? a table, and what to change",
        ),
        "suite": Command(".suites.suite", "run a grid of methods, streams and seeds from YAML"),
    },
    "results": {
        "status": Command(".suites.status", "how far runs are, who runs them, what failed"),
        "report": Command(".report_command", "table, figure or page of the runs in a folder"),
        "paper": Command(".papers.paper", "every table and figure of the papers, from one command"),
        "estimators": Command(
            ".evaluation.estimators_command", "accuracy without labels: tables, warnings, costs"
        ),
    },
    "models and streams": {
        "train-source": Command(
            ".train.train_source", "train a source model for glyphs, digits, CIFAR"
        ),
        "ensemble": Command(
            ".train.ensemble", "train models that differ in one source of diversity"
        ),
        "calibrate": Command(
            ".streams.calibrate", "measure the accuracies that a CCC stream is built from"
        ),
        "generate": Command(
            ".streams.generate", "write a CCC stream as tar shards, in the official layout"
        ),
        "paths": Command(
            ".streams.ccc_paths", "how long the walks of a calibration are (table A.1)"
        ),
    },
    "costs": {
        "step-cost": Command(".measure.step_cost", "time and memory of each method's step"),
        "gpu-check": Command(".measure.gpu_check", "what this machine's GPU does, in ten minutes"),
        "long-run": Command(".measure.long_run", "memory, sizes and overhead of a long run"),
        "throughput": Command(".measure.throughput", "corruptions per second"),
        "rerun-noise": Command(
            ".measure.rerun_noise", "how far threads and instructions change the same run"
        ),
    },
    "citations": {
        "cite": Command("..agents.cite", "CiteME: can an agent find the paper behind a citation?"),
    },
    "shell": {
        "completion": Command(".completion", "a script with which the shell completes commands"),
    },
}
COMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}
