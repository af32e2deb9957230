"""`holdfast status`: show the progress, owners and errors of the runs in a folder."""

from pathlib import Path

from ...command_parser import Parser
from ..results.run_state import STATES, Progress, fault, folders, state
from ..results.text_table import aligned


def line(folder: Path, name: str) -> tuple[str, ...]:
    """A run's row in the table."""
    found = state(folder)
    accuracy = images = speed = left = ""
    if not fault(folder) and (progress := Progress(folder)).images:
        accuracy, images, speed, left = progress.texts()
    if found.name != "running":
        speed = left = ""
    return (name, found.name, accuracy, images, speed, left, found.note)


def parser() -> Parser:
    """The options of the command."""
    parser = Parser("status", __doc__, "runs/demo")
    parser.add("folder", type=Path, help="folder of a run or of a suite")
    return parser


def main(argv: list[str]) -> int:
    """Print one line per run, then the number of runs in each state."""
    args = parser().parse_args(argv)
    lines = [line(f, f.relative_to(args.folder).as_posix()) for f in folders(args.folder)]
    if not lines:
        print(f"{args.folder} contains no runs yet")
        return 0
    print(aligned(lines))
    count = {name: sum(line[1] == name for line in lines) for name in STATES}
    print(f"{len(lines)} runs: " + ", ".join(f"{n} {name}" for name, n in count.items() if n))
    return 0
