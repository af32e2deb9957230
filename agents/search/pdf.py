"""Text of untrusted PDFs, extracted in another process with limits on time and memory.

Run as a module, this file is that process: it reads a PDF from standard input and writes a JSON list of
page texts to standard output.
"""

import json
import subprocess
import sys

from .provider import ReadError, Section

SECONDS = 30.0
MEMORY = 1 << 30  # bytes of address space
MAX_PAGES = 120
MAX_CHARS = 2_000_000


def extract(data: bytes, *, seconds: float = SECONDS, memory: int = MEMORY) -> list[Section]:
    """One section per page; raises `ReadError` if the PDF is damaged, empty, or exceeds the limits.

    Args:
        data: the PDF.
        seconds: time limit.
        memory: limit of the address space in bytes.
    """
    command = [sys.executable, "-m", "holdfast.agents.search.pdf", str(memory)]
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
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]), int(sys.argv[1])))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, ValueError, OSError):
        pass  # not available on this system; the time limit still applies
    import io
    import logging

    import pypdf

    logging.disable(logging.CRITICAL)
    pages, used = [], 0
    for page in pypdf.PdfReader(io.BytesIO(sys.stdin.buffer.read())).pages[:MAX_PAGES]:
        text = page.extract_text()[: MAX_CHARS - used]
        pages.append(text.encode("utf-8", "replace").decode())
        used += len(text)
        if used >= MAX_CHARS:
            break
    json.dump(pages, sys.stdout)


if __name__ == "__main__":
    main()
