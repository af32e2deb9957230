"""The benchmark's data, matchers, statistics and scores; mini-cite keeps what it promises."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from cite_samples import record, row, write
from conftest import GOLDEN
from scipy import stats

from holdfast import HoldfastError
from holdfast.agents.baselines import baseline
from holdfast.agents.compare import compare
from holdfast.agents.data import COLUMNS, MINI_CITE, MINI_CITE_CORPUS, load
from holdfast.agents.episode import Episode
from holdfast.agents.matching import (
    identifiers,
    normalise,
    official_hit,
    official_match,
    ratio,
    strict_match,
)
from holdfast.agents.passages import excerpt
from holdfast.agents.protocol import Paper, Scope, Section
from holdfast.agents.report.beside import beside_published, published
from holdfast.agents.report.summary import text
from holdfast.agents.results import header_on
from holdfast.agents.schema import Header
from holdfast.agents.score import score
from holdfast.agents.search.local import LocalSearch
from holdfast.agents.stats import interval_of_mean, mcnemar, proportion, quantile, sign_flip, wilson

MATCHES = json.loads((GOLDEN / "citeme" / "title_matching.json").read_text())
FULL = Scope()


# ---- matching ----


@pytest.mark.parametrize("pair", MATCHES["pairs"], ids=lambda p: p["title1"][:20])
def test_official_matcher_equals_the_official_code(pair):
    a, b = pair["title1"], pair["title2"]
    assert ratio(a, b) == pytest.approx(pair["ratio"], abs=1e-12)
    assert official_match(a, [b]) is pair["is_similar"]
    assert official_match(b, [a]) is pair["is_similar_swapped"]
    assert official_hit(a, [b]) is pair["is_similar_swapped"]
    assert official_match(a, [b], 0.9) is pair["is_similar_thr0_9"]


@pytest.mark.parametrize("case", MATCHES["lists"], ids=range(len(MATCHES["lists"])))
def test_official_search_hit_equals_the_official_code(case):
    for targets, match in [
        ([case["selected"]], case["match"]),
        (case["multi_selected"], case["multi_match"]),
    ]:
        hits = [k for k, title in enumerate(case["papers"]) if official_hit(title, targets)]
        assert bool(hits) == (match is not None)
        assert match is None or match[1] in hits


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ("Fast R-CNN", "Faster R-CNN", False),
        ("GPT-4 Technical Report", "GPT-4V Technical Report", False),
        ("Language models are few-shot learners", "Language models are zero-shot learners", False),
        ("Attention Is All You Need", "Attention Is Not All You Need", False),
        ("Deep Learning in Image Recognition", "Deep Learning in Image Steganalysis", False),
        ("Llama 2: Open models", "Llama 3: Open models", False),
        ("Do CIFAR-10 classifiers generalize?", "Do CIFAR-100 classifiers generalize?", False),
        (
            "Supervised learning of deep image graphs",
            "Unsupervised learning of deep image graphs",
            False,
        ),
        (
            "Deep pose networks for recognition in video",
            "Deep poses networks for recognition in video",
            False,
        ),
        ("", "", False),
        ("BERT: Pre-training of Transformers", "BERT: Pretraining of transformers.", True),
        (
            "Adam: a method for stochastic optimisation",
            "Adam: A Method for Stochastic Optimization",
            True,
        ),
        ("$\\beta$-VAE: Learning Concepts", "β-VAE: learning concepts", True),
        ("beta-VAE: Learning Concepts", "β-VAE: learning concepts", True),
        ("Poincaré Embeddings", "Poincare embeddings", True),
    ],
)
def test_strict_matcher_tells_neighbours_apart(a, b, same):
    assert strict_match(a, [b]) is same
    assert strict_match(b, [a]) is same


def test_identifiers_settle_it():
    target = identifiers("https://arxiv.org/pdf/2407.12861v2.pdf")
    assert target == {"arxiv:2407.12861"}
    assert identifiers("https://doi.org/10.48550/arXiv.2407.12861") >= target
    assert strict_match("Another name altogether", ["A title"], ["arxiv:2407.12861"], target)
    assert not strict_match("Another name altogether", ["A title"], [], target)
    assert normalise("The $\\mathcal{H}$-Divergence") == "the h divergence"


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
    data = load(path, skip_malformed=True)
    assert [s.id for s in data.samples] == ["a", "g"]
    assert "6 malformed rows" in data.describe()


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


def test_published_cells_add_up():
    for cell in published()["rows"]:
        if "outcomes" in cell:
            assert sum(cell["outcomes"].values()) == cell["n"] == 119
            assert cell["outcomes"]["correct"] == cell["correct"]
        if "in_2024" in cell:
            parts = [cell["before_2024"], cell["in_2024"]]
            assert [sum(part[key] for part in parts) for key in ("correct", "n")] == [
                cell["correct"],
                119,
            ]
            for part in parts:
                assert round(100 * part["correct"] / part["n"], 2) == part["printed_percent"]
    assert sum("outcomes" in cell for cell in published()["rows"]) == 23


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
        for title in [search.papers[r].title for r in search._entries[p.id].references]
    }
    assert all(s.titles[0] in listed for s in hidden)


def test_corpus_is_marked_as_ours_and_approximate():
    for line in MINI_CITE_CORPUS.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        assert entry["citations"] in (1, 10, 100, 1000, 10_000, 100_000)
        assert entry["approximate"] == ["citations"]
    assert MINI_CITE.stem == "mini-cite"


# ---- local search ----


def test_search_keeps_to_scope_limit_and_order():
    search = LocalSearch(MINI_CITE_CORPUS)
    hits = search.search("entropy minimization test-time adaptation", "relevance", FULL, 10)
    assert len(hits) == 10
    assert hits[0].id == "tent-2021"
    scoped = search.search(
        "entropy minimization test-time adaptation", "relevance", Scope(hits[0].title, "2021"), 10
    )
    assert len(scoped) == 10
    assert all((p.year or 0) <= 2021 and p.id != "tent-2021" for p in scoped)
    cited = search.search("entropy minimization test-time adaptation", "citations", FULL, 10)
    counts = [p.citations or 0 for p in cited]
    assert counts == sorted(counts, reverse=True)


@pytest.mark.parametrize("query", ['"', "NEAR(", "a AND OR *", "title:x", "", "的", "' --", "^x"])
def test_no_query_text_is_read_as_grammar(query):
    LocalSearch(MINI_CITE_CORPUS).search(query, "relevance", FULL, 5)


def test_dates_are_compared_in_full_where_both_are_known():
    old, new = Paper("a", "A", date="2023-01-02"), Paper("b", "B", date="2023-11-02")
    assert [Scope("", "2023-06-01").admits(p) for p in (old, new)] == [True, False]
    assert [Scope("", "2023").admits(p) for p in (old, new)] == [True, True]
    assert [Scope("", "2022").admits(p) for p in (old, new)] == [False, False]
    assert Scope("", "2023-06-01").admits(Paper("c", "C", year=2023))
    assert Scope("", "2020").admits(Paper("d", "D"))


def test_broken_corpus_lines_are_named(tmp_path):
    path = tmp_path / "c.jsonl"
    for lines, said in [
        ('{"id": 1}\n', "line 1"),
        ("", "empty"),
        ('{"id":"a","title":"x"}\n' * 2, "line 2"),
    ]:
        path.write_text(lines)
        with pytest.raises(HoldfastError, match=said):
            LocalSearch(path)


def test_reading_shows_parts_and_what_was_cut():
    paper = [Section(f"page {k}", "x" * 100) for k in range(1, 6)]
    assert "within section 2 of 5" in excerpt(paper, "", 200)
    assert excerpt(paper, "4-5", 10_000).startswith("## 4. page 4")
    assert "(Sections 4 to 5 of 5.)" in excerpt(paper, "pages 4-5", 10_000)
    assert excerpt(paper, "page 3", 10_000).startswith("## 3. page 3")
    assert excerpt(paper, "99", 10_000).startswith("## 1. page 1")


# ---- statistics and scores ----


def test_statistics_agree_with_scipy():
    for k, n in [(0, 10), (42, 119), (119, 119), (1, 3)]:
        expected = stats.binomtest(k, n).proportion_ci(method="wilson")
        assert wilson(k, n) == pytest.approx((expected.low, expected.high), abs=1e-6)
    for a, b in [(0, 0), (5, 1), (10, 10), (0, 7)]:
        expected = stats.binomtest(a, a + b).pvalue if a + b else 1.0
        assert mcnemar(a, b) == pytest.approx(expected)
    assert quantile([4, 1, 3, 2], 0.5) == 2.5
    assert quantile([], 0.5) is None


def header_of(agent, provider, **budget):
    content = header_on(load("mini-cite"), agent, provider, budget)
    return Header.model_validate({"type": "header", "schema": 1, "config": "", **content})


def scores_of(records, tmp_path, **options):
    rows = [
        row(id="a", target_paper_title="Alpha networks", year="2022"),
        row(id="b", target_paper_title="Beta methods for graphs", year="2023"),
        row(id="c", target_paper_title="Gamma", year=""),
    ]
    data = load(write(tmp_path / "d.csv", rows))
    return score({(r.sample, r.repeat): r for r in records}, data, **options), data


def test_provider_errors_stand_apart_and_rank_one_counts_as_found(tmp_path):
    s, data = scores_of(
        [
            record("a", title="Alpha Networks", hits=["Alpha networks", "Other"]),
            record("b", title="Other", hits=["x", "Beta methods for graphs"]),
            record("c", status="provider_error"),
        ],
        tmp_path,
        usd_per_million=(2.0, 10.0),
    )
    assert (s.accuracy.k, s.accuracy.n, s.n_expected) == (1, 2, 3)
    assert s.found_in_search.k == 2
    assert s.best_rank_median == 1.5
    assert s.accuracy_given_found.rate == 0.5
    assert s.found_not_selected == 1
    assert s.provider_errors == {"provider_error": 1}
    assert s.outcomes == {"correct": 1, "wrong": 1}
    assert s.tokens == {"input": 20, "output": 10}
    assert s.usd == pytest.approx(20 * 2e-6 + 10 * 10e-6)
    assert s.by_year["2022"].rate == 1.0
    assert s.seconds == {"mean": 2.0, "p50": 2.0, "p90": 2.0}
    assert s.usd_per_sample["mean"] == pytest.approx(10 * 2e-6 + 5 * 10e-6)
    assert s.tokens_per_sample["p90"] == 15.0
    assert s.by_cutoff is None
    header = header_of({"name": "x"}, {"name": "local"})
    report = text(header, s, data)
    assert "UNFINISHED: 2 of 3" in report
    assert "n = 3, split = all" in report


def test_repeats_give_mean_and_deviation(tmp_path):
    good = [record(i, title=t) for i, t in [("a", "Alpha networks"), ("c", "Gamma")]]
    bad = [record("a", title="no", repeat=1), record("c", title="Gamma", repeat=1)]
    s, _ = scores_of(good + bad, tmp_path, repeats=2)
    assert s.per_repeat["mean"] == pytest.approx(0.75)
    assert s.per_repeat["sd"] == pytest.approx(0.25 * 2**0.5)
    assert (s.accuracy.k, s.accuracy.n, s.missing) == (3, 4, 2)
    assert (s.accuracy.low, s.accuracy.high) == wilson(1.5, 2)


def test_a_year_divides_the_samples_by_their_source(tmp_path):
    given = [record(i, title=t) for i, t in [("a", "Alpha networks"), ("b", "no"), ("c", "Gamma")]]
    s, data = scores_of(given, tmp_path, cutoff=2023)
    cut = s.by_cutoff
    # The third sample has no year and stands in neither part.
    assert [(cut[k].k, cut[k].n) for k in ("before", "since")] == [(1, 1), (0, 1)]
    header = header_of({"name": "x"}, {"name": "local"})
    assert "source since 2023   0/1" in text(header, s, data)


def test_comparison_is_paired_over_what_both_answered(tmp_path):
    _, data = scores_of([record("a", title="x")], tmp_path)
    one = [record("a", title="Alpha networks"), record("b", title="no"), record("c", title="Gamma")]
    two = [record("a", title="no"), record("b", title="no"), record("c", status="crash")]
    a, b = ({(r.sample, 0): r for r in records} for records in (one, two))
    figures = compare(a, b, data)
    assert (figures["pairs"], figures["only_a"], figures["only_b"], figures["neither"]) == (
        2,
        1,
        0,
        1,
    )
    assert (figures["p"], figures["test"]) == (1.0, "exact McNemar")


def test_comparison_of_repeated_runs_counts_a_sample_once(tmp_path):
    _, data = scores_of([record("a", title="x")], tmp_path)
    right = {"a": "Alpha networks", "b": "Beta methods for graphs", "c": "Gamma"}
    # A gets a and c right in all three repeats and b in one; B gets c right, in its only two.
    one = [record(i, title=right[i], repeat=k) for i in "ac" for k in range(3)]
    one += [record("b", title=right["b"] if k == 1 else "no", repeat=k) for k in range(3)]
    two = [record(i, title=right[i] if i == "c" else "no", repeat=k) for i in "abc" for k in (0, 1)]
    a, b = ({(r.sample, r.repeat): r for r in records} for records in (one, two))
    figures = compare(a, b, data)
    assert figures["pairs"] == 3
    assert figures["difference"] == pytest.approx((1 + 1 / 3 + 0) / 3)
    assert figures["a"] == pytest.approx({"mean": 7 / 9, "sd": 3**0.5 / 9, "repeats": 3})
    assert figures["b"] == pytest.approx({"mean": 1 / 3, "sd": 0.0, "repeats": 2})
    assert (figures["test"], figures["p"]) == ("sign flips over samples", 0.5)
    assert (figures["both"], figures["only_a"], figures["neither"]) == (1, 1, 1)


def test_flipping_signs_is_the_tests_that_it_should_be():
    """Of yes/no answers McNemar's, of others scipy's permutation test."""
    for a, b in [(0, 0), (5, 1), (6, 6), (0, 7)]:
        assert sign_flip([1.0] * a + [-1.0] * b + [0.0] * 9) == pytest.approx(mcnemar(a, b))
    many = [1.0] * 22 + [-1.0] * 9
    assert sign_flip(many) == pytest.approx(mcnemar(22, 9), abs=0.005)
    values = [0.2, -0.4, 0.6, 0.6, 1.0, 0.2, -0.2, 0.8]
    expected = stats.permutation_test((values,), np.mean, permutation_type="samples")
    assert sign_flip(values) == pytest.approx(expected.pvalue)
    low, high = interval_of_mean(values * 20)
    error = np.std(values) / len(values * 20) ** 0.5
    assert (low, high) == pytest.approx(
        (np.mean(values) - 1.96 * error, np.mean(values) + 1.96 * error), abs=0.01
    )


def test_published_figures_stand_only_beside_the_published_data(tmp_path):
    s, data = scores_of([record("a", title="x")], tmp_path)
    agent = {
        "name": "citeagent",
        "format": "citeme",
        "prompts": "authors",
        "repairs": 0,
        "model": "m",
        "temperature": 0.95,
        "commands": "search+read",
        "demonstration": True,
    }
    provider = {"name": "semantic-scholar", "field": "Computer Science"}
    header = header_of(agent, provider, results=10, max_actions=15, read_chars="all")
    assert "not shown" in beside_published(header, data, s)
    rows = [row(id=str(k), split="test" if k < 119 else "train") for k in range(130)]
    theirs = load(write(tmp_path / "c.csv", rows))
    assert theirs.is_published
    assert "--split test" in beside_published(header, theirs, s)
    full = replace(s, n=119, missing=0, accuracy=proportion(42, 119))
    table = beside_published(header, theirs.select("test"), full)
    assert "42/119 = 35.3 %" in table
    assert "GPT-4o" in table
    assert re.search("wrong 70, bad_format 3, context 3, action_limit 1, 1.2 USD .* 82.9 s", table)
    assert re.search("36.99 % before 2024.* 32.61 %", table)
    assert "69.7" in table
    assert "--split test" in beside_published(
        header, theirs.select("test"), replace(full, missing=1)
    )
