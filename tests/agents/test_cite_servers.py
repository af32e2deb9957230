"""Real HTTP servers on loopback for the agents' tests, and tests of the manners towards them."""

import contextlib
import json
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from holdfast import HoldfastError
from holdfast.agents.cassette import Cassette
from holdfast.agents.limits import RateLimiter, Retry
from holdfast.agents.protocol import ProviderError
from holdfast.agents.search.client import JsonClient
from holdfast.agents.search.transfer import Bounds

QUICK = Retry(attempts=4, base=0.01, cap=0.05)


class Reply:
    """What a server answers: status, body (str, bytes or JSON), headers; `stall` seconds first."""

    def __init__(self, body="", status=200, headers=None, stall=0.0, drip=0.0):
        raw = body if isinstance(body, (str, bytes)) else json.dumps(body)
        self.body = raw.encode() if isinstance(raw, str) else raw
        self.status, self.headers, self.stall, self.drip = status, headers or {}, stall, drip


@contextlib.contextmanager
def serve(respond):
    """Serve `respond(method, path, query, json_body, headers) -> Reply`; yield base address."""
    stopping = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self):
            length = int(self.headers.get("Content-Length") or 0)
            raw = self.rfile.read(length)
            url = urllib.parse.urlsplit(self.path)
            query = dict(urllib.parse.parse_qsl(url.query))
            reply = respond(
                self.command, url.path, query, json.loads(raw) if raw else None, self.headers
            )
            stopping.wait(reply.stall)
            with contextlib.suppress(OSError):
                self.send_response(reply.status)
                headers = {"Content-Type": "application/json", **reply.headers}
                headers.setdefault("Content-Length", str(len(reply.body)))
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                if reply.drip:
                    for byte in reply.body:
                        self.wfile.write(bytes([byte]))
                        self.wfile.flush()
                        if stopping.wait(reply.drip):
                            return
                else:
                    self.wfile.write(reply.body)

        do_GET = do_POST = _answer

        def log_message(self, *args):
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, request, client_address):
            pass  # a client that hung up

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        stopping.set()
        server.shutdown()
        server.server_close()
        thread.join(timeout=10)


def chat(reply):
    """A chat completions server; `reply(messages)` gives a text or a whole `Reply`."""

    def respond(method, path, query, body, headers):
        assert (method, path) == ("POST", "/v1/chat/completions")
        answer = reply(body["messages"])
        return answer if isinstance(answer, Reply) else completion(answer)

    return serve(respond)


def completion(text, finish="stop", tokens=(100, 20)):
    return Reply(
        {
            "id": "x",
            "object": "chat.completion",
            "created": 0,
            "model": "loopback",
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": text},
                    "finish_reason": finish,
                }
            ],
            "usage": {
                "prompt_tokens": tokens[0],
                "completion_tokens": tokens[1],
                "total_tokens": sum(tokens),
            },
        }
    )


def fields(action, argument, reason="because"):
    """A well-formed reply of the agent's model."""
    return (
        f"[[ ## reason ## ]]\n{reason}\n\n[[ ## action ## ]]\n{action}\n\n"
        f"[[ ## argument ## ]]\n{argument}\n\n[[ ## completed ## ]]"
    )


def scholar(papers, fault=lambda path, query: None, files=None):
    """A Semantic Scholar: substring search with pages, batch embeddings, and files under /files."""

    def respond(method, path, query, body, headers):
        wrong = fault(path, query)
        if wrong is not None:
            return wrong
        if path == "/graph/v1/paper/search":
            words = set(query["query"].lower().split())
            last = int(query["year"][1:]) if "year" in query else 9999
            hits = [
                p for p in papers if p is None or words & set((p["title"] or "").lower().split())
            ]
            hits = [p for p in hits if p is None or (p.get("year") or 0) <= last]
            start, limit = int(query["offset"]), int(query["limit"])
            answer = {"total": len(hits), "offset": start, "data": hits[start : start + limit]}
            if start + limit < len(hits):
                answer["next"] = start + limit
            return Reply(answer)
        if path == "/graph/v1/paper/batch":
            known = {p["paperId"]: p for p in papers if p}
            return Reply([known.get(i) for i in body["ids"]])
        if path in (files or {}):
            return files[path]
        return Reply({"error": "not found"}, 404)

    return serve(respond)


def test_client_retries_then_succeeds_and_sends_its_key():
    seen = []

    def respond(method, path, query, body, headers):
        seen.append(headers["x-api-key"])
        return (
            Reply({"ok": len(seen)}) if len(seen) == 3 else Reply("busy", [429, 500][len(seen) - 1])
        )

    with serve(respond) as base:
        client = JsonClient(headers={"x-api-key": "secret"}, retry=QUICK)
        assert client.request("GET", f"{base}/a", {}) == {"ok": 3}
    assert seen == ["secret"] * 3


@pytest.mark.parametrize(
    "reply",
    [
        Reply({"message": "slow down"}, 429),
        Reply("oops", 503),
        Reply("<html>", 200),
        Reply({"ok": 1}, stall=60.0),
    ],
    ids=["429", "503", "not JSON", "stall"],
)
def test_client_raises_provider_error_when_tries_are_used_up(reply):
    calls = []

    def respond(*request):
        calls.append(request)
        return reply

    start = time.monotonic()
    with serve(respond) as base:
        client = JsonClient(retry=Retry(3, 0.01, 0.02), bounds=Bounds(10**6, 1.0, 0.2))
        with pytest.raises(ProviderError, match="after 3 tries"):
            client.request("GET", base, {})
    assert len(calls) == 3
    assert time.monotonic() - start < 20


def test_client_does_not_retry_what_will_not_change():
    calls = []

    def respond(*request):
        calls.append(request)
        return Reply("no", 403 if len(calls) == 1 else 404)

    with serve(respond) as base:
        client = JsonClient(retry=QUICK)
        with pytest.raises(HoldfastError, match="API key"):
            client.request("GET", base, {})
        with pytest.raises(ProviderError, match="404"):
            client.request("GET", base, {})
    assert len(calls) == 2


def test_client_waits_as_long_as_the_server_asks():
    calls = []

    def respond(*request):
        calls.append(time.monotonic())
        return Reply({}) if len(calls) == 2 else Reply("", 429, {"Retry-After": "1"})

    with serve(respond) as base:
        JsonClient(retry=QUICK).request("GET", base, {})
    assert calls[1] - calls[0] >= 1.0


def test_limiter_spaces_requests_of_all_threads():
    limiter, times = RateLimiter(50), []

    def work():
        for _ in range(5):
            limiter.wait()
            times.append(time.monotonic())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(timeout=10)
    assert len(times) == 20
    assert max(times) - min(times) >= 19 / 50 - 0.005


def test_recording_holds_no_secret_and_replays_faults_without_a_server(tmp_path):
    calls = []

    def respond(*request):
        calls.append(request)
        return Reply("busy", 500) if len(calls) == 1 else Reply({"n": len(calls)})

    tape = tmp_path / "tape.jsonl"
    with serve(respond) as base:
        live = JsonClient(
            headers={"x-api-key": "s3cret"}, retry=QUICK, cassette=Cassette(tape, "record")
        )
        answers = [live.request("GET", f"{base}/a", {"q": 1}) for _ in range(2)]
    assert "s3cret" not in tape.read_text()
    answered = [json.loads(line)["answer"] for line in tape.read_text().splitlines()]
    assert [answer["status"] for answer in answered] == [500, 200, 200]
    replay = JsonClient(cassette=Cassette(tape, "replay"))
    assert [replay.request("GET", f"{base}/a", {"q": 1}) for _ in range(2)] == answers
    with pytest.raises(HoldfastError, match="no answer"):
        replay.request("GET", f"{base}/a", {"q": 2})
