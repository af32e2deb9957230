"""`holdfast paper field/...`: the rates in use are those of the rule, and what the main table sums up."""

import json
from pathlib import Path

import pytest
from made_up import put

from holdfast.benchmarks.papers.experiment import experiments
from holdfast.benchmarks.papers.field import all_methods
from holdfast.benchmarks.papers.rdumb import rates
from holdfast.benchmarks.papers.table import Table
from holdfast.benchmarks.presets import presets
from holdfast.benchmarks.results.runs import collect

RATES = Table.read(experiments()["field/rates"].committed["table"])


@pytest.mark.parametrize("method", RATES.curves())
def test_the_rates_are_those_of_the_rule(method: str) -> None:
    own = presets("methods")[f"{method.lower()}-glyphs"]
    assert own["init_args"]["optimizer"]["init_args"]["lr"] == rates.rates(RATES, method)[1]


def test_worst_seed_and_collapse(tmp_path: Path) -> None:
    for seed, end in ((1, 0.5), (2, 0.0)):
        for method, accuracy in (("Source", [0.3] * 80), ("Tent", [0.5] * 40 + [end] * 40)):
            names = {"method": method, "override": "", "stream": "s", "setting": "s", "seed": seed}
            put(tmp_path / str(seed) / method, names, {}, accuracy, seconds=1 + (method == "Tent"))
    runs = collect(tmp_path)
    for run in runs:
        run.factors = {"labels": "i.i.d.", "difficulty": "Easy"}
    found = all_methods.table(runs)
    of_tent = {x: found.mean("i.i.d.", "Tent", x) for x in found.of("i.i.d.", "Tent")}
    assert of_tent["CCC-Easy"] == pytest.approx(37.5)
    assert (of_tent[all_methods.WORST], of_tent[all_methods.COLLAPSED]) == (pytest.approx(25), 50)
    assert 400 < of_tent[all_methods.WHEN] <= 410 + 10 * 20
    costs = json.loads(all_methods.STEP_COSTS.read_text())["methods"]
    assert of_tent[all_methods.COST] == costs["Tent"]["sources"]
