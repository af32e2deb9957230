"""The parser of a command's options; imports nothing heavy."""

import argparse


class Parser(argparse.ArgumentParser):
    """The options of a command; its help ends with an example."""

    add = argparse.ArgumentParser.add_argument

    def __init__(self, command: str, about: str | None, example: str) -> None:
        wrapped = "\n" not in (about or "").strip()
        form = argparse.HelpFormatter if wrapped else argparse.RawDescriptionHelpFormatter
        epilog = f"example: holdfast {command} {example}"
        super().__init__(f"holdfast {command}", None, about, epilog, formatter_class=form)

    def flag(self, name: str, help: str = "") -> None:
        """Add an option without a value."""
        self.add_argument(name, action="store_true", help=help)
