"""DSPy's optimizers and evaluators on CiteAgent; the answers of a scripted model depend on its prompt."""

import hashlib
import json
import re
from collections import defaultdict

import dspy
import pytest
from cite_samples import row, title, write
from servers import chat, fields, model_at

from holdfast import HoldfastError
from holdfast.agents.cite import main
from holdfast.agents.cite_optimise import OPTIMIZERS, metric, optimise
from holdfast.agents.data import load
from holdfast.agents.program import CiteAgent
from holdfast.agents.records import read

N = 12
CASE = re.compile(r"case(\d{4})")


@pytest.fixture
def data(tmp_path):
    rows = [
        row(
            id=f"s{k}",
            excerpt=f"As case{k:04d} shows [CITATION], things hold.",
            target_paper_title=title(k),
            split="train" if k < N else "test",
        )
        for k in range(N + 4)
    ]
    return write(tmp_path / "data.csv", rows)


class Model:
    """Right on a share of the samples that depends on the prompt; it also proposes instructions."""

    def __init__(self):
        self.asked = 0
        self.right = defaultdict(set)  # program, by its prompt: samples that were answered right
        self.proposals = 0

    def __call__(self, messages):
        self.asked += 1
        system, last = messages[0]["content"], messages[-1]["content"]
        if "[[ ## title ## ]]" not in system or "`excerpt` (str)" not in system:
            return self._proposal(system)
        program = json.dumps(messages[:-1])
        number = int(CASE.findall(last)[-1])
        luck = int(hashlib.sha256(f"{program}{number}".encode()).hexdigest(), 16) % 100
        is_right = luck < 30 + 10 * min(len(messages) // 2, 4)
        if is_right:
            self.right[program].add(number)
        answer = title(number) if is_right else f"no paper {number}"
        return f"[[ ## title ## ]]\n{answer}\n\n[[ ## completed ## ]]"

    def _proposal(self, system):
        self.proposals += 1
        text = f"Name the cited paper, as careful reader {self.proposals} would."
        outputs = system.partition("Your output fields are:")[2].partition("All interactions")[0]
        names = re.findall(r"^\d+\. `(\w+)`", outputs, re.M)
        if not names:
            return f"```\n{text}\n```"
        values = dict.fromkeys(names, text)
        if "module_advice" in values:
            values["module_advice"] = json.dumps({"guess": text})
        if "[[ ## completed ## ]]" not in system:
            return json.dumps(values)
        return "\n\n".join(f"[[ ## {name} ## ]]\n{value}" for name, value in values.items())


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_optimizers_compare_programs_and_write_one_that_runs(optimizer, data, tmp_path, capsys):
    model, path, out = Model(), tmp_path / "program.json", tmp_path / "run.jsonl"
    with chat(model) as base:
        common = f"--data {data} --model m --api-base {base}/v1 --commands none"
        command = f"optimise {common} --optimizer {optimizer} --candidates 3 --out {path}"
        assert main(command.split()) == 0
        program = json.loads(path.read_text())
        assert program["requests"] == model.asked > 2 * N
        rates = {len(right) for right in model.right.values()}
        assert len(model.right) >= 2
        assert len(rates) >= 2, "no two programs differ"
        assert program["after"] >= program["before"]
        assert main(f"run {common} --split test --program {path} --out {out}".split()) == 0
        asked = model.asked
        assert main(f"score {out} --data {data}".split()) == 0
        assert model.asked == asked
    header = read(out)[0]
    assert header.agent.demonstration == "optimised"
    assert header.agent.program["optimizer"] == optimizer
    assert header.agent.program["dataset"]["split"] == "train"
    assert f"optimised by {optimizer} on data, train, n = 12" in capsys.readouterr().out


def test_evaluators_bootstrapping_with_searches_teachers_and_saved_programs(data, tmp_path):
    """With searches; a teacher's model differs from the student's."""
    dataset = load(data).select("train", 6)

    def scripted(messages):
        excerpt = messages[-1]["content"]
        if "papers:" not in excerpt:
            return fields("search_relevance", "entropy minimization")
        return fields("select", re.findall(r"^id: (\S+)$", excerpt, re.M)[0])

    asked = {"student": 0, "teacher": 0}

    def counting(name):
        def reply(messages):
            asked[name] += 1
            return scripted(messages)

        return reply

    def is_answered(example, prediction, trace=None):
        return bool(prediction.title)

    with chat(counting("student")) as s, chat(counting("teacher")) as t:
        student, teacher = model_at(s), model_at(t)
        agent = CiteAgent(commands="search")
        with pytest.raises(HoldfastError, match="no language model"):
            agent(excerpt=dataset.samples[0].excerpt)
        agent.set_lm(student)
        examples = (
            dspy.Example(excerpt=x.excerpt, source="", until=x.date) for x in dataset.samples
        )
        shown = [example.with_inputs("excerpt", "source", "until") for example in examples]
        evaluate = dspy.Evaluate(devset=shown, metric=is_answered, num_threads=2)
        assert evaluate(agent).score == 100
        assert asked == {"student": 12, "teacher": 0}
        assert evaluate(agent).score == 100  # nothing is used up
        assert asked["student"] == 24
        optimizer = dspy.BootstrapFewShot(
            metric=is_answered, max_bootstrapped_demos=1, teacher_settings={"lm": teacher}
        )
        better = optimizer.compile(CiteAgent(commands="search"), trainset=shown)
        assert asked["teacher"] > 0
        assert better.step.demos
        path = tmp_path / "saved.json"
        better.save(path)
        again = CiteAgent(student, "search")
        again.load(path)
        again.set_lm(student)
        assert [d.toDict() for d in map(dspy.Example, again.step.demos)]
        assert again(excerpt=dataset.samples[0].excerpt).title
        assert str(teacher) not in path.read_text()


def test_programs_of_other_commands_and_other_files_are_refused(data, tmp_path):
    with chat(Model()) as base:
        agent = CiteAgent(model_at(base), "none")
        program = optimise(agent, load(data).select("train", 3), "bootstrap", 1)
        path = tmp_path / "program.json"
        path.write_text(json.dumps(program))
        with pytest.raises(HoldfastError, match="--commands none"):
            CiteAgent(model_at(base), "search").load_program(path)
        path.write_text("{}")
        with pytest.raises(HoldfastError, match="optimise"):
            CiteAgent(model_at(base), "none").load_program(path)


def test_a_prediction_without_an_answer_is_wrong():
    example = dspy.Example(titles=("A title",))
    assert metric(example, dspy.Prediction(title="")) == 0
    assert metric(example, dspy.Prediction(title="A title")) == 1
