"""The commands of `holdfast` by group; this module imports nothing slow."""

from typing import NamedTuple


class Command(NamedTuple):
    """The module and help text of a command."""

    module: str  # relative to this package; its `main(argv)` returns an exit status or None
    help: str
    quick: str = ""  # a fast module that handles the arguments accepted by its `is_quick`


GROUPS: dict[str, dict[str, Command]] = {
    "runs": {
        "demo": Command(
            ".demo", "show Tent's collapse and RDumb on this machine, without downloads"
        ),
        "corruptions": Command(
            ".corruption_table", "measure a model's accuracy under each corruption"
        ),
        "test": Command(
            ".run.one_run", "run one method on one stream (LightningCLI)", quick=".run.cli_help"
        ),
        "plan": Command(
            ".measure.plan",
            "estimate the time, bottleneck and disk space of a suite before running it",
        ),
        "check-method": Command(
            ".check_method",
            "check that a method satisfies the contract of all methods",
        ),
        "suite": Command(".suites.suite", "run a grid of methods, streams and seeds from YAML"),
    },
    "results": {
        "status": Command(".suites.status", "show the progress, owners and errors of runs"),
        "report": Command(".report_command", "print tables, or write a figure or page, of runs"),
        "paper": Command(".papers.paper", "reproduce a table or figure of the papers"),
        "estimators": Command(
            ".evaluation.estimators_command", "evaluate accuracy estimators: alarms, quality, cost"
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
            ".streams.ccc_paths", "print the lengths of a calibration's walks (table A.1)"
        ),
    },
    "costs": {
        "step-cost": Command(".measure.step_cost", "measure time and memory of each method's step"),
        "gpu-check": Command(
            ".measure.gpu_check", "check and time this machine's GPU in ten minutes"
        ),
        "long-run": Command(
            ".measure.long_run", "measure memory, file sizes and overhead of a long run"
        ),
        "throughput": Command(".measure.throughput", "measure corruptions per second"),
        "rerun-noise": Command(
            ".measure.rerun_noise",
            "measure how threads and CPU instructions change a run's results",
        ),
    },
    "citations": {
        "cite": Command("..agents.cite", "evaluate agents on CiteME: which paper is cited?"),
    },
    "shell": {
        "completion": Command(".completion", "print a completion script for your shell"),
    },
}
COMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}
