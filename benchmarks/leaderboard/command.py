"""`holdfast leaderboard`: compare methods on fixed tracks, add entries, and check entries by replay."""

import argparse
import secrets
from pathlib import Path

from ... import HoldfastError
from ..common_options import command_parser
from ..results.text_table import FORMATS
from ..suites.options import add_data_folders, data_folders
from ..suites.suite import check_data_folders
from .track import EMBEDDED, Track


def parser() -> argparse.ArgumentParser:
    """The parser of `holdfast leaderboard`; without an action it prints the tables."""
    parser = command_parser(__doc__, "leaderboard check Tent.json --share 0.01")
    parser.add_argument("--track", default=EMBEDDED, help="scale of the suite (default: embedded)")
    parser.add_argument("--format", choices=FORMATS[:3], default="text", help="default: text")
    page = "write the tables of the track into docs/leaderboard.md of the clone"
    parser.add_argument("--page", action="store_true", help=page)
    actions = parser.add_subparsers(dest="action", metavar="add|check")
    add = actions.add_parser("add", help="write the entries of finished runs of the track")
    add.add_argument("runs", nargs="+", type=Path, help="folders of runs")
    add.add_argument("--methods", nargs="+", metavar="NAME", help="only these methods")
    add.add_argument("--out", type=Path, help="folder of the entries (default: that of the track)")
    check = actions.add_parser("check", help="replay random batches of an entry and compare")
    check.add_argument("entry", type=Path, help="JSON file")
    share = "share of the batches that is drawn (default: 0.01)"
    check.add_argument("--share", type=float, default=0.01, help=share)
    check.add_argument("--seed", type=int, help="seed of the draw (default: random)")
    runs = "runs of the entry, to replay from their checkpoints where there are some"
    check.add_argument("--runs", type=Path, help=runs)
    add_data_folders(check, "for a track on these images: ")
    return parser


def main(argv: list[str]) -> int:
    """Print or write the tables, add entries, or check one; 1 if a check fails."""
    args = parser().parse_args(argv)
    track = Track(args.track, data=data_folders(args))
    if args.action == "add":
        add(args, track)
    elif args.action == "check":
        return check(args, track)
    elif args.page:
        from .page import write_page  # deferred, as below: slow imports

        print(f"page: {write_page(track)}")
    else:
        from .page import text

        tables = [*text(track, args.format)]
        none = (
            f"The track {track.name} has no entries yet. Add some from runs of `{track.command}`."
        )
        print(*(tables or [none]), sep="\n\n")
    return 0


def add(args: argparse.Namespace, track: Track) -> None:
    """Write the entries of all methods, or of none if a run is refused."""
    from ..results.runs import find, grouped
    from .entry import entry_of

    by_method = grouped([run for run in find(*args.runs) if run.method], lambda run: run.label)
    if args.methods:
        by_method = {name: by_method.get(name, []) for name in args.methods}
    if not by_method or not all(by_method.values()):
        missing = [name for name, runs in by_method.items() if not runs] or ["any method"]
        raise HoldfastError(f"There are no runs of {', '.join(missing)}. Run `{track.command}`.")
    for entry in [entry_of(runs, track) for runs in by_method.values()]:
        print(f"added: {entry.write(args.out or track.folder)}")


def check(args: argparse.Namespace, track: Track) -> int:
    """Check the form of an entry and replay a part of it; returns 1 if it differs."""
    import numpy as np

    from ..results.runs import collect
    from . import check as replays
    from .entry import check_configuration, check_form, read_entry

    entry = read_entry(args.entry)
    check_form(entry, track)
    check_configuration(entry, track)
    seed = secrets.randbits(32) if args.seed is None else args.seed
    check_data_folders([*track.cells(entry.method).values()], track.data)
    same = [run for run in collect(args.runs) if run.label == entry.method] if args.runs else []
    runs = {(run.stream, run.seed): run for run in same}
    random, number = np.random.default_rng(seed), len(entry.runs)
    try:
        for sentence in replays.check(
            entry,
            args.share,
            random,
            lambda e, w: replays.replay(e, w, track, runs.get(w.result.key)),
        ):
            print(sentence, flush=True)
    except HoldfastError as error:
        print(f"{args.entry} fails (--seed {seed}): {error}")
        return 1
    half = min(len(result.counts) for result in entry.runs) // 2
    print(f"{args.entry} passes (--seed {seed}). With this share a check replays a change")
    for runs_changed in dict.fromkeys((number, 1)):
        chances = (replays.detection(entry, args.share, runs_changed, b) for b in (0, half))
        start, middle = (f"{chance:.0%}" for chance in chances)
        print(
            f"- of {runs_changed} of {number} runs: from the start {start}, from the middle {middle}"
        )
    return 0
