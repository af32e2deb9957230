"""Parts of a paper's text: words in it, what stands around an excerpt, chosen sections."""

from dataclasses import replace

from conversations import MINI, SAMPLE, SEARCH

from holdfast.agents.episode import Episode
from holdfast.agents.passages import excerpt, passages, pieces, surroundings
from holdfast.agents.search.provider import Section


def test_words_are_found_as_they_stand_or_nearly():
    body = (
        "x " * 500
        + "The Fisher\ninformation is kept. "
        + "y " * 500
        + "Fisher again. "
        + "z " * 400
    )
    (first,) = passages(body, "fisher INFORMATION")
    assert "The Fisher information is kept." in first
    assert len(first) < 700
    assert len(passages(body, "fisher")) == 2
    assert "again" in passages(body, "again Fisher nowhere")[0]
    assert passages(body, "nothing of this") == passages(body, "  ") == []
    assert len(passages("word " * 4000, "word")) == 5


def test_surroundings_hold_neither_the_answer_nor_the_references():
    text = "This sentence on wobbling nets is long enough to be found [CITATION] in its paper."
    before, after = "Before it, Quivering-Nets: learning to WOBBLE was named. ", " After it, more."
    cited = text.replace("[CITATION]", "[7]")
    sections = [
        Section(
            "1", before + cited + after + "\nReferences\n[7] Quivering nets: Learning to wobble"
        ),
        Section("References", "Quivering nets: Learning to wobble, again"),
    ]
    around = surroundings(sections, text, ["Quivering Nets: Learning to Wobble"])
    assert around.startswith("Before it, [CITATION] was named.")
    assert around.endswith("After it, more.")
    assert "wobble" not in around.lower().replace("wobbling", "")
    assert surroundings(sections, "Something else entirely [CITATION].", []) == ""


def test_context_is_there_for_every_sample_and_never_names_the_target():
    for sample in MINI.samples:
        episode = Episode(sample, SEARCH)
        around = episode.context()
        assert episode.events[-1].ok, sample.id
        for title in sample.titles:
            assert title.lower() not in around.lower()


def test_a_source_that_cannot_be_had_is_told():
    episode = Episode(replace(SAMPLE, source_title="A paper that is nowhere"), SEARCH)
    assert "the paper that the excerpt is from" in episode.context()
    assert episode.events[-1].ok is False


def test_reading_shows_parts_and_what_was_cut():
    paper = [Section(f"page {k}", "x" * 100) for k in range(1, 6)]
    assert "within section 2 of 5" in excerpt(paper, "", 200)
    assert excerpt(paper, "4-5", 10_000).startswith("## 4. page 4")
    assert "(Sections 4 to 5 of 5.)" in excerpt(paper, "pages 4-5", 10_000)
    assert excerpt(paper, "page 3", 10_000).startswith("## 3. page 3")
    assert excerpt(paper, "99", 10_000).startswith("## 1. page 1")


def test_pieces_are_whole_sentences_of_the_asked_length():
    sentence = "Seven words are in each of these. "
    found = pieces(sentence * 100, most=100)
    assert len(found) == 50
    assert " ".join(found) == (sentence * 100).strip()
    assert pieces("x" * 5000) == ["x" * 5000]
    assert pieces("  ") == []
