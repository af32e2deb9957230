"""Text of PDFs, extracted in another process, because pypdf takes minutes for some files.

Run as a module, this file is that process: it reads a PDF from standard input and writes a JSON list of
page texts to standard output.
"""

import io
import json
import subprocess
import sys

from .provider import ReadError, Section

_SECONDS = 30.0
_MAX_PAGES = 120
_MAX_CHARS = 2_000_000


def extract(data: bytes, *, seconds: float = _SECONDS) -> list[Section]:
    """One section per page; raises `ReadError` if the PDF is damaged, empty, or takes too long."""
    command = [sys.executable, "-m", "holdfast.agents.search.pdf"]
    try:
        done = subprocess.run(command, input=data, capture_output=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        raise ReadError(f"reading the PDF took longer than {seconds:g} s") from None
    if done.returncode:
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise ReadError(f"the PDF cannot be read ({(last or ['the reader crashed'])[0][:120]})")
    pages = json.loads(done.stdout)
    if not any(page.strip() for page in pages):
        raise ReadError("the PDF contains no text; its pages may be scans")
    return [Section(f"page {k}", page) for k, page in enumerate(pages, start=1)]


def main() -> None:
    import pypdf

    pages, left = [], _MAX_CHARS
    for page in pypdf.PdfReader(io.BytesIO(sys.stdin.buffer.read())).pages[:_MAX_PAGES]:
        text = page.extract_text()[:left]
        pages.append(text.encode("utf-8", "replace").decode())
        left -= len(text)
    json.dump(pages, sys.stdout)


if __name__ == "__main__":
    main()
