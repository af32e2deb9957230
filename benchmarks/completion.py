"""`holdfast completion`: print a script for bash, zsh or tcsh that completes commands and options.

bash: holdfast completion bash > ~/.local/share/bash-completion/completions/holdfast
zsh:  holdfast completion zsh > FOLDER/_holdfast, where FOLDER is in $fpath
"""

import argparse
from pathlib import Path
from typing import Any

import shtab

from ..command_parser import Parser
from ..commands import COMMANDS
from .run import cli_help as help


def parser() -> Parser:
    """The options of the command."""
    parser = Parser("completion", __doc__, "bash > holdfast.bash")
    parser.add("shell", choices=shtab.SUPPORTED_SHELLS)
    return parser


def main(argv: list[str]) -> int:
    """Print the script, which completes without starting Python."""
    print(shtab.complete(everything(), parser().parse_args(argv).shell))
    return 0


def everything() -> argparse.ArgumentParser:
    """One parser with all commands; importing them takes seconds."""
    whole = argparse.ArgumentParser(prog="holdfast")
    commands = whole.add_subparsers()
    for name, row in COMMANDS.items():
        if name == "test":
            add(commands, name, row.help, help.parser())
        elif not row.parts:
            add(commands, name, row.help, row.load().parser())
        else:
            further = commands.add_parser(name, help=row.help).add_subparsers()
            for part, own in row.parts.items():
                add(further, part, own.help, own.load().parser())
    return whole


def add(commands: Any, name: str, summary: str, own: argparse.ArgumentParser) -> None:
    """Add a command with the options of its parser; paths are completed as files."""
    for action in own._actions:
        takes_words = action.nargs != 0 and action.choices is None
        if action.type is Path or (takes_words and not action.option_strings):
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    commands.add_parser(name, help=summary, parents=[own], add_help=False)
