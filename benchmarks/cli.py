"""The `holdfast` command: finds and runs the subcommand's module; imports nothing heavy."""

import argparse
import gc
import importlib
import os
import sys
from types import ModuleType

from .. import HoldfastError
from ..class_paths import allowing
from .commands import COMMANDS, GROUPS


def help_text() -> str:
    """The commands, group by group."""
    lines = []
    for group, commands in GROUPS.items():
        lines += [f"{group}:"]
        lines += [f"  {name:13} {command.help}" for name, command in commands.items()] + [""]
    return "\n".join(
        [
            *lines,
            "holdfast COMMAND --help shows a command's own options; holdfast --version, the version.",
            "--allow NAME, of any command: configurations may name classes of this module, which is in "
            "the\ncurrent folder; several are separated by commas.",
        ]
    )


def imported(name: str) -> ModuleType:
    """Import a module of this package, without garbage collection, as its objects stay alive."""
    looking = gc.isenabled()
    gc.disable()
    try:
        return importlib.import_module(name, __package__)
    finally:
        if looking:
            gc.enable()


def main(argv: list[str] | None = None) -> int:
    """Run `holdfast COMMAND ...` and return its exit status (2: invalid input)."""
    parser = argparse.ArgumentParser(
        prog="holdfast",
        usage="holdfast COMMAND ...",
        description="Test-time adaptation under continual corruption, and citation attribution.",
        epilog=help_text(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", metavar="COMMAND", choices=COMMANDS, help=argparse.SUPPRESS)
    argv = sys.argv[1:] if argv is None else argv
    if argv[:1] == ["--version"]:
        from importlib.metadata import version  # here: it would double the time to start

        print("holdfast", version("holdfast"))
        return 0
    name = parser.parse_args(argv[:1]).command
    # Before torch starts its threads: spinning ones slow small networks down where cores are shared.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        with allowing(argv[1:]) as words:
            command = COMMANDS[name]
            module = imported(command.quick or command.module)
            if command.quick and not module.is_quick(words):
                module = imported(command.module)
            status = module.main(words) or 0
        sys.stdout.flush()  # here, where a closed pipe is handled
        return status
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except HoldfastError as error:
        print(f"holdfast {name}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stop:
        print(f"holdfast {name}: {str(stop) or 'interrupted'}", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
