"""Measure how far rounding alone moves our own runs of the golden traces.

`python tests/sensitivity.py` measures all, `python tests/sensitivity.py tta2/roid` those that begin so.

Each run is repeated with the last four bits of all weights and images changed at random. That is more
than another processor does, so that also what it does rarely is seen: a ReLU, a sample or a weight on
the other side of its edge. Writes golden/sensitivity.json: for each trace the largest deviation of each
quantity at each step, up to the first step at which a count differs, and that of the tensors at the end.
"""

import json
import sys
from multiprocessing import Pool

import numpy as np
import torch
from common import last_bits
from golden_methods import TRACES
from golden_traces import COUNTS, QUANTITIES, SENSITIVITY, Run, deviation, official, run

ULPS = 16
SEEDS = {torch.float32: 16, torch.float64: 4}  # float64 runs hardly differ


def measure(name: str) -> dict[str, dict]:
    """The sensitivity of one trace."""
    torch.set_num_threads(1)
    trace = TRACES[name]
    ours, theirs = run(trace), official(trace)
    changed = [run(trace, last_bits(seed, ULPS)) for seed in range(SEEDS[trace.dtype])]
    same = min(same_counts(ours, other) for other in changed)
    steps = {
        key: np.max([deviation(other.steps[key], ours.steps[key])[:same] for other in changed], 0)
        for key in theirs.steps
        if key in QUANTITIES
    }
    counts = {key: [0] * same for key in theirs.steps if key in COUNTS}
    final = {
        key: np.max([deviation(other.final[key][None], ours.final[key]) for other in changed])
        for key in theirs.final
        if key in ours.final and same == len(theirs)
    }
    shortened = {key: [float(f"{v:.1e}") for v in values] for key, values in steps.items()}
    return {"steps": shortened | counts, "final": {k: float(f"{v:.1e}") for k, v in final.items()}}


def same_counts(one: Run, two: Run) -> int:
    """How many steps pass before a count differs."""
    differs = [one.steps[key] != two.steps[key] for key in COUNTS if key in one.steps]
    return int(np.argmax([*np.any(differs, axis=0), True])) if differs else len(one)


def main(prefixes: list[str]) -> None:
    names = [name for name in TRACES if name.startswith(tuple(prefixes or [""]))]
    found = json.loads(SENSITIVITY.read_text()) if prefixes else {}
    with Pool(2) as pool:
        found |= dict(zip(names, pool.map(measure, names, chunksize=1), strict=True))
    lines = [f"{json.dumps(name)}: {json.dumps(found[name])}" for name in TRACES if name in found]
    SENSITIVITY.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
