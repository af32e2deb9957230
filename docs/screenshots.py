"""Screenshots of a report and of TensorBoard for the site, taken by a headless Chromium.

python docs/screenshots.py RUNS [chromium]   # RUNS: relative, as of `holdfast demo`
"""

import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from tempfile import TemporaryDirectory

DOCS = Path(__file__).parent
WAIT = 60  # seconds for TensorBoard to start


def shot(browser: str, address: str, file: Path, size: str = "1280,700") -> None:
    """A PNG of the page at this address, after 20 s of its own time."""
    # Without 3D, TensorBoard draws its lines as SVG; a headless WebGL shows none.
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-3d-apis",
        "--hide-scrollbars",
    ]
    timing = [f"--window-size={size}", "--virtual-time-budget=20000", f"--screenshot={file}"]
    subprocess.run([browser, *options, *timing, address], check=True, timeout=120)


def main(runs: str, browser: str = "chromium") -> None:
    """Write docs/report.png and docs/tensorboard.png."""
    with TemporaryDirectory() as folder:
        page = Path(folder, "page.html")
        subprocess.run(["holdfast", "report", runs, "--html", str(page)], check=True, timeout=120)
        shot(browser, page.as_uri(), DOCS / "report.png", "1280,1420")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}/"
    server = subprocess.Popen(["tensorboard", "--logdir", runs, "--port", str(port)])
    try:
        for _ in range(WAIT):
            try:
                urllib.request.urlopen(address, timeout=5).close()
                break
            except OSError:
                time.sleep(1)
        shot(browser, address + "#timeseries", DOCS / "tensorboard.png")
    finally:
        server.terminate()
        server.wait(30)


if __name__ == "__main__":
    main(*sys.argv[1:3])
