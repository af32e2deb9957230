"""Text of PDFs, extracted in another process, because pypdf takes minutes for some files.

Run as a module, this file is that process: it reads a PDF from standard input and writes a JSON list of
page texts to standard output.
"""

import io
import json
import subprocess
import sys

from .provider import ReadError, Section

_SECONDS = 120.0
_MAX_CHARS = 4_000_000  # some 1,200 pages


def extract(data: bytes, *, seconds: float = _SECONDS) -> list[Section]:
    """One section per page, and one that says so if pages beyond 4,000,000 characters are missing.

    Raises `ReadError` if the PDF is damaged or empty, or reading it takes too long.
    """
    command = [sys.executable, "-m", "holdfast.agents.search.pdf"]
    try:
        done = subprocess.run(command, input=data, capture_output=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        raise ReadError(f"reading the PDF took longer than {seconds:g} s") from None
    if done.returncode:
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise ReadError(f"the PDF cannot be read ({(last or ['the reader crashed'])[0][:120]})")
    pages, count = json.loads(done.stdout)
    if not any(page.strip() for page in pages):
        raise ReadError("the PDF contains no text; its pages may be scans")
    sections = [Section(f"page {k}", page) for k, page in enumerate(pages, start=1)]
    if len(pages) < count:
        missing = f"Pages {len(pages) + 1} to {count} are not included; the text is too long."
        sections.append(Section("missing pages", missing))
    return sections


def main() -> None:
    import pypdf

    pages, left = [], _MAX_CHARS
    all_pages = pypdf.PdfReader(io.BytesIO(sys.stdin.buffer.read())).pages
    for page in all_pages:
        text = page.extract_text()[:left]
        pages.append(text.encode("utf-8", "replace").decode())
        left -= len(text)
        if left <= 0:
            break
    json.dump([pages, len(all_pages)], sys.stdout)


if __name__ == "__main__":
    main()
