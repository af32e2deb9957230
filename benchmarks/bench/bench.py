"""`holdfast bench SUBJECT`: measure what steps, streams, estimators or a loader cost on this machine.

The jobs of a row and its reference take turns, so that other load affects all of them equally: compare
the ratios, not the milliseconds, between machines. On a CPU all times are processor times.
"""

import argparse
import sys
from pathlib import Path
from typing import NamedTuple

from ... import HoldfastError, in_range
from ...files import write_json
from ..common_options import command_parser


class Subject(NamedTuple):
    """What is measured."""

    rows: str  # the name of its rows in the JSON file
    size: int  # default pixels per side
    minutes: float  # of one core with the defaults
    about: str
    batch: int = 64  # default images per batch


_SUBJECTS = {
    "steps": Subject(
        "methods",
        32,
        5.0,
        "Each method's step, in which no image is skipped: ms, its milliseconds; forwards, bare, "
        "contiguous, sources, its time in forward passes of the network, in bare forward and backward "
        "passes with an optimizer step, in the same with PyTorch's usual memory order, and in steps of "
        "Source; reset, the time of a reset in steps; adapts, the share of the parameters that adapt; "
        "state, the bytes of a checkpoint beyond the network's; peak_mib, the memory that a step adds on "
        "a GPU.",
    ),
    "streams": Subject(
        "corruptions",
        224,
        2.5,
        "Images/s of each corruption at severity 3, in Holdfast and in imagecorruptions on one core, "
        "with their ratio, and of CCC's pipeline: crop, flip, two corruptions, JPEG.",
    ),
    "estimators": Subject("estimators", 32, 0.3, "Each estimate's time in forward passes."),
    "loader": Subject(
        "loaders",
        224,
        0.7,
        "Images/s of a CIN-C stream at severity 3 from JPEGs of 500 x 375, of its two parts, and of "
        "torchvision's loader, which does not corrupt; of both parts on the device, as with "
        "on_device='decode'; levels_apart, the largest difference between crops decoded there and here.",
    ),
    "long": Subject(
        "methods",
        32,
        220.0,
        "Whether long runs with AETTA, a record, TensorBoard events and checkpoints are flat: ms and MiB, "
        "processor time of a step and resident memory in the second quarter of the run, and at its end; "
        "files_end, files opened since its beginning; record, events, bytes per step; checkpoints, bytes; "
        "report, seconds of `holdfast report`.",
        batch=8,
    ),
}


def parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__, "bench steps --methods Tent RDumb --batch 16")
    subjects = parser.add_subparsers(
        dest="subject", required=True, help="`holdfast bench SUBJECT --help` explains its columns"
    )
    for name, (_, size, minutes, about, batch) in _SUBJECTS.items():
        about += f" Takes about {minutes} minutes of one core with the defaults."
        add = subjects.add_parser(name, description=about).add_argument
        add("--batch", type=int, default=batch, help=f"images per batch (default: {batch})")
        add("--threads", type=int, default=1, help="CPU threads (default: 1)")
        add("--device", help="default: the GPU if there is one, otherwise cpu")
        add("--json", type=Path, metavar="FILE", help="also write the table to a file")
        if name in ("steps", "estimators", "long"):
            add("--backbone", default="glyphs", help="a network by name (default: glyphs)")
        if name == "long":
            subjects.choices[name].set_defaults(size=size, rounds=5)
            add("--methods", nargs="+", help="default: Tent RDumb CoTTA RoTTA")
            add("--steps", type=int, default=100_000, help="steps of each run (default: 100000)")
            add(
                "--folder", type=Path, metavar="FOLDER", help="keep runs there, and make none again"
            )
            add("--figure", type=Path, metavar="FILE", help="draw the curves")
        else:
            add("--size", type=int, default=size, help=f"pixels per side (default: {size})")
            add("--rounds", type=int, default=5, help="turns of each job (default: 5)")
        if name == "steps":
            add("--methods", nargs="+", help="default: all")
            add("--channels-last", action="store_true", help="images, too")
            add("--compile", action="store_true", help="compile the backbone")
            add("--bf16", action="store_true", help="autocast to bfloat16")
        if name == "loader":
            add("--images", type=int, default=120, help="number of JPEGs (default: 120)")
    return parser


def main(argv: list[str]) -> int:
    """Measure the subject and print its table."""
    args = parser().parse_args(argv)
    in_range(1, size=args.size, batch=args.batch, rounds=args.rounds, threads=args.threads)
    # Deferred: torch and pandas are slow to import.
    import pandas as pd
    import torch

    from . import long_run, step_cost, stream_speed

    args.device = torch.device(args.device or torch.accelerator.current_accelerator(True) or "cpu")
    if args.device.type != "cpu" and not torch.accelerator.is_available():
        raise HoldfastError(
            f"--device {args.device} is unavailable: PyTorch finds no GPU. Remove the option."
        )
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    backbone = f"{args.backbone}, " if "backbone" in args else ""
    args.setting = (
        f"{backbone}{args.batch} images of {args.size} x {args.size}, {args.device}, "
        f"{args.threads} thread(s), torch {torch.__version__}"
    )
    subject = _SUBJECTS[args.subject]
    if args.subject == "long":
        in_range(1, steps=args.steps)
        work = args.steps / 100_000 * len(long_run.to_run(args)) / len(long_run.METHODS)
    else:
        work = (args.rounds + 1) / 6 * args.batch / 64 * (args.size / subject.size) ** 2
    print(
        f"{args.subject}: about {subject.minutes * work:.1f} minutes of one core with the default network "
        "and all rows",
        file=sys.stderr,
    )
    measure = {
        "steps": step_cost.step_costs,
        "streams": stream_speed.corruption_speeds,
        "estimators": step_cost.estimator_costs,
        "loader": stream_speed.loader_speeds,
        "long": long_run.long_runs,
    }[args.subject]
    rows = {}
    try:
        for name, row in measure(args):
            rows[name] = row
            print(name, end=" ", file=sys.stderr, flush=True)
    finally:  # also what was measured before Ctrl-C
        if rows:
            table = pd.DataFrame.from_dict(rows, orient="index")
            print(f"\n{args.setting}\n{table.to_string(float_format='{:.4g}'.format, na_rep='-')}")
            if args.json is not None:
                write_json(args.json, {"setting": args.setting, subject.rows: rows})
    return 0
