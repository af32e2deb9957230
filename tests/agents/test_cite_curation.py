"""The data set's side: ambiguous excerpts, what is known by heart, people's answers, tags, tables."""

import csv
import json

import pytest
from cite_samples import row, write
from servers import Reply, chat

from holdfast import HoldfastError
from holdfast.agents.cite import main
from holdfast.agents.curation import is_ambiguous
from holdfast.agents.data import load

# In the ways of ACL-200, RefSeer, arXiv and LaTeX; sentences of ours.
AMBIGUOUS = [
    "Shown twice before [OTHERCIT, TARGETCIT] in this form.",
    "Shown before (TARGETCIT; OTHERCIT) in this form.",
    "Shown (OTHERCIT; TARGETCIT b). For example",
    "Lattices (OTHERCIT; TARGETCIT are used where the bracket is lost",
    "Shown in (OTHERCIT; Miller 1998; TARGETCIT a). Then",
    "Recovered TARGETCIT , OTHERCIT. Note that",
    "A problem open OTHERCIT TARGETCIT OTHERCIT . Moreover",
    "As given in TARGETCIT and OTHERCIT , respectively.",
    "An ellipsis [OTHERCIT, Lopez et al., 2004, TARGETCIT ] is common.",
    r"Shown in \cite{paper1, TARGETCIT, paper3} before.",
    r"Shown in \citep[see][]{paper1,TARGETCIT} before.",
    "Earlier works [3, TARGETCIT] agree.",
    "Earlier works [CITATION], [3] agree.",
    "See (Miller et al., 2004; TARGETCIT) for more.",
]
CLEAR = [
    "The parser of TARGETCIT was used. Others (OTHERCIT) differ.",
    "Joshua ( TARGETCIT , SAMT (OTHERCIT), and cdec (OTHERCIT) are systems.",
    "A schedule (TARGETCIT) is feasible. OTHERCIT showed the rest.",
    "The Wu-Palmer measure ( TARGETCIT . 2N3 Sim(C1, C2) (1)",
    "We follow [21, 41]. We adopt normalisation (BN) [CITATION] after each convolution.",
    r"We use the optimizer of \cite{TARGETCIT} as \cite{a,b} do.",
    "In 2004 the method TARGETCIT was new.",
    "In 2004 TARGETCIT was new, and since 2010 (TARGETCIT) it is old.",
]


NAMES = ["Alpha networks", "Beta graphs", "Gamma rays"]


def test_several_citations_at_one_place_are_ambiguous_and_a_single_one_is_not():
    assert [text for text in AMBIGUOUS if not is_ambiguous(text)] == []
    assert [text for text in CLEAR if is_ambiguous(text)] == []


def test_ambiguity_of_files_is_counted_beside_table_6(tmp_path, capsys):
    excerpts = [*AMBIGUOUS[:3], *CLEAR[:2], "no mark at all"]
    rows = write(tmp_path / "rows.csv", [row(excerpt=text) for text in excerpts])
    table = write(tmp_path / "citeme.csv", [row(excerpt="See [CITATION] and [4].")])
    assert main(["curate", "ambiguity", str(rows), str(table)]) == 0
    out = capsys.readouterr().out
    assert "rows.csv: 3/5 = 60.0 %" in out
    assert "1 without a mark" in out
    assert "citeme.csv: 1/1" in out
    assert "arXiv 54.96 %" in out


@pytest.fixture
def data(tmp_path):
    rows = [row(id=n[0], target_paper_title=n, excerpt=f"{n[0]} [CITATION].") for n in NAMES]
    return write(tmp_path / "d.csv", rows)


def test_what_a_model_knows_by_heart_is_left_out(data, tmp_path, capsys):
    """One of three tries is enough, and it must not be taken for another sample's."""
    data.write_text(data.read_text().replace(NAMES[2], "Gamma rays[TITLE_SEPARATOR]Rays of gamma"))
    asked = {"n": 0}

    def model(messages):
        asked["n"] += 1
        about = messages[-1]["content"].split("[CITATION]")[0].strip()[-1]
        third = "Beta graphs" if asked["n"] == 8 else "Delta"
        return {"A": "No idea", "B": third, "G": "Nothing"}[about]

    out, left = tmp_path / "run.jsonl", tmp_path / "left" / "d.csv"
    with chat(model) as base:
        command = (
            f"run --data {data} --prompt citeme --commands none --repeats 3 --workers 1 --model m "
            f"--api-base {base}/v1 --out {out}"
        )
        assert main(command.split()) == 0
    assert main(["curate", "filter", str(out), "--data", str(data), "--out", str(left)]) == 0
    assert "2 of 3 samples" in capsys.readouterr().out
    kept = load(left)
    assert [s.id for s in kept.samples] == ["A", "G"]
    assert kept.samples[1] == load(data).samples[2]
    lines = out.read_text().splitlines(keepends=True)
    out.write_text("".join(lines[:-1]))  # the last try of G
    with pytest.raises(HoldfastError, match="G has 2 of 3"):
        main(["curate", "filter", str(out), "--data", str(data), "--out", str(left)])
    out.write_text("".join(line for line in lines if '"sample":"G"' not in line))
    with pytest.raises(HoldfastError, match="G has 0 of 3"):
        main(["curate", "filter", str(out), "--data", str(data), "--out", str(left)])
    other = tmp_path / "other.jsonl"
    assert main(["run", "--agent", "bm25", "--limit", "1", "--out", str(other)]) == 0
    with pytest.raises(HoldfastError, match="--commands none"):
        main(["curate", "filter", str(other), "--out", str(left)])


def test_answers_of_people_are_judged_like_an_agents(data, tmp_path, capsys):
    answers, out = tmp_path / "people.csv", tmp_path / "people.jsonl"
    given = [
        ("A", "x", "alpha networks", 20),
        ("A", "y", "Alpha Networks", 40),
        ("B", "x", "Beta graphs", 30),
        ("B", "z", "Something else", 120),
        ("G", "y", "", 120),
    ]
    with answers.open("w", newline="") as file:
        csv.writer(file).writerows([("sample", "annotator", "title", "seconds"), *given])
    command = ["curate", "people", str(answers), "--data", str(data), "--out", str(out)]
    assert main(command) == 0
    told = capsys.readouterr().out
    assert "5 answers of 3 people" in told
    assert "the same title      1/2 = 50.0 %" in told
    assert "at least one right  2/2 = 100.0 %" in told
    assert main(["score", str(out), "--data", str(data), "--json"]) == 0
    (figures,) = json.loads(capsys.readouterr().out).values()
    assert (figures["accuracy"]["k"], figures["accuracy"]["n"]) == (3, 5)
    assert figures["seconds"]["mean"] == 66.0
    assert figures["outcomes"] == {"correct": 3, "wrong": 1, "no_selection": 1}
    assert main(["score", str(out), "--data", str(data)]) == 0
    assert main(["show", str(out), "B", "--repeat", "1", "--data", str(data)]) == 0
    assert "Something else" in capsys.readouterr().out
    with pytest.raises(HoldfastError, match="exists"):
        main(command)
    for wrong, said in [
        (("Q", "x", "t", 1), "no sample 'Q'"),
        (("A", "x", "t", 1), "twice"),
        (("G", "x", "t", "soon"), "seconds are 'soon'"),
    ]:
        with answers.open("a", newline="") as file:
            csv.writer(file).writerow(wrong)
        with pytest.raises(HoldfastError, match=f"row 7: .*{said}"):
            main([*command[:-1], str(tmp_path / "new.jsonl")])
        answers.write_text("".join(answers.read_text().splitlines(keepends=True)[:-1]))


def test_tags_are_asked_for_once_and_the_frequent_ones_told(data, tmp_path, capsys):
    out, asked = tmp_path / "tags.jsonl", []
    replies = {
        "Alpha networks": "Tags: Machine Learning, Graphs, Vision.",
        "Beta graphs": "1. Deep Learning\n2. graphs\n3. Theory",
        "Gamma rays": "Physics; Vision; Rays; More than asked",
    }
    broken = [True]

    def model(messages):
        title = messages[-1]["content"].splitlines()[-1]
        asked.append(title)
        if title == "Gamma rays" and broken[0]:
            return Reply({"error": {"message": "no"}}, 400)
        return replies[title]

    with chat(model) as base:
        command = f"curate tags --data {data} --model m --api-base {base}/v1 --out {out}".split()
        with pytest.raises(HoldfastError, match="Gamma rays"):
            main(command)
        broken[0] = False
        assert main(command) == 0
    assert asked == [*NAMES, "Gamma rays"]
    assert json.loads(out.read_text().splitlines()[2])["tags"] == ["Physics", "Vision", "Rays"]
    told = capsys.readouterr().out
    assert [line.split(maxsplit=1) for line in told.splitlines()[1:3]] == [
        ["2", "Graphs"],
        ["2", "Vision"],
    ]
    assert "Machine Learning" not in told
    assert "More than asked" not in told
