"""Requests to a model's server are bounded as a whole, and one that is not running ends the run."""

import contextlib
import json
import socket
import socketserver
import threading
import time

import pytest
from servers import QUICK, Reply, chat, completion, fields, serve

from holdfast import HoldfastError
from holdfast.agents.cite import main
from holdfast.agents.lm import lm_transport
from holdfast.agents.lm.providers import endpoint
from holdfast.agents.protocol import ProviderError
from holdfast.agents.results import read

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@contextlib.contextmanager
def sending(head, piece, pause):
    """A server that sends `head`, then `piece` again and again with a pause; yields its address."""
    stopping = threading.Event()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self):
            self.request.recv(65_536)
            with contextlib.suppress(OSError):
                self.request.sendall(head)
                while not stopping.wait(pause):
                    self.request.sendall(piece)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        finally:
            stopping.set()
            server.shutdown()


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        pytest.param(HEAD + b"Content-Length: 100000\r\n\r\n", b" ", id="body"),
        pytest.param(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n", id="chunks"),
        pytest.param(HEAD, b"X: y\r\n", id="header"),
        pytest.param(b"", b"H", id="status line"),
        pytest.param(b"", b"HTTP/1.1 100 Continue\r\n\r\n", id="interim answers"),
    ],
)
def test_a_server_that_drips_is_given_up_after_the_time_limit(head, piece):
    with sending(head, piece, 0.02) as base:
        lm = endpoint("m", api_base=base, timeout=0.2, retry=QUICK)
        start = time.monotonic()
        with pytest.raises(ProviderError, match=r"0\.2 s.* 0\.4 s.*--lm-timeout"):
            lm("hello")
    assert time.monotonic() - start < 30  # unbounded, it is over half an hour


def test_a_server_that_sends_without_end_is_given_up_after_so_many_bytes(monkeypatch):
    monkeypatch.setattr(lm_transport, "MAX_BYTES", 1_000_000)
    with sending(HEAD + b"\r\n", b" " * 65_536, 0) as base:
        lm = endpoint("m", api_base=base, retry=QUICK)
        with pytest.raises(ProviderError, match="larger than 1,000,000 bytes"):
            lm("hello")


def nobody():
    """An address at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}/v1"


def test_a_server_that_is_not_running_ends_the_run_at_once(tmp_path):
    base, out = nobody(), tmp_path / "run.jsonl"
    command = ["run", "--model", "m", "--api-base", base, "--out", str(out)]
    with pytest.raises(HoldfastError, match=f"{base}.*--api-base"):
        main(command)
    assert not read(out)[1]
    # The same command goes on once it runs.
    with chat(lambda messages: fields("select", "none")) as running:
        main([*command[:3], "--api-base", f"{running}/v1", "--limit", "1", "--out", f"{out}2"])


def test_a_server_that_goes_down_later_is_tried_again(monkeypatch):
    with chat(lambda messages: "hello") as base:
        lm = endpoint("m", api_base=f"{base}/v1", retry=QUICK)
        assert lm("hello") == ["hello"]
    with pytest.raises(ProviderError, match="after 4 tries"):
        lm("hello")


def test_an_error_of_the_server_keeps_its_words_and_its_wait():
    asked = []

    def reply(messages):
        asked.append(messages)
        busy = Reply(json.dumps({"error": {"message": "busy"}}), 429, {"Retry-After": "0"})
        return busy if len(asked) == 1 else completion("hello")

    with chat(reply) as base:
        assert endpoint("m", api_base=f"{base}/v1", retry=QUICK)("hello") == ["hello"]
    assert len(asked) == 2


# A hosted provider that DSPy asks itself, and one that it asks by LiteLLM, each at an address here.
HOSTED = {
    "azure/m": ("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY"),
    "openai/m": ("OPENAI_API_BASE", "OPENAI_API_KEY"),
}


@pytest.fixture(params=HOSTED)
def hosted(request, monkeypatch):
    """A function from a server's address to a model of a provider that is there."""
    address, key = HOSTED[request.param]
    if request.param == "openai/m":
        pytest.importorskip("litellm")

    def model(base, **settings):
        monkeypatch.setenv(address, base)
        monkeypatch.setenv(key, "none")
        return endpoint(request.param, retry=QUICK, **settings)

    return model


def test_a_hosted_model_that_drips_is_given_up_after_the_time_limit(hosted):
    with sending(HEAD + b"Content-Length: 100000\r\n\r\n", b" ", 0.3) as base:
        start = time.monotonic()
        with pytest.raises(ProviderError, match=r"0\.4 s.* 0\.8 s.*--lm-timeout"):
            hosted(base, timeout=0.4)("hello")
    assert time.monotonic() - start < 60  # unbounded, it is over eight hours


def test_a_hosted_model_answers(hosted):
    def respond(method, path, query, body, headers):
        assert path.endswith("/chat/completions")
        return completion(body["messages"][-1]["content"][::-1])

    with serve(respond) as base:
        lm = hosted(base)
        assert lm("hello") == ["olleh"]
        assert lm("other") == ["rehto"]
