"""`holdfast cite optimize` compiles a program that a run uses."""

import json

import pytest
from servers import chat, fields

from holdfast import HoldfastError
from holdfast.agents.cite import main
from holdfast.agents.data import load
from holdfast.agents.program import CiteAgent, load_program
from holdfast.agents.result_file import read


def test_optimize_saves_a_program_that_run_uses_and_records(tmp_path, capsys):
    targets = {s.excerpt[:40]: s.titles[0] for s in load("mini-cite").select("train").samples}
    shown = []

    def model(messages):
        # Answers the train samples rightly: asks for the title, then takes the first hit.
        shown.append(messages)
        excerpt = messages[-1]["content"].split("[[ ## excerpt ## ]]\n")[1]
        title = next((t for e, t in targets.items() if excerpt.startswith(e)), "entropy")
        if "\nid: " not in messages[-1]["content"]:
            return fields("search_relevance", title)
        return fields("select", messages[-1]["content"].split("\nid: ")[1].split("\n")[0])

    program = tmp_path / "compiled.json"
    out = tmp_path / "run.jsonl"
    with chat(model) as base:
        options = ["--model", "m", "--api-base", f"{base}/v1", "--commands", "search"]
        assert main(["optimize", *options, "--out", str(program), "--steps", "2"]) == 0
        assert "2 example steps" in capsys.readouterr().out
        shown.clear()
        run = ["run", *options, "--program", str(program), "--limit", "1", "--out", str(out)]
        assert main(run) == 0
        with pytest.raises(HoldfastError, match="different agent"):
            main(["run", *options, "--limit", "1", "--out", str(out)])
        with pytest.raises(HoldfastError, match="--commands"):
            load_program(CiteAgent("search+read"), program)
    state = json.loads(program.read_text())
    assert [sorted(d) for d in state["step"]["demos"]] == [
        ["action", "argument", "excerpt", "observation", "reason"]
    ] * len(state["step"]["demos"])
    assert len(shown[0]) >= 2 + 2 * 1  # the example steps precede the question
    digest = read(out)[0].agent.plain()["program"]
    import hashlib

    assert digest == hashlib.sha256(program.read_bytes()).hexdigest()
    assert load_program(CiteAgent("search"), program) == digest


def test_optimize_without_a_right_answer_says_so(tmp_path):
    with chat(lambda m: "nonsense") as base, pytest.raises(HoldfastError, match="8"):
        main(["optimize", "--model", "m", "--api-base", f"{base}/v1", "--out", str(tmp_path / "p")])
