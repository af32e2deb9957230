"""Real HTTP servers on loopback: a language model's and Semantic Scholar's, and what they answer."""

import contextlib
import json
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from holdfast.agents.lm import language_model
from holdfast.agents.search.semantic_scholar import SemanticScholar


class Reply:
    """What a server answers: status, body (str, bytes or JSON), headers; `stall` seconds first."""

    def __init__(self, body="", status=200, headers=None, stall=0.0):
        raw = body if isinstance(body, (str, bytes)) else json.dumps(body)
        self.body = raw.encode() if isinstance(raw, str) else raw
        self.status, self.headers, self.stall = status, headers or {}, stall


@contextlib.contextmanager
def serve(respond):
    """Serve `respond(method, path, query, json_body, headers) -> Reply`; yield base address."""
    stopping = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # head and body in one packet

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
                # Clients wait as long as they are told before they try again.
                headers = {"Content-Type": "application/json", "Retry-After": "0", **reply.headers}
                headers.setdefault("Content-Length", str(len(reply.body)))
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
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
        if method == "GET":
            return Reply({"data": []})
        assert path == "/v1/chat/completions"
        answer = reply(body["messages"])
        return answer if isinstance(answer, Reply) else completion(answer)

    return serve(respond)


def completion(text, finish="stop", tokens=(100, 20)):
    total = {"total_tokens": sum(tokens)}
    usage = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1], **total}
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    facts = {"id": "x", "object": "chat.completion", "created": 0, "model": "loopback"}
    return Reply({**facts, "choices": [choice], "usage": usage})


def fields(action, argument, reason="because"):
    """A well-formed reply of the agent's model."""
    return (
        f"[[ ## reason ## ]]\n{reason}\n\n[[ ## action ## ]]\n{action}\n\n"
        f"[[ ## argument ## ]]\n{argument}\n\n[[ ## completed ## ]]"
    )


def scholar(papers, fault=lambda path, query: None):
    """A Semantic Scholar: substring search with pages."""

    def respond(method, path, query, body, headers):
        wrong = fault(path, query)
        if wrong is not None:
            return wrong
        if path == "/graph/v1/paper/search":
            words = set(query["query"].lower().split())
            hits = [
                p for p in papers if p is None or words & set((p["title"] or "").lower().split())
            ]
            if "year" in query:
                last = int(query["year"][1:])
                hits = [p for p in hits if p is None or (p.get("year") or 0) <= last]
            start, limit = int(query["offset"]), int(query["limit"])
            answer = {"total": len(hits), "offset": start, "data": hits[start : start + limit]}
            if start + limit < len(hits):
                answer["next"] = start + limit
            return Reply(answer)
        return Reply({"error": "not found"}, 404)

    return serve(respond)


def papers(n, **common):
    return [
        {"paperId": f"p{k}", "title": f"deep paper {k}", "year": 2019, "citationCount": k, **common}
        for k in range(n)
    ]


def semantic_scholar(base, **options):
    options = {"timeout": (5.0, 30.0), "backoff": 0.0, "tries": 4, **options}
    return SemanticScholar(f"{base}/graph/v1", per_second=None, **options)


def model_at(base, **options):
    """The language model of a chat server."""
    return language_model("m", api_base=f"{base}/v1", **options)
