"""`holdfast check-method`: check the contract that all methods must satisfy, and report what to change."""

import argparse
import io
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from contextlib import nullcontext as allowing
from functools import partial
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import nn

from .. import HoldfastError, methods
from ..command_parser import Parser
from ..methods import TTAMethod
from ..methods.backbones.user_network import imported
from ..methods.contract import CHECKS, NETS, Check, Make
from ..methods.contract.devices import compare, on_two_devices
from .test import silence_lightning

TITLES = {"bn": "batch norm", "gn": "group norm", "vit": "ViT"}
SYNC = "two devices that divide each batch give the results of one device (strategy sync)"
HOLDS, FAILS, NOT_ASKED, REFUSED = "holds", "FAILS", "", "refused"
TIMEOUT = 600  # seconds for the run on two devices


def parser() -> Parser:
    """The options of the command."""
    parser = Parser("check-method", __doc__, "RoTTA --set capacity=8 every=4")
    parser.add(
        "method",
        help="name of a method, or class path of a method or of a function from backbone to method",
    )
    parser.add(
        "--set",
        nargs="+",
        default=[],
        metavar="NAME=VALUE",
        help="arguments with which a step on six 8 x 8 images updates the model (default: the method's "
        "`workloads`)",
    )
    parser.add(
        "--nets", nargs="+", choices=NETS, default=list(NETS), help="networks (default: all)"
    )
    parser.add("--only", nargs="+", choices=[*CHECKS, "sync"], help="checks (default: all)")
    parser.add("--ranks", type=Path, help=argparse.SUPPRESS)  # see `sync`
    return parser


def main(argv: list[str]) -> int:
    """Print the table; the exit status is 1 if a check fails."""
    args = parser().parse_args(argv)
    silence_lightning()
    torch.set_num_threads(1)
    with allowing(
        ["--allow", args.method.partition(".")[0]]
    ):  # the user names it on the command line
        return checked(args)


def checked(args: argparse.Namespace) -> int:
    """Run the checks and print the table; returns the exit status."""
    make = maker(args.method, args.set)
    if args.ranks:
        torch.save(on_two_devices(make, first_net(make, args.nets)), args.ranks)
        return 0
    refusals = {net: sentence for net in args.nets if (sentence := refusal(make, net))}
    if len(refusals) == len(args.nets):
        raise HoldfastError(f"{args.method} refuses all networks: {refusals[args.nets[0]]}")
    print(f"{args.method}\n{'':24}{''.join(f'{TITLES[net]:12}' for net in args.nets)}")
    wrong: list[str] = []
    for name, check in CHECKS.items():
        if name in (args.only or CHECKS):
            cells = [cell(name, check, make, net, refusals, wrong) for net in args.nets]
            print(f"{name:24}{''.join(f'{c:12}' for c in cells)}{check.promise}", flush=True)
    if "sync" in (args.only or ["sync"]):
        sentence = attempt(partial(sync, make, args))
        wrong += [f"sync: {sentence}"] if sentence else []
        print(f"{'sync':24}{FAILS if sentence else HOLDS:{12 * len(args.nets)}}{SYNC}")
    for net, sentence in refusals.items():
        print(f"\n{TITLES[net]} is refused: {sentence}")
    for sentence in wrong:
        print(f"\n{sentence}")
    return int(bool(wrong))


def maker(name: str, settings: list[str]) -> Make:
    """The function that constructs the method from a backbone.

    Raises:
        HoldfastError: if there is no such method, or an argument has no value.
    """
    kind = imported(name) if "." in name else getattr(methods, name, None)
    if not callable(kind):
        raise HoldfastError(
            f"There is no method {name}. Choose from {', '.join(methods.__all__)}, or pass the class "
            "path of your own."
        )
    given = {}
    for text in settings:
        key, equals, value = text.partition("=")
        if not equals:
            raise HoldfastError(f"--set {text} has no value. Write --set {text}=VALUE.")
        given[key] = yaml.safe_load(value)
    if not given and isinstance(kind, type) and issubclass(kind, TTAMethod):
        *_, given = kind.workloads.values()
    try:
        found = kind(NETS["bn"](), **given)
    except TypeError as error:
        raise HoldfastError(f"{name} cannot be constructed: {error}. Change --set.") from error
    except HoldfastError:
        return partial(kind, **given)  # it may accept other networks
    if not isinstance(found, TTAMethod):
        raise HoldfastError(
            f"{name} returns a {type(found).__name__}. Pass a subclass of TTAMethod."
        )
    return partial(kind, **given)


def refusal(make: Make, net: str) -> str:
    """The reason why the method refuses a network; "" if it accepts it."""
    try:
        make(NETS[net]())
    except HoldfastError as error:
        return str(error)
    return ""


def first_net(make: Make, names: list[str]) -> Callable[[], nn.Module]:
    """The first of these networks that the method accepts."""
    return NETS[next(net for net in names if not refusal(make, net))]


def cell(
    name: str, check: Check, make: Make, net: str, refusals: dict[str, str], wrong: list[str]
) -> str:
    """The result of a check on a network; a failure's message is added to `wrong`."""
    if net in refusals or net not in check.nets:
        return REFUSED if net in refusals else NOT_ASKED
    sentence = attempt(partial(check.verify, make, NETS[net]))
    if sentence:
        wrong.append(f"{name} ({TITLES[net]}): {sentence}")
    return FAILS if sentence else HOLDS


def attempt(check: Callable[[], Any]) -> str:
    """The message of a failed check or of an error in the method's code; "" if the check passes."""
    try:
        check()
    except HoldfastError as error:
        return str(error)
    except Exception as error:  # the user's method may raise anything
        place = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {error} ({Path(place.filename).name}, line {place.lineno})"
    return ""


def sync(make: Make, args: argparse.Namespace) -> None:
    """Compare a run on two devices, in separate processes, with a run on one device."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "ranks.pt"
        words = ["--nets", *args.nets, "--ranks", str(file)] + (
            ["--set", *args.set] * bool(args.set)
        )
        command = [sys.executable, "-m", __spec__.name, args.method]
        done = subprocess.run([*command, *words], capture_output=True, text=True, timeout=TIMEOUT)
        if done.returncode:
            raise HoldfastError(
                f"The method fails on two devices: {(done.stderr.strip() or '?').splitlines()[-1]}. "
                "Call networks through self.logits."
            )
        compare(torch.load(io.BytesIO(file.read_bytes())), make, first_net(make, args.nets))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
