"""Options shared by several commands."""

import argparse
import re


def command_parser(about: str | None, example: str) -> argparse.ArgumentParser:
    """The parser of a command, with an example, which begins with the command's name."""
    name = f"holdfast {example.partition(' ')[0]}"
    return argparse.ArgumentParser(name, description=about, epilog=f"example: holdfast {example}")


def share(text: str) -> tuple[int, int]:
    """Parse '2/8' as (2, 8): every eighth part of the work, starting with the third."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if not match or not 0 <= int(match[1]) < int(match[2]):
        raise argparse.ArgumentTypeError(
            f"{text} is not of the form I/N with I < N, as in 0/4 or 3/4"
        )
    return int(match[1]), int(match[2])


def add_share(parser: argparse.ArgumentParser, whole: str) -> None:
    """Add the option that chooses a part of `whole`."""
    help = f"only part I (from 0) of {whole} divided into N parts"
    add = parser.add_argument
    add("--shard", dest="share", type=share, default=(0, 1), metavar="I/N", help=help)


def difficulty(text: str) -> float | str:
    """Parse a difficulty: a name such as 'medium', or an accuracy in percent."""
    return float(text) if text.replace(".", "", 1).isdigit() else text


def add_source(parser: argparse.ArgumentParser, default: str | None = None) -> None:
    """Add the options for the clean images and their size; --source is required without a default."""
    parser.add_argument(
        "--source",
        required=default is None,
        default=default,
        help="glyphs, digits, or a folder with one sub-folder per class",
    )
    parser.add_argument("--size", type=int, help="pixels per side (default: 224; glyphs: 32)")
    parser.add_argument(
        "--labels",
        choices=("folders", "imagenet"),
        help="labels of a folder's images: folders numbers its sub-folders from 0 in alphabetical order, "
        "imagenet takes ImageNet's numbers of the synsets that name them (default: imagenet if one is "
        "named by a synset)",
    )
