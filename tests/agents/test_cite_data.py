"""The data file and mini-cite: what is refused, and that mini-cite has what it promises."""

import json
import re

import pytest
from cite_samples import row, write
from common import ROOT

from holdfast import HoldfastError
from holdfast.agents.cite import main
from holdfast.agents.data import COLUMNS, MINI_CITE_CORPUS, load
from holdfast.agents.search.local import LocalSearch
from holdfast.agents.search.provider import Scope

# ---- data file ----


@pytest.mark.parametrize("delimiter", [",", "\t"])
def test_loads_both_delimiters_and_odd_but_valid_cells(tmp_path, delimiter):
    rows = [
        row(id="a", target_paper_title="One[TITLE_SEPARATOR] Two", year="2023.0"),
        row(id="b", excerpt='A, "quoted"\ttext [CITATION]\nover two lines', year=""),
        row(id="c", year="2023-05-17", split="Train"),
    ]
    data = load(write(tmp_path / "d.csv", rows, delimiter))
    assert data.samples[0].titles == ("One", "Two")
    assert [s.date for s in data.samples] == ["2023", None, "2023-05-17"]
    assert [s.year for s in data.samples] == [2023, None, 2023]
    assert [s.id for s in data.select("train").samples] == ["c"]
    assert "n = 3, split = all, 1 with several accepted titles, 1 without a year" in data.describe()


def test_every_malformed_row_is_named_by_number(tmp_path):
    rows = [
        row(id="a"),
        row(id="a"),
        row(id="c", excerpt="no marker"),
        row(id="d", target_paper_title=" [TITLE_SEPARATOR] "),
        row(id="e", split="dev"),
        row(id="f", year="about 2020"),
        row(id="g"),
    ]
    path = write(tmp_path / "d.csv", rows)
    path.write_text(path.read_text() + "h,too,few\n")
    with pytest.raises(HoldfastError) as caught:
        load(path)
    message = str(caught.value)
    assert "6 malformed" in message
    assert [k for k in range(2, 10) if f"row {k} (" in message] == [3, 4, 5, 6, 7, 9]


def test_unusable_files_are_refused_in_one_sentence(tmp_path):
    (tmp_path / "latin.csv").write_bytes("id,é".encode("latin-1"))
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    (tmp_path / "empty.csv").write_text(",".join(COLUMNS) + "\n")
    for name, said in [
        ("latin", "UTF-8"),
        ("other", "lacks"),
        ("empty", "no rows"),
        ("no", "read"),
    ]:
        with pytest.raises(HoldfastError, match=said):
            load(tmp_path / f"{name}.csv")
    with pytest.raises(HoldfastError, match="train"):
        load(write(tmp_path / "d.csv", [row()])).select("train")


# ---- mini-cite ----


def test_excerpts_of_mini_cite_have_a_target_in_scope_beside_distractors():
    data, search = load("mini-cite"), LocalSearch(MINI_CITE_CORPUS)
    titles = {p.title: p for p in search.papers.values()}
    assert not data.is_published
    assert sum(len(s.titles) > 1 for s in data.samples) >= 5
    for sample in data.samples:
        paper = titles[sample.titles[0]]
        assert sample.source_title in titles  # the source itself is a distractor
        assert Scope(sample.source_title, sample.date).admits(paper)
        assert paper.title.lower() not in sample.excerpt.lower()


def test_the_demo_gives_the_table_of_the_guide_and_runs_to_score_and_compare(tmp_path, capsys):
    """The guide lists correct, accuracy with interval, and found; the demo also strict."""
    assert main(["demo", "--out", str(tmp_path)]) == 0
    shown = re.findall(r"^\S+ +(\d+)/43 +(\S+ \[.*\]) +\S+ +(\S+)", capsys.readouterr().out, re.M)
    guide = (ROOT / "docs" / "guides" / "citeme.md").read_text()
    listed = re.findall(r"^\| .* \| (\d+) \| (\S+ \[.*\]) \| (\S+) \|$", guide, re.M)
    assert len(shown) == 5
    assert shown == listed
    a, b = (str(tmp_path / f"{name}.jsonl") for name in ("rules", "random"))
    assert main(["score", a, b, "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert [f"{figures[run]['accuracy']['k']}" for run in (b, a)] == [k for k, *_ in shown[2::2]]
    assert main(["score", a, b]) == 0
    assert "not a CiteME score" in capsys.readouterr().out
    assert main(["compare", a, b]) == 0
    assert "exact McNemar p = 0.0000" in capsys.readouterr().out
