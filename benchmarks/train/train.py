"""`holdfast train`: train the source model of a data set, with its provenance, or an ensemble of models."""

import argparse
from pathlib import Path

from ... import in_range
from ..common_options import command_parser

_EMBEDDED = ("glyphs", "digits")
_LAYOUTS = {
    "cifar10": "cifar-10-batches-py/, or with train/ and test/",
    "cifar100": "cifar-100-python/, or with train/ and test/",
    "tiny-imagenet": "train/SYNSET/ and val/SYNSET/",
}


def parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__, "train glyphs --seed 1")
    subjects = parser.add_subparsers(dest="name", required=True)
    for name in (*_EMBEDDED, *_LAYOUTS):
        embedded, cifar = name in _EMBEDDED, name.startswith("cifar")
        model = "AETTA's ResNet-18 or a ResNet-20" if cifar else "a small ResNet"
        about = f"train {'the embedded network' if embedded else model} for {name}"
        add = subjects.add_parser(name, help=about).add_argument
        add("--seed", type=int, default=0, help="default: 0")
        add("--out", type=Path, help="file of the weights (default: in runs/source)")
        if embedded:
            add("--steps", type=int, help="number of batches of 128 images")
            add("--width", type=int, default=16, help="channels of the first layer (default: 16)")
        else:
            epochs = "200, or 50 (resnet20)" if cifar else "30"
            add("--data", required=True, help=f"folder with {_LAYOUTS[name]}")
            add("--epochs", type=int, help=f"default: {epochs}; continues after the last")
        if cifar:
            nets = ("resnet18", "resnet20")
            add("--net", choices=nets, default="resnet18", help="default: resnet18")
        else:
            add("--norm", choices=("batch", "group"), default="batch", help="default: batch")
    about = "train models that differ in one factor"
    add = subjects.add_parser("ensemble", help=about).add_argument
    add("file", help="YAML file (docs/ensembles.md), or one of glyphs, digits")
    add("--jobs", type=int, help="number of processes (default: one per core)")
    return parser


def main(argv: list[str]) -> int:
    """Train an ensemble, or a source model, evaluate it on held-out images and write its weights."""
    options = vars(parser().parse_args(argv))
    name = options.pop("name")
    # Deferred: torch is slow to import.
    if name == "ensemble":
        from .ensemble import jobs, load, train

        config = load(options["file"])
        total = train(jobs(config), options["jobs"])
        print(f"{total:.0f} processor seconds; next: holdfast estimators agree {config['out']}")
        return 0
    from .source_models import write_cifar, write_embedded
    from .tiny_imagenet import write_tiny_imagenet

    # The learning rate of fewer than four steps could not rise and fall.
    in_range(4, steps=options.get("steps"))
    in_range(1, width=options.get("width"), epochs=options.get("epochs"))
    ending = "-resnet20" if options.get("net") == "resnet20" else ""
    ending += "-group" if options.get("norm") == "group" and name == "tiny-imagenet" else ""
    ending += "" if name in _EMBEDDED else f"-seed{options['seed']}"
    out = options.pop("out") or Path("runs/source", f"{name}{ending}.safetensors")
    write = write_tiny_imagenet if name == "tiny-imagenet" else write_cifar
    facts = (write_embedded if name in _EMBEDDED else write)(out, name, **options)
    print(
        f"{out}: accuracy {facts['accuracy']} with running statistics, "
        f"{facts['accuracy_batch_statistics']} with those of batches of 64"
    )
    return 0
