"""Keys go to the service that they are for, and nowhere else: no file, no sentence, no other host."""

import base64
import json
import time

import pytest
from pdfs import PDF, pdf
from servers import QUICK, Reply, chat, fields, papers, scholar, semantic_scholar, serve

from holdfast import HoldfastError
from holdfast.agents.cassette import Cassette
from holdfast.agents.cite import main
from holdfast.agents.limits import Retry
from holdfast.agents.protocol import Paper, ProviderError, ReadError, Scope
from holdfast.agents.search.client import JsonClient, PDFClient
from holdfast.agents.search.transfer import Bounds
from holdfast.redaction import redacted

KEY, PASSWORD = "s2-key-4f9d1c", 'p4"ss\\w0rd'
BASIC = base64.b64encode(f"me:{PASSWORD}".encode()).decode()
ADDRESS = "me:p4%22ss%5Cw0rd@127"  # as --s2-api has it


def leaks(text):
    forms = (KEY, PASSWORD, json.dumps(PASSWORD)[1:-1], BASIC, "p4%22ss%5Cw0rd")
    return [form for form in forms if form in text]


@pytest.mark.parametrize("status", [200, 400, 403, 500])
def test_keys_that_a_server_echoes_are_written_nowhere(tmp_path, monkeypatch, capsys, status):
    """In the header, in answers, in errors, in what the model is shown and replies; replay still works."""
    monkeypatch.setenv("S2_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", "lm-key-77aa31")
    heard = []

    def respond(method, path, query, body, headers):
        heard.append((headers["x-api-key"], headers["Authorization"]))
        echo = f"you sent {headers['x-api-key']}, {headers['Authorization']} and {PASSWORD}"
        hit = {"paperId": "p0", "title": f"deep {echo}", "year": 2000}
        return Reply({"data": [hit], "total": 1} if status == 200 else {"error": echo}, status)

    def reply(messages):
        turn = len(messages) // 2 - 1
        said = f"lm-key-77aa31 {messages[-1]['content'][-400:]}"
        return fields("search_relevance", "deep") if turn == 0 else fields("select", "p0", said)

    tape, out = tmp_path / "tape.jsonl", tmp_path / "run.jsonl"
    with serve(respond) as s2, chat(reply) as lm:
        api = s2.replace("127", ADDRESS, 1)  # the port may contain 127, too
        words = f"run --limit 1 --model m --api-base {lm}/v1 --tries 1 --workers 1"
        words = f"{words} --search semantic-scholar --s2-per-second 500 --s2-api {api}"
        for options in (["--record", str(tape)], ["--replay", str(tape)]):
            out.unlink(missing_ok=True)
            try:
                main([*words.split(), *options, "--out", str(out)])
            except HoldfastError as error:
                print(error)
                assert status == 403
            written = tape.read_text() + out.read_text() + "".join(capsys.readouterr())
            assert leaks(written) == []
            assert "lm-key" not in written
            assert "127.0.0.1" in written
            assert "[removed]" in written
    assert set(heard) == {(KEY, f"Basic {BASIC}")}  # it did get them


def test_no_key_follows_a_redirection():
    heard = []

    def respond(method, path, query, body, headers):
        heard.append(headers["x-api-key"])
        return Reply({"data": []})

    with serve(respond) as other:
        moved = Reply("", 302, {"Location": f"{other}/elsewhere"})
        with serve(lambda *request: moved) as base:
            client = JsonClient(headers={"x-api-key": KEY}, retry=QUICK)
            with pytest.raises(ProviderError, match=r"redirects to .*/elsewhere"):
                client.request("GET", base, {})
    assert heard == []


@pytest.mark.parametrize("kind", ["pdf", "json"])
def test_no_credentials_of_netrc(tmp_path, monkeypatch, kind):
    """Not to a stranger's address, not to where it leads, and not to a search's server."""
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password mine\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("S2_API_KEY", KEY)
    heard = []

    def respond(method, path, query, body, headers):
        heard.append((headers["Authorization"], headers["x-api-key"]))
        if kind == "json":
            return Reply({"data": [], "total": 0})
        if path == "/a.pdf":
            return Reply("", 302, {"Location": "/b.pdf"})
        return Reply(pdf("words"), headers=PDF)

    with serve(respond) as base:
        search = semantic_scholar(base, fetcher=PDFClient(allow_private=True))
        if kind == "pdf":
            search.read(Paper("a", "A", links={"pdf": f"{base}/a.pdf"}))
        else:
            search.search("deep", "relevance", Scope(), 10)
    assert heard == ([(None, None)] * 2 if kind == "pdf" else [(None, KEY)])


def test_a_proxy_of_the_environment_is_used_within_the_bounds(monkeypatch):
    """The user's own way out may stand in a private network; a stranger's address may still not."""
    asked = []

    def respond(method, path, query, body, headers):
        asked.append(headers["Host"])
        slow = headers["Host"] == "slow.invalid"
        return Reply(pdf("words" * 200), headers=PDF, drip=0.05 if slow else 0.0)

    with serve(respond) as proxy:
        monkeypatch.setenv("http_proxy", proxy)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        fetcher = PDFClient(Bounds(10**6, 15.0), retry=Retry(1))
        assert fetcher.pdf("http://papers.invalid/a.pdf").startswith(b"%PDF-")
        with pytest.raises(ReadError, match="private network"):
            fetcher.pdf("http://127.0.0.1:9/a.pdf")
        start = time.monotonic()
        with pytest.raises(ReadError, match=r"0\.5 s"):
            PDFClient(Bounds(10**6, 0.5), retry=Retry(1)).pdf("http://slow.invalid/a.pdf")
        assert time.monotonic() - start < 30  # all of it would take 80
    assert asked[0] == "papers.invalid"
    assert "127.0.0.1:9" not in asked


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Reply(b"[" + b"1," * 60_000 + b"1]"), r"larger than 50,000 bytes"),
        (Reply(b"[1]" + b" " * 500, drip=0.05), r"0\.5 s"),
        (Reply(b"[1]", headers={"Content-Encoding": "gzip"}), "compress"),
        (Reply(b"[" * 40_000), "not JSON"),
        (Reply(b"\xff\xfe\0[1]"), "not JSON"),
    ],
    ids=["large", "slow", "compressed", "deep", "binary"],
)
def test_json_answers_have_bounds(reply, said):
    seconds = 0.5 if reply.drip else 15.0
    with serve(lambda *request: reply) as base:
        client = JsonClient(retry=Retry(1), bounds=Bounds(50_000, seconds))
        with pytest.raises(ProviderError, match=said):
            client.request("GET", base, {})


def test_what_is_left_out(monkeypatch):
    monkeypatch.setenv("SOME_SERVICE_TOKEN", "tok-0123456789")
    monkeypatch.setenv("OTHER_API_KEY", "none")
    monkeypatch.setenv("PLAIN", "an-ordinary-value")
    value = {"tok-0123456789": ["none of https://me:x@host/a, an-ordinary-value", 3, None]}
    assert redacted(value) == {"[removed]": ["none of https://host/a, an-ordinary-value", 3, None]}
    assert str(HoldfastError("no answer of //u:p@host: tok-0123456789")) == (
        "no answer of //host: [removed]"
    )


# ---- files with lines that are none ----

LINES = [b"\xff\xfe\0\n", b"[1]\n", b"3\n", b'{"request": 1}\n', b"[" * 99_999 + b"\n", b"\n"]


@pytest.mark.parametrize("line", LINES)
def test_a_recording_with_other_lines(tmp_path, line):
    path = tmp_path / "tape.jsonl"
    Cassette(path, "record").exchange({"q": 1}, lambda: {"status": 200, "json": [1]})
    path.write_bytes(line + path.read_bytes() + line)
    tape = Cassette(path, "replay")
    assert tape.exchange({"q": 1}, None)["json"] == [1]
    with pytest.raises(HoldfastError, match=r"tape\.jsonl .*\(2 of its lines"):
        tape.exchange({"q": 2}, None)


@pytest.mark.parametrize("line", LINES)
def test_a_result_file_with_other_lines(tmp_path, line):
    out = tmp_path / "run.jsonl"
    command = ["run", "--agent", "bm25", "--limit", "1", "--out", str(out)]
    assert main(command) == 0
    out.write_bytes(out.read_bytes() + line)
    for words in (["score", str(out)], command, ["show", str(out), "mini-01"]):
        with pytest.raises(HoldfastError, match="line 3"):
            main(words)


def test_no_terminal_escapes_from_a_model(tmp_path, capsys):
    with scholar(papers(2)) as s2, chat(lambda m: "\033]0;title\007 nothing") as lm:
        out = str(tmp_path / "run.jsonl")
        words = f"run --limit 1 --model m --api-base {lm}/v1 --search semantic-scholar --repairs 0"
        main([*words.split(), "--s2-api", f"{s2}/graph/v1", "--out", out])
    main(["show", out, "mini-01"])
    shown = "".join(capsys.readouterr())
    assert "nothing" in shown
    assert "\033" not in shown
    assert "\007" not in shown
