"""`holdfast train`: train the source model of a data set, with its provenance, or an ensemble of models."""

import argparse
from pathlib import Path

from ... import HoldfastError, in_range

EMBEDDED, CIFAR = ("steps", "width", "size", "norm"), ("data", "epochs", "device")
OPTIONS = {"glyphs": EMBEDDED, "digits": EMBEDDED, "cifar10": CIFAR, "cifar100": CIFAR}


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = argparse.ArgumentParser(
        "holdfast train", description=__doc__, epilog="example: holdfast train glyphs --seed 1"
    )
    add = parser.add_argument
    add(
        "name",
        nargs="?",
        default="glyphs",
        choices=tuple(OPTIONS),
        help="data set (default: glyphs)",
    )
    add("--seed", type=int, default=0)
    add("--out", type=Path, help="file of the weights (default: in runs/source)")
    add = parser.add_argument_group("glyphs, digits").add_argument
    add("--steps", type=int, help="number of batches of 128 images")
    add("--width", type=int, help="channels of the first layer (default: 16)")
    add("--size", type=int, help="pixels per side of glyphs (default: 32)")
    add("--norm", choices=("batch", "group"), help="normalisation layers (default: batch)")
    add = parser.add_argument_group("cifar10, cifar100 (AETTA's recipe)").add_argument
    add("--data", help="folder with cifar-10-batches-py/ or cifar-100-python/")
    add("--epochs", type=int, help="default: 200; an interrupted training continues after the last")
    add("--device", help="default: cuda if available, otherwise cpu")
    add = parser.add_argument_group("ensembles, in place of a data set").add_argument
    add(
        "--ensemble", metavar="FILE", help="YAML file (docs/ensembles.md), or one of glyphs, digits"
    )
    add("--jobs", type=int, help="number of processes (default: one per core)")
    return parser


def main(argv: list[str]) -> int:
    """Train an ensemble, or a source model, evaluate it on held-out images and write its weights."""
    args = parser().parse_args(argv)
    if args.ensemble:
        from .ensemble import jobs, load, train  # deferred: imports torch

        todo = jobs(load(args.ensemble))
        total = train(todo, args.jobs)
        print(f"{total:.0f} processor seconds; next: holdfast estimators agree {todo[0].out}")
        return 0
    check(args)
    from .source_models import write_cifar, write_embedded  # deferred: imports torch

    if args.name in ("glyphs", "digits"):
        out = args.out or Path("runs/source", f"{args.name}.safetensors")
        options = {key: getattr(args, key) for key in EMBEDDED if getattr(args, key) is not None}
        facts = write_embedded(out, args.name, args.seed, **options)
    else:
        out = args.out or Path("runs/source", f"{args.name}-seed{args.seed}.safetensors")
        facts = write_cifar(out, args.name, args.seed, args.data, args.epochs, args.device)
    print(
        f"{out}: accuracy {facts['accuracy']} with running statistics, "
        f"{facts['accuracy_batch_statistics']} with those of batches of 64"
    )
    return 0


def check(args: argparse.Namespace) -> None:
    """Refuse options of another data set, and values out of range."""
    own = [key for key in OPTIONS[args.name] if (args.name, key) != ("digits", "size")]
    for key in {*EMBEDDED, *CIFAR} - {*own}:
        if getattr(args, key) is not None:
            listed = ", ".join(f"--{known}" for known in own)
            raise HoldfastError(f"{args.name} has no --{key}. Choose from {listed}.")
    if "data" in own and args.data is None:
        raise HoldfastError(
            f"{args.name} needs its images. Pass --data FOLDER, in torchvision's layout."
        )
    in_range(4, steps=args.steps)  # for the learning rate to rise and fall
    in_range(1, width=args.width, epochs=args.epochs)
