"""Running: resumption after a kill, retried provider errors, and faults of services."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict

import pytest
from cite_samples import title, write_dataset
from conftest import interruptible
from servers import Reply, chat, fields, scholar

from holdfast import HoldfastError
from holdfast.agents.baselines import baseline
from holdfast.agents.cite import main
from holdfast.agents.citeagent.program import CiteAgent, LMAgent
from holdfast.agents.costs import Allowance
from holdfast.agents.data import MINI_CITE_CORPUS, load
from holdfast.agents.limits import Retry
from holdfast.agents.lm.providers import endpoint
from holdfast.agents.results import read
from holdfast.agents.run import run
from holdfast.agents.score import score
from holdfast.agents.search.semantic_scholar import SemanticScholar
from holdfast.agents.search.transfer import Bounds

CORPUS = str(MINI_CITE_CORPUS)


def cite_run(*options):
    """The command `holdfast cite run`, in a process of its own."""
    return [sys.executable, "-m", "holdfast.benchmarks.cli", "cite", "run", *map(str, options)]


def case_of(messages):
    """Return the number of the sample that a prompt's first excerpt is about."""
    return int(messages[1]["content"].split("case")[1][:4])


def test_records_have_no_verdict_and_the_run_resumes_where_it_was(tmp_path):
    data = load("mini-cite").select("test")
    agent, search = baseline("bm25", CORPUS)
    out = tmp_path / "run.jsonl"
    run(data.select("test", 10), agent, search, out)
    ten = out.read_bytes()
    judged = {"correct", "found", "is_correct", "official", "strict"}
    assert not any(judged & set(json.loads(line)) for line in ten.splitlines())
    run(data, agent, search, out, workers=3)
    assert out.read_bytes().startswith(ten)
    header, records = read(out)
    # The second call was for more samples, so it wrote a header of its own.
    assert len(out.read_text().splitlines()) == 2 + len(records) == 45
    assert header.n == 43
    with pytest.raises(HoldfastError, match=r"different (agent|budget)"):
        run(data, agent, search, out, results=5)


def test_torn_last_line_is_dropped_and_its_sample_run_again(tmp_path):
    data = load("mini-cite").select("test", 5)
    agent, search = baseline("bm25", CORPUS)
    out = tmp_path / "run.jsonl"
    run(data, agent, search, out)
    whole = out.read_bytes()
    out.write_bytes(whole[:-40])
    assert len(read(out)[1]) == 4
    run(data, agent, search, out)
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert Counter(x["sample"] for x in lines[1:]) == Counter(s.id for s in data.samples)


def test_no_other_file_is_ever_overwritten(tmp_path):
    data = load("mini-cite").select("test", 2)
    agent, search = baseline("bm25", CORPUS)
    for content in ["my notes without a line end", "my notes\n", '{"a": 1}\n{"b"']:
        out = tmp_path / "notes.txt"
        out.write_text(content)
        with pytest.raises(HoldfastError, match="--out"):
            run(data, agent, search, out)
        assert out.read_text() == content
    out.write_text('{"type":"head')  # killed while writing its first line
    assert run(data, agent, search, out) == {"selected": 2}


def test_dead_service_stops_the_run_before_all_samples_failed(tmp_path):
    data = load(write_dataset(tmp_path / "d.csv", 60))
    calls = []

    def model(messages):
        calls.append(1)
        return Reply("", 500)

    out = tmp_path / "run.jsonl"
    with chat(model) as base:
        lm = endpoint("m", api_base=f"{base}/v1", retry=Retry(2, 0.0))
        search = baseline("bm25", CORPUS)[1]
        with pytest.raises(HoldfastError, match=r"10 successive samples"):
            run(data, LMAgent(CiteAgent(), lm), search, out, workers=2)
    assert {r.status for r in read(out)[1].values()} == {"provider_error"}
    made = len(calls)
    assert made < 120
    time.sleep(0.3)
    assert len(calls) <= made + 4  # at most what the two workers had begun


def test_a_service_that_fails_now_and_then_does_not_stop_the_run(tmp_path):
    data = load(write_dataset(tmp_path / "d.csv", 24))

    def model(messages):
        return Reply("", 500) if case_of(messages) % 2 else fields("select", "eata-2022")

    out = tmp_path / "run.jsonl"
    with chat(model) as base:
        lm = endpoint("m", api_base=f"{base}/v1", retry=Retry(2, 0.0))
        run(data, LMAgent(CiteAgent(), lm), baseline("bm25", CORPUS)[1], out, workers=1)
    kinds = Counter(r.status == "provider_error" for r in read(out)[1].values())
    assert kinds == {True: 12, False: 12}


def test_two_processes_cannot_write_one_file(tmp_path):
    data = load("mini-cite").select("test", 2)
    agent, search = baseline("bm25", CORPUS)
    out = tmp_path / "run.jsonl"
    from holdfast.agents.results import ResultFile

    run(data, agent, search, out)
    header = read(out)[0]
    held = {k: v for k, v in header.plain().items() if k not in ("type", "schema", "config")}
    with ResultFile(out, held), pytest.raises(HoldfastError, match="--out"):
        run(data, agent, search, out)


def test_provider_errors_are_retried_and_finished_samples_are_not(tmp_path):
    data = load(write_dataset(tmp_path / "d.csv", 12))
    papers = [{"paperId": f"p{k}", "title": title(k), "year": 2019} for k in range(12)]
    broken, asked = [True], Counter[str]()

    def fault(path, query):
        asked[query["query"]] += 1
        return Reply("down", 500) if broken[0] and query["query"] > "case0005" else None

    def model(messages):
        k = case_of(messages)
        found = "id: p" in messages[-1]["content"]
        return fields("select", f"p{k}") if found else fields("search_relevance", f"case{k:04d}")

    with chat(model) as lm_base, scholar(papers, fault) as s2_base:
        agent = LMAgent(CiteAgent("search"), endpoint("m", api_base=f"{lm_base}/v1"))
        search = SemanticScholar(f"{s2_base}/graph/v1", per_second=None, retry=Retry(2, 0.0))
        out = tmp_path / "run.jsonl"
        assert run(data, agent, search, out, workers=4) == {"selected": 6, "provider_error": 6}
        figures = score(read(out)[1], data)
        assert (figures.accuracy.n, figures.provider_errors) == (6, {"provider_error": 6})
        broken[0] = False
        assert run(data, agent, search, out, workers=4) == {"selected": 12}
    assert all(asked[f"case{k:04d}"] == 1 for k in range(6))
    assert score(read(out)[1], data).accuracy.k == 12


def test_killed_run_resumes_with_every_sample_once(tmp_path):
    """SIGKILL at several moments; finished samples stay, byte for byte, and none runs twice."""
    n, workers = 40, 3
    data = write_dataset(tmp_path / "d.csv", n)
    started = Counter[str]()

    def model(messages):
        k = case_of(messages)
        if len(messages) == 2:
            started[k] += 1
            return fields("search_relevance", "test time adaptation by entropy minimization")
        time.sleep(0.03)
        return fields("select", "tent-2021")

    out = tmp_path / "run.jsonl"
    with chat(model) as base:
        options = f"--model m --api-base {base}/v1 --commands search --workers {workers}"
        command = cite_run(*options.split(), "--data", data, "--out", out)
        before = b""
        for kill_after in (3, 12, 25):
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline and process.poll() is None:
                if out.exists() and out.read_bytes().count(b"\n") > kill_after:
                    break
                time.sleep(0.005)
            process.kill()
            process.communicate(timeout=10)
            after = out.read_bytes()
            assert after.startswith(before[: before.rfind(b"\n") + 1])
            assert after.count(b"\n") > kill_after
            before = after
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=60)
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert Counter(x["sample"] for x in lines[1:]) == {f"s{k:04d}": 1 for k in range(n)}
    # Each of the three kills lost at most the samples then running.
    assert sum(started.values()) <= n + 3 * workers
    assert {x["status"] for x in lines[1:]} == {"selected"}


def test_interrupt_ends_at_once_and_says_how_to_go_on(tmp_path):
    data = write_dataset(tmp_path / "d.csv", 30)
    slow = threading.Event()

    def model(messages):
        if case_of(messages) > 4:
            slow.wait(100)
        return fields("search_relevance", "a") if len(messages) == 2 else fields("select", "a")

    out = tmp_path / "run.jsonl"
    with chat(model) as base:
        options = f"--model m --api-base {base}/v1 --max-actions 2 --workers 1"
        command = cite_run(*options.split(), "--data", data, "--out", out)
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=interruptible,
        )
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and not (
            out.exists() and out.read_bytes().count(b"\n") == 6
        ):
            time.sleep(0.01)
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
        slow.set()
    assert time.monotonic() - start < 20
    assert process.returncode == 130
    assert "Stopped with 5 samples" in errors
    assert "Traceback" not in errors


@pytest.mark.slow
def test_samples_with_faults_are_neither_lost_nor_misclassified(tmp_path):
    """5 % 429, 2 % 500, 1 % stalls at both services, 3 % malformed replies of the model.

    By design every tenth sample is answered wrongly; what is malformed twice running, the server
    knows, and nothing else may end otherwise than designed.
    """
    n, dice, mutex = 200, random.Random(0), threading.Lock()
    data = load(write_dataset(tmp_path / "d.csv", n))
    papers = [{"paperId": f"p{k}", "title": title(k), "year": 2019} for k in range(n)]
    injected, malformed = Counter[str](), defaultdict(list)
    late: set[int] = set()

    def roll(kinds):
        with mutex:
            x = dice.random()
            for kind, share in kinds:
                if x < share:
                    injected[kind] += 1
                    return kind
                x -= share
        return None

    service = [("429", 0.05), ("500", 0.02), ("stall", 0.01)]
    replies = {"429": Reply("", 429), "500": Reply("", 500), "stall": Reply("{}", stall=1.5)}

    def fault(path, query):
        return replies.get(roll(service))

    def model(messages):
        kind, k = roll([*service, ("malformed", 0.03)]), case_of(messages)
        late.symmetric_difference_update({k} if k in late or kind == "stall" else ())
        if kind in replies and not (kind == "stall" and k not in late):  # two would end the sample
            return replies[kind]
        with mutex:
            malformed[k].append(kind == "malformed")
        if kind == "malformed":
            return '{"action": "select"'
        if "id: p" not in messages[-1]["content"]:
            return fields("search_relevance", f"case{k:04d} holds")
        return fields("select", f"p{(k + 1) % n if k % 10 == 0 else k}")

    def both(path, query):
        # Two hits per search: the target and the neighbour that every tenth sample selects.
        k = int(query["query"][4:8])
        return fault(path, query) or Reply(
            {"total": 2, "offset": 0, "data": [papers[k], papers[(k + 1) % n]]}
        )

    out = tmp_path / "run.jsonl"
    with chat(model) as lm_base, scholar([], both) as s2_base:
        retry = Retry(attempts=8, base=0.005, cap=0.02)
        lm = endpoint("m", api_base=f"{lm_base}/v1", timeout=0.75, retry=retry)
        search = SemanticScholar(
            f"{s2_base}/graph/v1", per_second=None, retry=retry, bounds=Bounds(10**6, 20.0, 0.75)
        )
        counts = run(data, LMAgent(CiteAgent("search"), lm), search, out, workers=16)
    records = read(out)[1]
    assert sum(counts.values()) == len(records) == n
    assert min(injected[kind] for kind in ("429", "500", "stall", "malformed")) > 2
    from holdfast.agents.score import judge

    outcomes = {s.id: judge(records[s.id, 0], s) for s in data.samples}
    for k in range(n):
        twice = any(a and b for a, b in zip(malformed[k], malformed[k][1:], strict=False))
        designed = "bad_format" if twice else "wrong" if k % 10 == 0 else "correct"
        row = outcomes[f"s{k:04d}"]
        assert row.outcome == designed, (k, row, malformed[k])
        assert row.sent_back == min(sum(malformed[k]), 2 if not twice else sum(malformed[k]) - 1)
        assert row.repairs == row.sent_back - twice
    print(f"\ninjected {dict(injected)}; outcomes {Counter(r.outcome for r in outcomes.values())}")


def test_command_line_runs_scores_and_compares(tmp_path, capsys):
    a, b = str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")
    assert main(["run", "--agent", "rules", "--out", a]) == 0
    assert main(["run", "--agent", "random", "--out", b]) == 0
    picture = tmp_path / "x" / "p.png"
    assert main(["score", a, b, "--json", "--picture", str(picture)]) == 0
    out = capsys.readouterr().out
    figures = json.loads(out[out.index("{\n") :])
    assert figures[a]["accuracy"]["k"] > figures[b]["accuracy"]["k"]
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert main(["compare", a, b]) == 0
    assert "exact McNemar p = 0.0000" in capsys.readouterr().out


def test_a_run_stops_where_it_may_cost_no_more_and_goes_on_with_more(tmp_path):
    """10 samples of 2 calls of 120 tokens; 2 USD per million tokens in, 10 out: 0.0004 a call."""
    data = load(write_dataset(tmp_path / "d.csv", 10))
    calls = Counter[str]()

    def model(messages):
        calls[case_of(messages)] += 1
        searched = len(messages) > 2
        return fields("select", "tent-2021") if searched else fields("search_relevance", "entropy")

    agent, out = None, tmp_path / "run.jsonl"
    search = baseline("bm25", CORPUS)[1]
    with chat(model) as base:
        agent = LMAgent(CiteAgent("search"), endpoint("m", api_base=f"{base}/v1"))

        def go(**limits):
            return run(data, agent, search, out, run_limit=Allowance(prices=(2.0, 10.0), **limits))

        with pytest.raises(HoldfastError, match=r"0\.002 of 0\.0019 USD.* 2 samples"):
            go(usd=0.0019)  # after the fifth call, the first of the third sample
        assert sum(calls.values()) == 5
        records = read(out)[1]
        assert Counter(r.status for r in records.values()) == {"selected": 2, "run_limit": 1}
        with pytest.raises(HoldfastError, match="0019 USD"):
            go(usd=0.0019)  # nothing is bought again
        assert sum(calls.values()) == 5
        with pytest.raises(HoldfastError, match="1200 of 1100 tokens"):
            go(tokens=1100)
        # 5 calls before, of which the fifth was lost; so the third sample and the fourth fit.
        assert sum(calls.values()) == 10
        assert go(usd=1.0, seconds=1000.0) == {"selected": 10}
    assert sum(calls.values()) == 2 * 10 + 1 + 1
    with pytest.raises(HoldfastError, match="seconds=-1"):
        Allowance(seconds=-1)


def test_a_price_that_is_not_known_is_asked_for(tmp_path):
    out = tmp_path / "run.jsonl"
    with chat(lambda messages: fields("search_relevance", "entropy")) as base:
        command = f"run --model m --api-base {base}/v1 --limit 2 --max-usd 1 --out {out}"
        with pytest.raises(HoldfastError, match="--usd-per-million"):
            main(command.split())


@pytest.mark.parametrize(
    ("limit", "said"),
    [("--sample-tokens 300", "360 of 300 tokens"), ("--sample-usd 0.0005", "of 0.0005 USD")],
)
def test_a_sample_that_costs_too_much_ends_and_the_others_go_on(tmp_path, limit, said):
    def model(messages):
        k = case_of(messages)
        searched = len(messages) > 2
        return (
            fields("select", "tent-2021")
            if searched and k
            else fields("search_relevance", "entropy")
        )

    data, out = write_dataset(tmp_path / "d.csv", 3), tmp_path / "run.jsonl"
    with chat(model) as base:
        command = (
            f"run --data {data} --model m --api-base {base}/v1 --commands search --out {out} {limit} "
            "--usd-per-million 1 1"
        )
        assert main(command.split()) == 0
        if "usd" in limit:
            with pytest.raises(HoldfastError, match="different budget"):
                main(command.replace("0.0005", "0.0006").split())
    records = {r.sample: r for r in read(out)[1].values()}
    assert [records[f"s{k:04d}"].status for k in range(3)] == [
        "sample_limit",
        "selected",
        "selected",
    ]
    assert said in records["s0000"].detail
    figures = score(read(out)[1], load(data))
    assert (figures.outcomes["sample_limit"], figures.accuracy.n) == (1, 3)


def test_a_sample_that_takes_too_long_ends(tmp_path):
    data = load(write_dataset(tmp_path / "d.csv", 1))
    agent, search = baseline("rules", CORPUS)
    out = tmp_path / "run.jsonl"
    assert run(data, agent, search, out, sample_limits={"seconds": 0.0}) == {"sample_limit": 1}


def test_dry_run_answers_from_a_file(tmp_path):
    replies, out = tmp_path / "replies.json", tmp_path / "a.jsonl"
    turns = [fields("search_relevance", "entropy"), fields("select", "tent-2021")]
    replies.write_text(json.dumps(turns))
    command = ["run", "--model", f"scripted/{replies}", "--limit", "3", "--out", str(out)]
    assert main(command) == 0
    chosen = [r.selection.id for r in read(out)[1].values()]
    assert chosen == ["tent-2021"] * 3
    replies.write_text("[]")
    with pytest.raises(HoldfastError, match="JSON"):
        main([*command[:-1], str(tmp_path / "b.jsonl")])


def test_a_provider_of_ones_own_is_a_row(tmp_path, monkeypatch):
    from holdfast.agents.search.local import LocalSearch
    from holdfast.agents.search.open_search import PROVIDERS

    class Reversed(LocalSearch):
        def search(self, *args):
            return super().search(*args)[::-1]

    monkeypatch.setitem(PROVIDERS, "reversed", lambda corpus, **_: Reversed(corpus))
    replies = tmp_path / "replies.json"
    replies.write_text(json.dumps([fields("search_relevance", "entropy")]))
    hits = {}
    for name in ("local", "reversed"):
        out = tmp_path / f"{name}.jsonl"
        command = f"run --model scripted/{replies} --limit 1 --max-actions 2 --search {name}"
        main([*command.split(), "--out", str(out)])
        first = next(e for e in read(out)[1]["mini-01", 0].events if e.kind == "action")
        hits[name] = [hit.id for hit in first.hits]
    assert len(hits["local"]) > 1
    assert hits["reversed"] == hits["local"][::-1]


def test_user_errors_are_one_sentence(tmp_path):
    nowhere = str(tmp_path / "no.csv")
    for argv, said in [
        (["run", "--out", str(tmp_path / "x")], "--model"),
        (["run", "--agent", "bm25", "--data", nowhere, "--out", "x"], "no.csv"),
        (
            ["run", "--agent", "bm25", "--search", "semantic-scholar", "--out", "x"],
            "--search local",
        ),
        (["run", "--agent", "bm25", "--corpus", nowhere, "--out", "x"], "corpus"),
        (["score", nowhere], "holdfast cite run"),
        (["run", "--model", "gpt-4o", "--out", "x"], "openai/gpt-4o"),
        (["run", "--model", "m", "--api-base", "localhost:1/v1", "--out", "x"], "http://"),
        (["run", "--agent", "bm25", "--out", "/proc/none/x"], "/proc/none/x cannot be written"),
        (["run", "--model", "m", "--replay", nowhere, "--out", "x"], "--record"),
    ]:
        with pytest.raises(HoldfastError, match=said):
            main(argv)


def test_help_and_demo_need_no_heavy_import():
    code = (
        "import contextlib, sys\n"
        "from holdfast.agents.cite import main\n"
        "with contextlib.suppress(SystemExit): main(['--help'])\n"
        "with contextlib.suppress(SystemExit): main(['run', '--help'])\n"
        "heavy = 'torch lightning dspy sklearn matplotlib requests numpy'.split()\n"
        "assert not set(heavy) & set(sys.modules), set(heavy) & set(sys.modules)\n"
        "import holdfast.agents.citeagent.optimize, holdfast.agents.commands.cite_demo\n"
        "assert not {'torch', 'lightning'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env=dict(os.environ))
