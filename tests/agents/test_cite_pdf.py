"""Papers are fetched and read on loopback: caches, bad downloads, private addresses, hostile PDFs."""

import socket
import sys
import time

import pytest
from pdfs import PDF, bomb, pdf
from servers import Reply, papers, scholar, semantic_scholar, serve

from holdfast.agents.citeagent.actions import act
from holdfast.agents.data import load
from holdfast.agents.episode import Episode
from holdfast.agents.limits import Retry
from holdfast.agents.protocol import Paper, ReadError
from holdfast.agents.search.client import PDFClient
from holdfast.agents.search.guarded import Guard, is_public
from holdfast.agents.search.pdf import extract
from holdfast.agents.search.semantic_scholar import SemanticScholar
from holdfast.agents.search.transfer import Bounds


def test_reads_pages_once_and_then_from_the_cache(tmp_path):
    calls = []

    def respond(method, path, *rest):
        calls.append(path)
        return Reply(pdf("first words", "second page"), headers=PDF)

    with serve(respond) as base:
        fetcher = PDFClient(allow_private=True)
        search = SemanticScholar(base, fetcher=fetcher, cache=tmp_path)
        paper = Paper("a", "A", links={"pdf": f"{base}/a.pdf"})
        first = search.read(paper)
        assert search.read(paper) == first
    assert [s.text.strip() for s in first] == ["first words", "second page"]
    assert calls == ["/a.pdf"]
    with pytest.raises(ReadError, match="no open-access PDF"):
        search.read(Paper("b", "B"))


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Reply("<html>", headers={"Content-Type": "text/html"}), "text/html"),
        (Reply("not a pdf", headers=PDF), "not a PDF"),
        (Reply("", 404), "404"),
        (Reply("", 503), "503, 2 times"),
        (Reply(b"%PDF-" + b"x" * 60_000, headers=PDF), "larger than"),
        (Reply(b"%PDF-" + b"x" * 100, headers=PDF, drip=0.05), "took longer"),
        (Reply(b"%PDF-", headers=PDF, stall=60.0), "took longer|reached"),
        (Reply(b"%PDF-", headers={**PDF, "Content-Encoding": "gzip"}), "compress"),
        (
            Reply(b"%PDF-x", headers={**PDF, "Content-Length": "999", "Connection": "close"}),
            "ProtocolError.*2 times",
        ),
        (Reply("", 302, {"Location": "file:///etc/passwd"}), "InvalidSchema"),
        (Reply("", 302, {"Location": "/again"}), "more than 5"),
    ],
    ids=["html", "junk", "404", "503", "big", "drip", "stall", "gzip", "short", "file", "loop"],
)
def test_bad_downloads_end_soon_and_say_why(reply, said):
    start = time.monotonic()
    with serve(lambda *request: reply) as base:
        seconds = 0.8 if reply.drip or reply.stall else 15.0
        fetcher = PDFClient(Bounds(50_000, seconds), allow_private=True, retry=Retry(2, 0.01, 0.02))
        with pytest.raises(ReadError, match=said):
            fetcher.pdf(f"{base}/x.pdf")
    assert time.monotonic() - start < 20


def test_private_addresses_and_other_schemes_are_refused_before_anything_is_sent():
    asked = []

    def respond(*request):
        asked.append(request)
        return Reply(pdf("secret"), headers=PDF)

    with serve(respond) as base:
        for url in [base, base.replace("127.0.0.1", "localhost")]:
            with pytest.raises(ReadError, match="private network"):
                PDFClient(retry=Retry(1)).pdf(f"{url}/x.pdf")
    assert not asked
    for url in ["file:///etc/passwd", "ftp://example.org/x", "http://[::1", ""]:
        with pytest.raises(ReadError):
            PDFClient(retry=Retry(1)).pdf(url)
    assert [is_public(a) for a in ("8.8.8.8", "2606:4700::1111")] == [True, True]
    assert is_public("64:ff9b::8.8.8.8")  # the way to IPv4 where there is only IPv6
    private = (
        "10.0.0.1 169.254.169.254 ::1 ::ffff:127.0.0.1 fe80::1%eth0 100.64.0.1 0.0.0.0 224.0.0.1 "
        "64:ff9b::127.0.0.1 64:ff9b::a9fe:a9fe 64:ff9b:1::1 fec0::1 2002:7f00:1::1 ::127.0.0.1 :: "
        "2001:0:808:808::1 2001:db8::1 ff0e::1 ::ffff:0:127.0.0.1"
    )
    assert [a for a in private.split() if is_public(a)] == []


@pytest.mark.parametrize(
    "data",
    [
        b"%PDF-1.4",
        b"%PDF-1.4\n%%EOF",
        pdf("x")[:200],
        b"%PDF-1.7\n" + bytes(range(256)) * 40,
        pdf(""),
    ],
    ids=["header", "empty", "torn", "noise", "no text"],
)
def test_broken_pdfs_are_read_errors(data):
    with pytest.raises(ReadError):
        extract(data, seconds=10)


@pytest.mark.parametrize(
    ("drawn", "memory", "seconds", "said"),
    [
        (b"0 " * 100_000_000, 300 << 20, 30, "cannot be read"),
        (
            b"BT /F1 9 Tf " + b"1 0 0 1 9 9 Tm (a) Tj " * 3_000_000 + b"ET",
            1 << 34,
            2,
            "took longer than 2",
        ),
    ],
    ids=["memory", "time"],
)
def test_hostile_pdf_is_stopped(drawn, memory, seconds, said):
    data, start = bomb(drawn), time.monotonic()
    with pytest.raises(ReadError, match=said):
        extract(data, seconds=seconds, memory=memory)
    assert time.monotonic() - start < seconds + 60


@pytest.mark.skipif(sys.platform != "linux", reason="other systems ignore the memory limit")
def test_reading_is_held_to_its_memory():
    assert extract(pdf("fine"))[0].text.strip() == "fine"
    with pytest.raises(ReadError, match="cannot be read"):
        extract(pdf("fine"), memory=30 << 20)


def test_address_that_changes_after_the_lookup_is_refused_too():
    with serve(lambda *request: Reply("")) as base:
        port = int(base.rsplit(":", 1)[1])
        connection = socket.create_connection(("127.0.0.1", port), timeout=5)
        with pytest.raises(OSError, match="private network"):
            Guard(allow_private=False).admit(connection)
        assert connection.fileno() == -1


def test_unreadable_paper_is_told_to_the_agent_and_does_not_end_the_sample():
    listed = papers(1, openAccessPdf={"url": "http://127.0.0.1:9/x.pdf"})
    sample = load("mini-cite").samples[0]
    with scholar(listed) as base:
        episode = Episode(sample, semantic_scholar(base))
        act(episode, "search_relevance", "deep")
        said = act(episode, "read", "p0")
    assert "private network" in said
    assert episode.events[-1].ok is False
