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
        help="glyphs, digits, tiny-imagenet:FOLDER, or a folder with one sub-folder per class",
    )
    size = (
        "pixels per side (default: the backbone's, resized as its weights were evaluated, or 224)"
    )
    parser.add_argument("--size", type=int, help=size)
    parser.add_argument(
        "--labels",
        choices=("folders", "numbers", "imagenet"),
        help="labels of a folder's images: folders numbers its sub-folders from 0 in alphabetical order, "
        "numbers takes the numbers that are their names, imagenet ImageNet's numbers of the synsets that "
        "are (default: numbers or imagenet where the names are such)",
    )


def add_protocol(parser: argparse.ArgumentParser, crop: str, quality: int | None) -> None:
    """Add the options of how images are cropped and compressed, with their defaults."""
    parser.add_argument(
        "--crop",
        choices=("center", "random"),
        default=crop,
        help=f"of a folder's images; random: as CCC crops them (default: {crop})",
    )
    parser.add_argument(
        "--quality",
        type=int,
        default=quality,
        help=f"JPEG quality of the corrupted images (default: {quality or 'no compression'})",
    )
