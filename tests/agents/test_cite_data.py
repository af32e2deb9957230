"""The data file and mini-cite: what is refused, and that mini-cite has what it promises."""

import json

import pytest
from cite_samples import row, write

from holdfast import HoldfastError
from holdfast.agents.baselines import baseline
from holdfast.agents.data import COLUMNS, MINI_CITE, MINI_CITE_CORPUS, load
from holdfast.agents.episode import Episode
from holdfast.agents.matching import official_match
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


def test_mini_cite_has_what_the_issue_asks_for():
    data, search = load("mini-cite"), LocalSearch(MINI_CITE_CORPUS)
    test = data.select("test")
    assert 40 <= len(data.samples) <= 60
    assert 150 <= sum(not i.startswith("note-") for i in search.papers) <= 300
    assert sum(len(s.titles) > 1 for s in data.samples) >= 5
    assert not data.is_published
    titles = {p.title: p for p in search.papers.values()}
    for sample in data.samples:
        assert sample.titles[0] in titles
        assert sample.source_title in titles  # the source itself is a distractor
        paper = titles[sample.titles[0]]
        assert Scope(sample.source_title, sample.date).admits(paper)
        assert paper.title.lower() not in sample.excerpt.lower()
    later = [
        (s.id, p.id)
        for s in test.samples
        for p in search.papers.values()
        if official_match(p.title, s.titles, 0.6)
        and s.date
        and not Scope(s.source_title, s.date).admits(p)
    ]
    assert ("mini-46", "rdumb-2023") in later  # resembles GDumb, but is newer than the source


def test_some_targets_are_reachable_only_through_a_reference_list():
    data = load("mini-cite")
    oracle, search = baseline("oracle-if-found", str(MINI_CITE_CORPUS))
    rules, _ = baseline("rules", str(MINI_CITE_CORPUS))
    hidden, followed = [], []
    for sample in data.samples:
        episode = Episode(sample, search)
        try:
            oracle(episode)
        except Exception:
            hidden.append(sample)
    for sample in hidden:
        episode = Episode(sample, search)
        rules(episode)
        if official_match(episode.selection.title, sample.titles):
            followed.append(sample.id)
    assert len(hidden) >= 5
    assert len(followed) >= 3
    listed = {
        title
        for p in search.papers.values()
        for title in [search.papers[r].title for r in p.references]
    }
    assert all(s.titles[0] in listed for s in hidden)


def test_corpus_is_marked_as_ours_and_approximate():
    for line in MINI_CITE_CORPUS.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        assert entry["citations"] in (1, 10, 100, 1000, 10_000, 100_000)
        assert entry["approximate"] == ["citations"]
    assert MINI_CITE.stem == "mini-cite"
