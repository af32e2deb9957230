"""The page of `holdfast report --html`: one file, the report's numbers, names as text; and in a browser."""

import json
import re
import shutil
import subprocess
import sys
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from made_up import made_up, put

from holdfast.benchmarks.cli import main
from holdfast.benchmarks.results.text_table import points
from holdfast.benchmarks.suites.cell import Cell, prepare

STRANGE = "</script><i onload=\"x('1')\">T & co"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two settings of two seeds; a method with a strange name collapses; one run fails, one is missing."""
    folder = tmp_path_factory.mktemp("runs")
    for setting in ("easy", "hard"):
        for seed in (1, 2):
            where: dict[str, Any] = {"stream": f"{setting} 128", "setting": setting, "seed": seed}
            made_up(folder, "Source", [0.3 + 0.01 * seed] * 40, **where)
            made_up(folder, "RDumb", [0.5 + 0.01 * seed] * 40, resets=(20,), seconds=2, **where)
            names = {"method": STRANGE, "override": "", **where}
            put(folder / f"{setting}{seed}", names, {}, [0.4] * 20 + [0.01 * seed] * 20)
    failed = folder / "hard 128-seed2" / "RDumb"
    (failed / "summary.json").unlink()
    (failed / "error.txt").write_text("no <memory> & 'more'\n")
    made_up(folder, "ETA", None, stream="hard 128", setting="hard", seed=2)
    return folder


@pytest.fixture(scope="module")
def file(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    assert main(["report", str(runs), "--html", str(path)]) == 0
    return path


def test_one_file_that_asks_for_nothing(file):
    text = file.read_text()
    assert file.stat().st_size < 2_000_000
    assert "default-src 'none'; script-src 'unsafe-inline'" in text
    assert not re.search(r"<(script|link|img|iframe)[^>]* (src|href)=", text)


def test_its_numbers_are_the_reports(file, runs, capsys):
    main(["report", str(runs), "--json"])
    wanted = json.loads(capsys.readouterr().out)
    text = file.read_text()
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text)
    assert json.loads(data[1]) == wanted
    rows = [re.findall("<td>(.*?)</td>", row) for row in re.findall("(?s)<tr>(.*?)</tr>", text)]
    details = {tuple(row[:2]): row for row in rows if row and row[0] in ("easy", "hard")}
    assert len(details) == len(wanted["summary"]) == 7
    for group in wanted["summary"]:
        row = details[group["setting"], escape(group["method"], quote=False)]
        assert row[2].split()[0] == points(group["accuracy"], group["sd"])
        assert row[3] == points(group["last_eighth"])


def test_names_are_text_and_failures_are_listed(file):
    text = file.read_text()
    assert text.count("<script") == text.count("</script") == 4
    assert "<i onload" not in text
    assert "failed: hard 128, seed 2, RDumb: no &lt;memory&gt; &amp; &#39;more&#39;" in text
    assert "missing: hard 128, seed 2, ETA" in text
    assert "51.0 (1 of 2)" in text


def test_without_results_the_folder_or_the_library(tmp_path, monkeypatch, capsys):
    made_up(tmp_path, "Source", None)
    page = tmp_path / "r.html"
    assert main(["report", str(tmp_path), "--html", str(page)]) == 0
    assert "missing: s, seed 1, Source" in page.read_text()
    page.unlink()
    assert main(["report", str(tmp_path), "--html", str(tmp_path / "no" / "r.html")]) == 2
    assert "cannot be written" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "bokeh", None)
    assert main(["report", str(tmp_path), "--html", str(page)]) == 2
    assert "pip install 'holdfast[html]'" in capsys.readouterr().err
    assert not page.exists()


def test_the_command_that_repeats_it(tmp_path):
    names = {"method": "Source", "override": "", "stream": "s", "setting": "s", "seed": 1}
    cell = Cell(names, tmp_path / "s-seed1" / "Other", {}, {})
    prepare([cell], "holdfast suite mine.yaml --seeds 1")
    prepare([cell], "holdfast suite other.yaml")
    made_up(tmp_path, "Source", [0.5] * 8)
    for name in ("provenance.json", "record.jsonl", "summary.json"):
        (tmp_path / "s-seed1" / "Source" / name).replace(cell.folder / name)
    assert main(["report", str(tmp_path), "--html", str(tmp_path / "r.html")]) == 0
    command = "<pre><code>holdfast suite mine.yaml --seeds 1</code></pre>"
    assert command in (tmp_path / "r.html").read_text()


READER = """<script>
const problems = [];
for (const kind of ["error", "unhandledrejection", "securitypolicyviolation"])
  addEventListener(kind, (event) => problems.push(`${kind} ${event.message} ${event.blockedURI}`));
addEventListener("load", async () => {
  const charts = [...document.querySelectorAll(".charts > div")];
  const table = [...document.querySelectorAll("table")].find((one) => one.rows[0].cells.length > 6);
  const sorted = () => {
    table.rows[0].cells[2].click();
    return [...table.tBodies[0].rows].map((row) => row.cells[2].textContent);
  };
  const found = { down: sorted(), up: sorted(), charts: charts.length, problems };
  while (!charts.every((chart) => chart.childElementCount)) await new Promise((go) => setTimeout(go, 20));
  found.resources = performance.getEntriesByType("resource").map((one) => one.name);
  const result = document.createElement("pre");
  result.id = "result";
  result.textContent = encodeURIComponent(JSON.stringify(found));
  document.body.append(result);
});
</script>"""


def test_in_a_browser(file, tmp_path):
    """Without an error or a request, all charts are drawn, and a click on a head sorts its table."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    tried = tmp_path / "tried.html"
    tried.write_text(file.read_text().replace("<style>", f"{READER}<style>", 1))
    words = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    words += [f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=20000"]
    done = subprocess.run(
        [browser, *words, "--dump-dom", f"file://{tried}"],
        capture_output=True,
        timeout=400,
        check=False,
    )
    shown = done.stdout.decode().rpartition('<pre id="result">')[2].partition("</pre>")[0]
    assert shown, done.stderr.decode()[-2000:]
    found = json.loads(unquote(shown))
    assert found["problems"] == found["resources"] == []
    assert found["charts"] == 2 + 2 * 2  # settings; estimators in each
    down, up = (
        [float(text.split()[0]) for text in found[order] if not text.startswith("-")]
        for order in ("down", "up")
    )
    assert down == up[::-1] == sorted(up, reverse=True)
    assert len(down) == 6
    assert found["down"][-1] == found["up"][-1] == "- (0 of 2)"
