"""`holdfast bench SUBJECT`: measure what steps, streams, estimators or loaders cost on this machine.

The jobs of a row and its reference take turns, so that other load affects all of them equally: compare
the ratios, not the milliseconds, between machines. On a CPU all times are processor times.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ... import HoldfastError, in_range
from ...files import write_json

STEPS = """Each method's step, in which no image is skipped: ms, its time in milliseconds; forwards, bare,
contiguous, sources, in multiples of the network's forward pass, of a bare forward and backward pass with
an optimizer step, of the same in PyTorch's usual memory order, and of a step of Source. reset: the time of
a reset in steps. lightning: the share of a Trainer's time outside the step. adapts: the share of the
parameters that adapt. state: the bytes of a checkpoint beyond the network's. peak_mib: memory that a step
adds."""
STREAMS = """Images/s of each corruption, in Holdfast and in imagecorruptions on one core, with their ratio,
and of CCC's pipeline: crop, flip, two corruptions, JPEG."""
ESTIMATORS = """The time of one estimate, in plain forward passes. `AETTA, naive` repeats whole passes;
`AETTA, least` counts the multiplications that its passes cannot avoid."""
LOADER = """Images/s of a CIN-C stream from JPEGs of 500 x 375, of its two parts, and of torchvision's
loader, which does not corrupt."""


class Subject(NamedTuple):
    """A subject: what its help says, what its rows are, and the defaults of two options."""

    about: str
    rows: str
    size: int
    rounds: int


SUBJECTS = {
    "steps": Subject(STEPS, "methods", 32, 3),
    "streams": Subject(STREAMS, "corruptions", 224, 3),
    "estimators": Subject(ESTIMATORS, "estimators", 32, 15),
    "loader": Subject(LOADER, "loaders", 224, 3),
}


def parser() -> argparse.ArgumentParser:
    """The options of the command, by subject."""
    parser = argparse.ArgumentParser(
        "holdfast bench",
        description=__doc__,
        epilog="example: holdfast bench steps --methods Tent RDumb --batch 16",
    )
    subjects = parser.add_subparsers(dest="subject", required=True, metavar="SUBJECT")
    for name, (about, _, size, rounds) in SUBJECTS.items():
        own = subjects.add_parser(name, description=about)
        own.add_argument(
            "--size", type=int, default=size, help=f"pixels per side (default: {size})"
        )
        own.add_argument("--batch", type=int, default=64, help="images per batch (default: 64)")
        own.add_argument("--rounds", type=int, default=rounds, help=f"default: {rounds}")
        own.add_argument("--threads", type=int, default=1, help="CPU threads (default: 1)")
        own.add_argument("--device", help="default: the GPU if there is one, otherwise cpu")
        own.add_argument("--json", type=Path, metavar="FILE", help="also write the table to a file")
        if name in ("steps", "estimators"):
            own.add_argument(
                "--backbone", default="glyphs", help="a network by name (default: glyphs)"
            )
        if name == "steps":
            own.add_argument("--methods", nargs="+", help="default: all")
            own.add_argument("--calls", type=int, default=4, help="steps per round (default: 4)")
            own.add_argument("--channels-last", action="store_true", help="images, too")
            own.add_argument("--compile", action="store_true", help="compile the backbone")
            own.add_argument("--bf16", action="store_true", help="autocast to bfloat16")
        elif name == "streams":
            own.add_argument("--severity", type=float, default=3, help="default: 3")
            own.add_argument("--ours", action="store_true", help="leave imagecorruptions out")
        elif name == "estimators":
            own.add_argument("--passes", type=int, default=10, help="of AETTA (default: 10)")
        else:
            own.add_argument("--severity", type=int, default=3, help="default: 3")
            own.add_argument("--images", type=int, default=120, help="number of JPEGs")
    return parser


def main(argv: list[str]) -> int:
    """Measure the subject and print its table."""
    args = parser().parse_args(argv)
    in_range(1, size=args.size, batch=args.batch, rounds=args.rounds, threads=args.threads)
    # Deferred: torch and pandas are slow to import.
    import pandas as pd
    import torch

    args.device = torch.device(args.device or torch.accelerator.current_accelerator(True) or "cpu")
    if args.device.type != "cpu" and not torch.accelerator.is_available():
        raise HoldfastError(
            f"--device {args.device} is unavailable: PyTorch finds no GPU. Remove the option."
        )
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    backbone = f"{args.backbone}, " if "backbone" in args else ""
    setting = (
        f"{backbone}{args.batch} images of {args.size} x {args.size}, {args.device}, "
        f"{args.threads} thread(s), torch {torch.__version__}"
    )
    print(setting, flush=True)
    rows = {}
    for name, row in measured(args):
        rows[name] = row
        print(name, end=" ", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    table = pd.DataFrame.from_dict(rows, orient="index")
    print(table.to_string(float_format="{:.4g}".format, na_rep="-"))
    if args.json is not None:
        write_json(args.json, {"setting": setting, SUBJECTS[args.subject].rows: rows})
    return 0


def measured(args: argparse.Namespace) -> Iterator[tuple[str, dict[str, float]]]:
    """The rows of the subject's table, each when it is measured."""
    # Deferred: each subject imports what it measures.
    if args.subject == "steps":
        from .step_cost import step_costs

        return step_costs(args)
    if args.subject == "streams":
        from .corruption_speed import corruption_speeds

        return corruption_speeds(args)
    if args.subject == "estimators":
        from .estimator_cost import estimator_costs

        return estimator_costs(args)
    from .loader_speed import loader_speeds

    return loader_speeds(args)
