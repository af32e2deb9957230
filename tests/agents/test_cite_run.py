"""Running: resumption after a kill, retried provider errors, faults of services, and limits."""

import json
import signal
import subprocess
import sys
import threading
import time
from collections import Counter

import pytest
from cite_samples import title, write_dataset
from common import interruptible
from servers import Reply, chat, fields, model_at, scholar, semantic_scholar

from holdfast import HoldfastError
from holdfast.agents.baselines import baseline
from holdfast.agents.cite import COMMANDS, main
from holdfast.agents.data import MINI_CITE_CORPUS, load
from holdfast.agents.episode import Budget
from holdfast.agents.limits import Allowance
from holdfast.agents.program import CiteAgent
from holdfast.agents.records import ResultFile, read
from holdfast.agents.run import run
from holdfast.agents.score import score

CORPUS = str(MINI_CITE_CORPUS)
FIND = fields("search_relevance", "entropy")


def cite_run(*options):
    """The command `holdfast cite run`, in a process of its own."""
    return [sys.executable, "-m", "holdfast.benchmarks.cli", "cite", "run", *map(str, options)]


def case_of(messages):
    """Return the number of the sample that a prompt's first excerpt is about."""
    return int(messages[1]["content"].split("case")[1][:4])


def wait_for(happened, process):
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and process.poll() is None and not happened():
        time.sleep(0.005)


def lines_of(path):
    return path.read_bytes().count(b"\n") if path.exists() else 0


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
    assert lines_of(out) == 2 + len(records) == 45
    assert header.n == 43
    with pytest.raises(HoldfastError, match="different budget"):
        run(data, agent, search, out, budget=Budget(results=5))
    settings = {k: v for k, v in header.plain().items() if k not in ("type", "schema")}
    with ResultFile(out, settings), pytest.raises(HoldfastError, match=r"Another process.*--out"):
        run(data, agent, search, out)


def test_torn_last_line_is_dropped_and_its_sample_run_again(tmp_path):
    data = load("mini-cite").select("test", 5)
    agent, search = baseline("bm25", CORPUS)
    out = tmp_path / "run.jsonl"
    run(data, agent, search, out)
    out.write_bytes(out.read_bytes()[:-40])
    assert len(read(out)[1]) == 4
    run(data, agent, search, out)
    samples = [json.loads(line)["sample"] for line in out.read_text().splitlines()[1:]]
    assert Counter(samples) == Counter(s.id for s in data.samples)


def test_no_other_file_is_ever_overwritten_and_other_lines_are_named(tmp_path):
    data = load("mini-cite").select("test", 2)
    agent, search = baseline("bm25", CORPUS)
    out = tmp_path / "notes.txt"
    for content in ["my notes without a line end", "my notes\n", '{"a": 1}\n{"b"']:
        out.write_text(content)
        with pytest.raises(HoldfastError, match="--out"):
            run(data, agent, search, out)
        assert out.read_text() == content
    out.write_text('{"type":"head')  # killed while writing its first line
    assert run(data, agent, search, out) == {"selected": 2}
    whole = out.read_bytes()
    for line in (
        b"\xff\xfe\0\n",
        b"[1]\n",
        b'{"type": "sample", "seconds": "soon"}\n',
        b"[" * 99_999 + b"\n",
    ):
        out.write_bytes(whole + line)
        for words in (["score", str(out)], ["show", str(out), "mini-01"]):
            with pytest.raises(HoldfastError, match="line 4"):
                main(words)


def test_a_dead_service_stops_the_run_before_all_samples_failed(tmp_path):
    data, calls = load(write_dataset(tmp_path / "d.csv", 60)), []

    def model(messages):
        calls.append(1)
        return Reply("", 500)

    out = tmp_path / "run.jsonl"
    search = baseline("bm25", CORPUS)[1]
    with chat(model) as base, pytest.raises(HoldfastError, match=r"10 successive samples"):
        run(data, CiteAgent(model_at(base, tries=2)), search, out, workers=2)
    assert {r.status for r in read(out)[1].values()} == {"provider_error"}
    assert len(calls) < 120


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
        agent = CiteAgent(model_at(lm_base), "search")
        search, out = semantic_scholar(s2_base, tries=2), tmp_path / "run.jsonl"
        assert run(data, agent, search, out, workers=4) == {"selected": 6, "provider_error": 6}
        figures = score(read(out)[1], data)
        assert (figures["accuracy"].n, figures["provider_errors"]) == (6, {"provider_error": 6})
        broken[0] = False
        assert run(data, agent, search, out, workers=4) == {"selected": 12}
    assert all(asked[f"case{k:04d}"] == 1 for k in range(6))
    assert score(read(out)[1], data)["accuracy"].k == 12


def test_a_killed_and_interrupted_run_resumes_with_every_sample_once(tmp_path):
    """Ctrl-C does not wait for replies; finished samples stay, byte for byte, and none runs twice."""
    n, workers = 24, 3
    data, started = write_dataset(tmp_path / "d.csv", n), Counter[int]()
    going_on = threading.Event()

    def model(messages):
        if len(messages) == 2:
            started[case_of(messages)] += 1
            return FIND
        if case_of(messages) > 14:
            going_on.wait(500)
        time.sleep(0.03)
        return fields("select", "tent-2021")

    out = tmp_path / "run.jsonl"
    with chat(model) as base:
        options = f"--model m --api-base {base}/v1 --commands search --workers {workers}"
        options = [*options.split(), "--data", str(data), "--out", str(out)]
        before = b""
        for number, least in ((signal.SIGKILL, 3), (signal.SIGINT, 12)):
            process = subprocess.Popen(
                cite_run(*options),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                preexec_fn=interruptible,
            )
            wait_for(lambda least=least: lines_of(out) > least, process)
            process.send_signal(number)
            _, errors = process.communicate(timeout=90)
            after = out.read_bytes()
            assert after.startswith(before[: before.rfind(b"\n") + 1])
            assert after.count(b"\n") > least
            before = after
        going_on.set()
        assert process.returncode == 130
        assert "Rerun the same command" in errors
        assert "Traceback" not in errors
        assert main(["run", *options]) == 0
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert Counter(x["sample"] for x in lines[1:]) == {f"s{k:04d}": 1 for k in range(n)}
    # Each end lost at most the samples then running.
    assert sum(started.values()) <= n + 2 * workers
    assert {x["status"] for x in lines[1:]} == {"selected"}


def test_a_run_stops_where_it_may_cost_no_more_and_goes_on_with_more(tmp_path):
    """10 samples of 2 calls of 120 tokens; 2 USD per million tokens in, 10 out: 0.0004 a call."""
    data = load(write_dataset(tmp_path / "d.csv", 10))
    calls = Counter[int]()

    def model(messages):
        calls[case_of(messages)] += 1
        return fields("select", "tent-2021") if len(messages) > 2 else FIND

    out, search = tmp_path / "run.jsonl", baseline("bm25", CORPUS)[1]
    with chat(model) as base:
        agent = CiteAgent(model_at(base), "search")

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
        assert go(usd=1.0) == {"selected": 10}
        assert sum(calls.values()) == 2 * 10 + 1 + 1
        unpriced = f"run --data {tmp_path / 'd.csv'} --model m --api-base {base}/v1 --max-usd 1"
        with pytest.raises(HoldfastError, match="--usd-per-million"):
            main([*unpriced.split(), "--out", f"{out}.other"])
    with pytest.raises(HoldfastError, match="tokens=-1"):
        Allowance(tokens=-1)


def test_user_errors_are_one_sentence(tmp_path):
    nowhere = str(tmp_path / "no.csv")
    lm = ["--model", "m", "--api-base", "http://127.0.0.1:9/v1"]
    for argv, said in [
        (["run", "--out", str(tmp_path / "x")], "--model"),
        (["run", "--agent", "bm25", "--data", nowhere, "--out", "x"], "no.csv"),
        (
            ["run", "--agent", "bm25", "--search", "semantic-scholar", "--out", "x"],
            "--search local",
        ),
        (["run", "--agent", "bm25", "--corpus", nowhere, "--out", "x"], "corpus"),
        (["run", "--agent", "bm25", "--out", "/proc/none/x"], "/proc/none/x cannot be written"),
        (["run", *lm, "--prompts", nowhere, "--out", "x"], "--prompt citeme"),
        (["run", *lm, "--out", "x"], "No server answers"),
        (["score", nowhere], "holdfast cite run"),
    ]:
        with pytest.raises(HoldfastError, match=said):
            main(argv)


def test_nothing_in_a_file_gives_the_terminal_orders(tmp_path, capsys):
    orders = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202etxt"
    out = tmp_path / "run.jsonl"
    main(["run", "--agent", "rules", "--limit", "2", "--out", str(out)])
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    lines[0]["agent"] |= {"name": f"agent {orders}", "model": orders}
    for record in lines[1:]:
        record |= {"status": "guessed", "detail": orders}
        record["selection"]["title"] += orders
        record["events"][0] |= {"action": orders, "query": orders, "error": orders}
        record["events"][0]["hits"][0]["title"] += orders
    out.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for command in (
        ["score", str(out), str(out)],
        ["show", str(out), "mini-01", "--full"],
        ["show", str(out)],
        ["compare", str(out), str(out)],
    ):
        main(command)
        said = "".join(capsys.readouterr())
        assert said
        assert not {c for c in said if not c.isprintable()} - {"\n"}


def test_a_file_that_can_grow_no_further_stops_the_run_and_the_same_command_goes_on(tmp_path):
    resource = pytest.importorskip("resource")
    out = tmp_path / "run.jsonl"
    command = ["run", "--agent", "bm25", "--out", str(out), "--workers", "1", "--limit", "9"]
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (9_000, hard))
    try:
        with pytest.raises(HoldfastError, match=r"run\.jsonl.*File too large"):
            main(command)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    kept = read(out)[1]
    assert 0 < len(kept) < 9
    assert main(command) == 0
    assert len(read(out)[1]) == 9
    assert kept.items() <= read(out)[1].items()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_the_table_exists(command, capsys):
    with pytest.raises(SystemExit, match="0"):
        main([command, "--help"])
    assert f"usage: holdfast cite {command} " in capsys.readouterr().out


def test_help_and_demo_need_no_heavy_import():
    code = (
        "import contextlib, sys\n"
        "from holdfast.agents.cite import main\n"
        "with contextlib.suppress(SystemExit): main(['--help'])\n"
        "with contextlib.suppress(SystemExit): main(['run', '--help'])\n"
        "heavy = 'torch lightning dspy sklearn pandas requests numpy'.split()\n"
        "assert not set(heavy) & set(sys.modules), set(heavy) & set(sys.modules)\n"
        "import holdfast.agents.program, holdfast.agents.curation, holdfast.agents.search.dense\n"
        "assert not {'torch', 'lightning'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
