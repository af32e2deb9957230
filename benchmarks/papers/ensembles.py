"""The ensembles of an artefact: training what is missing, and where their predictions lie."""

import argparse
from pathlib import Path

from ..train import ensemble
from .artefact import Artefact
from .table import Table


def of_ensembles(artefact: Artefact, args: argparse.Namespace) -> tuple[Table, list[str]]:
    """The table, and which ensembles lack models, of those in `args.out` or where their files say."""
    assert artefact.of_ensembles is not None
    folders, jobs = [], []
    for name in artefact.suites[args.scale]:
        config = ensemble.load(name)
        config |= {} if args.out is None else {"out": str(Path(args.out, name))}
        config |= {} if args.seeds is None else {"seeds": args.seeds}
        folders.append(Path(config["out"]))
        jobs += ensemble.jobs(config)
    if not args.show:
        ensemble.train([job for job in jobs if job.missing], args.jobs or 1)
    return artefact.of_ensembles(folders), [str(job.folder) for job in jobs if job.missing]
