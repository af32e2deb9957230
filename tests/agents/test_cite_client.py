"""Manners towards servers: retries, waits, limits, keys, and recordings that replay them."""

import json
import threading
import time

import pytest
from servers import QUICK, Reply, serve

from holdfast import HoldfastError
from holdfast.agents.cassette import Cassette
from holdfast.agents.limits import RateLimiter, Retry
from holdfast.agents.protocol import ProviderError
from holdfast.agents.search.client import JsonClient
from holdfast.agents.search.transfer import Bounds


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
