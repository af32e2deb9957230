"""The `holdfast` command, which runs the subcommand's module; this module imports nothing slow."""

import argparse
import os
import sys

from .. import HoldfastError
from ..commands import COMMANDS, GROUPS, run_part


def help_text() -> str:
    """The list of commands by group."""
    lines = []
    for group, commands in GROUPS.items():
        lines += [f"{group}:"]
        lines += [f"  {name:13} {command.help}" for name, command in commands.items()] + [""]
    return "\n".join(
        [
            *lines,
            "Run holdfast COMMAND --help for the options of a command, holdfast --version for the version.",
            "Configurations may name classes of modules in the current folder.",
        ]
    )


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
        from importlib.metadata import version  # deferred: slow import

        print("holdfast", version("holdfast"))
        return 0
    name = parser.parse_args(argv[:1]).command
    # Set before torch starts its threads: spinning threads slow down small networks on shared cores.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    sys.path.insert(0, os.getcwd())  # as `python -m`, for the user's own classes
    try:
        command = COMMANDS[name]
        if not command.module:
            return run_part(name, argv[1:])
        status = command.load().main(argv[1:]) or 0
        sys.stdout.flush()  # inside the block that handles a closed pipe
        return status
    except BrokenPipeError:  # the reader, such as `| head`, has closed the pipe
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
