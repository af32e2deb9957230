"""The page of `holdfast report --html`: one file, the report's numbers, names as text; and in a browser."""

import json
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest
from made_up import made_up, put

from holdfast import HoldfastError
from holdfast.benchmarks.cli import main
from holdfast.benchmarks.papers import html as papers_html
from holdfast.benchmarks.papers.experiment import declaration, experiments
from holdfast.benchmarks.papers.published import published_beside
from holdfast.benchmarks.papers.table import Table
from holdfast.benchmarks.results.html import charts, html_file
from holdfast.benchmarks.results.html.origins import settings
from holdfast.benchmarks.results.runs import Run, find, with_results
from holdfast.benchmarks.results.summary_tables import points
from holdfast.benchmarks.suites.cell import Cell, prepare

STRANGE = "</script><i onload=\"x('1')\">T & co, $$a$$" + "long" * 20
HARD = "hard" * 30
TAGS = (
    "html head meta title style body a main script p h1 h2 h3 pre code dl dt dd span details summary "
    "section ul li div table caption thead tbody tr th td button input nav header footer"
)
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


class Read(HTMLParser):
    """The tags, addresses, table cells and data of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.addresses: list[str] = []
        self.rows: list[list[str]] = []
        self.data, self._in_data, self._open = "", False, False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.addresses += [
            value or "" for name, value in attrs if name in ("src", "href", "action")
        ]
        self._in_data = ("id", "data") in attrs
        self._open = tag in ("td", "button") or (self._open and tag not in ("tr", "script"))
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        self._open = self._open and tag not in ("td", "th")
        self._in_data = False

    def handle_data(self, text: str) -> None:
        if self._in_data:
            self.data += text
        elif self._open and self.rows:
            self.rows[-1][-1] += text


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two settings of two seeds; a method with a strange name collapses; one run fails, one is missing."""
    folder = tmp_path_factory.mktemp("runs")
    for setting in ("easy", HARD):
        for seed in (1, 2):
            where: dict[str, Any] = {"stream": f"{setting} 128", "setting": setting, "seed": seed}
            made_up(folder, "Source", [0.3 + 0.01 * seed] * 40, **where)
            made_up(folder, "RDumb", [0.5 + 0.01 * seed] * 40, resets=(20,), seconds=2, **where)
            names = {"method": STRANGE, "override": "", **where}
            put(folder / f"{setting}{seed}", names, {}, [0.4] * 20 + [0.01 * seed] * 20)
    failed = folder / f"{HARD} 128-seed2" / "RDumb"
    (failed / "summary.json").unlink()
    (failed / "error.txt").write_text("no <memory> & 'more'\n")
    made_up(folder, "ETA", None, stream=f"{HARD} 128", setting=HARD, seed=2)
    return folder


@pytest.fixture(scope="module")
def file(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    assert main(["report", str(runs), "--html", str(path)]) == 0
    return path


def test_one_file_that_asks_for_nothing(file: Path) -> None:
    found = Read(file.read_text())
    assert file.stat().st_size < 2_000_000
    assert found.tags <= set(TAGS.split())
    assert set(found.addresses) == {"#results"}
    assert "default-src 'none'; script-src 'unsafe-inline'" in file.read_text()


def test_the_same_bytes_again(file: Path, runs: Path, tmp_path: Path) -> None:
    assert main(["report", str(runs), "--html", str(tmp_path / "again.html")]) == 0
    assert (tmp_path / "again.html").read_bytes() == file.read_bytes()


def test_its_numbers_are_the_reports(file: Path, runs: Path, capsys: pytest.CaptureFixture) -> None:
    main(["report", str(runs), "--json"])
    wanted = json.loads(capsys.readouterr().out)
    found = Read(file.read_text())
    data = json.loads(found.data)
    assert {key: data[key] for key in wanted} == wanted
    details = {(row[0], row[1]): row for row in found.rows if row[0] in ("easy", HARD)}
    assert len(details) == len(wanted["summary"]) == 7
    for group in wanted["summary"]:
        row = details[group["setting"], group["method"]]
        assert row[2].split()[0] == points(group["accuracy"])
        assert row[3] == points(group["worst"])


def test_names_are_text_and_what_failed_is_told(file: Path) -> None:
    text = file.read_text()
    found = Read(text)
    assert STRANGE in [row[0] for row in found.rows]
    assert STRANGE in [style["method"] for style in json.loads(found.data)["styles"]]
    assert text.count("<script") == text.count("</script") == 4
    assert f"failed: {HARD} 128, seed 2, RDumb: no &lt;memory&gt; &amp; &#39;more&#39;" in text
    assert f"missing: {HARD} 128, seed 2, ETA" in text
    assert "51.0 (1 of 2)" in text


def test_what_the_charts_show(runs: Path) -> None:
    panel = charts.data(find_with_rows(runs))["panels"][0]
    assert [stream["name"] for stream in panel["streams"]] == [
        "easy 128, seed 1",
        "easy 128, seed 2",
    ]
    assert panel["streams"][0]["bands"][:2] == [[0, 100, "fog"], [100, 200, "snow"]]
    rdumb = next(curve for curve in panel["curves"] if curve["method"] == "RDumb")
    assert rdumb["runs"] == 2
    assert rdumb["values"] == pytest.approx([0.515] * len(rdumb["values"]))
    assert rdumb["sd"][0] == pytest.approx(np.std([0.51, 0.52], ddof=1), abs=1e-5)
    marks = {(mark["method"], mark["kind"]): mark["images"] for mark in panel["marks"]}
    assert marks["RDumb", "reset"] == [210]
    assert marks[STRANGE, "alarm of AETTA: drop"] == [210]
    watched = charts.data(with_results(find_with_rows(runs)))["panels"][0]["marks"]
    below = next(mark for mark in watched if mark["kind"] == "alarm of AETTA: below source")
    # 0.4 - 0.0195 k is 2 points below 0.31 from k = 6 on, after 20 batches of 10 images.
    assert (below["method"], below["images"]) == (STRANGE, [260])
    fog = next(
        c for c in charts.data(find_with_rows(runs))["corruptions"] if c["corruption"] == "fog"
    )
    assert {m["method"]: m["batches"] for m in fog["methods"]}["Source"] == 4 * 20


def find_with_rows(folder: Path) -> list[Run]:
    return [run for run in find(folder) if run.provenance]


def test_many_runs_stay_small(runs: Path) -> None:
    """27 streams, 13 methods: each run adds its windows, the library comes once."""
    data = charts.data(find_with_rows(runs))
    each = len(html_file.as_json(data)) / 12
    assert len(html_file.library()) + 27 * 13 * each < html_file.MOST_BYTES


def test_without_the_library_or_the_folder(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    assert main(["report", str(runs), "--html", str(tmp_path / "no" / "r.html")]) == 2
    assert "--html" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "bokeh.resources", None)
    assert main(["report", str(runs), "--html", str(tmp_path / "r.html")]) == 2
    assert "pip install 'holdfast[html]'" in capsys.readouterr().err
    assert not (tmp_path / "r.html").exists()


def test_a_folder_without_results(tmp_path: Path) -> None:
    made_up(tmp_path, "Source", None)
    assert main(["report", str(tmp_path), "--html", str(tmp_path / "r.html")]) == 0
    assert "missing: s, seed 1, Source" in (tmp_path / "r.html").read_text()


def test_settings_in_words() -> None:
    assert settings({"class": "SGD", "lr": 0.1, "nesterov": False}) == "SGD (lr 0.1)"
    assert settings(None) == ""


def test_the_command_that_repeats_it(tmp_path: Path) -> None:
    names = {"method": "Source", "override": "", "stream": "s", "setting": "s", "seed": 1}
    cell = Cell(names, tmp_path / "s-seed1" / "Other", {}, {})
    prepare([cell], "holdfast suite mine.yaml --seeds 1")
    prepare([cell], "holdfast suite other.yaml")
    found = json.loads((cell.folder / "cell.json").read_text())
    assert found["command"] == "holdfast suite mine.yaml --seeds 1"
    made_up(tmp_path, "Source", [0.5] * 8)
    for name in ("provenance.json", "record.jsonl", "summary.json"):
        (tmp_path / "s-seed1" / "Source" / name).replace(cell.folder / name)
    assert main(["report", str(tmp_path), "--html", str(tmp_path / "r.html")]) == 0
    assert (
        "<pre><code>holdfast suite mine.yaml --seeds 1</code></pre>"
        in (tmp_path / "r.html").read_text()
    )


def test_published_numbers_stand_beside_the_papers_own_runs_only(tmp_path: Path) -> None:
    cells = experiments()["rdumb/T2.1"].cells("full")
    for n, cell in enumerate(cells):
        if (cell.names["method"], cell.names["setting"]) == ("Source", "CCC-Hard"):
            put(tmp_path / str(n), cell.names, cell.config, [0.015] * 8)
    assert published_beside(find(tmp_path)) == {("CCC-Hard", "Source"): "1.50 ± 0.02 (rdumb/T2.1)"}
    own = next(tmp_path.rglob("cell.json"))
    content = json.loads(own.read_text())
    content["config"]["data"]["init_args"]["images"] = 1000
    own.write_text(json.dumps(content))
    assert published_beside(find(tmp_path)) == {}


def test_the_page_of_an_experiment(tmp_path: Path) -> None:
    table = Table()
    for curve, values in (("Source", (1.0, 2.0)), ("R<b>", (8.0, 9.5))):
        for run, value in enumerate(values):
            table.add("", curve, "CCC", str(run), value)
    claim = {"says": "R is better", "above": {"curve": "R<b>", "than": "Source", "x": "CCC"}}
    content = {"shows": "a <small> table", "suites": {"embedded": []}, "published": "T2.1"}
    own = declaration("rdumb/T2.1", {**content, "runs": {"accuracy": {}}, "claims": {"r": claim}})
    kept = json.loads(
        json.dumps(
            {
                **{"name": own.name, "scale": "embedded", "provenance": {"weights": ["abc"]}},
                **{"differences": ["lr: 1, not 2"], "missing": [], "table": table.as_json()},
            }
        )
    )
    picture = tmp_path / "picture.png"
    picture.write_bytes(b"png")
    for name in ("one.html", "two.html"):
        papers_html.write(tmp_path / name, [(own, kept, picture)])
    text = (tmp_path / "one.html").read_text()
    assert (tmp_path / "two.html").read_text() == text
    found = Read(text)
    assert json.loads(found.data)["rdumb/T2.1"] == kept
    assert ["R<b>", "8.75 ± 1.06"] in found.rows
    assert "small" not in found.tags
    assert "<code>holdfast paper rdumb/T2.1</code>" in text
    assert "<strong>holds</strong>: R is better" in text or "<strong>undecided</strong>" in text
    assert "<li>lr: 1, not 2</li>" in text
    assert any(row[:1] == ["RDumb"] for row in found.rows)
    assert {address[:15] for address in found.addresses} == {"#results", "data:image/png;"}


def test_too_large_for_mail(tmp_path: Path) -> None:
    with pytest.raises(HoldfastError, match=r"5\.\d MB"):
        html_file.write(
            tmp_path / "x.html",
            "paper.html",
            {"x": "x" * 5_100_000},
            title="",
            sections=[],
            none="",
        )


READER = Path(__file__).parent / "reader.js"  # what a reader would do, and what became of it


def test_in_a_browser(file: Path, tmp_path: Path) -> None:
    """Without an error or a request: columns sort, a method is singled out, a stream is chosen."""
    found = in_browser(file, tmp_path)
    assert found["problems"] == found["resources"] == []
    assert found["charts"] >= 2 + 2 + 1 + 4  # panels, corruptions, cost, estimates
    down, up = found["down"][0], found["up"]
    assert found["down"][1] == "descending"
    known = [float(text.split()[0]) for text in down if not text.startswith("-")]
    assert known == sorted(known, reverse=True)
    assert [float(text.split()[0]) for text in up if not text.startswith("-")] == known[::-1]
    assert down[-1] == up[-1] == "- (0 of 1)" or down[-1].startswith("-")
    assert found["words"][0] == STRANGE or found["words"] == sorted(
        found["words"], key=str.casefold
    )
    assert (found["pressed"], found["freed"]) == ("true", "false")
    alphas = dict(found["dimmed"])
    assert alphas["RDumb"] > 5 * alphas["Source"]
    assert found["wide"] <= 0
    assert found["cell"] == "descending"
    assert found["filtered"]
    assert all("RDumb" in text for text in found["filtered"])
    assert found["all"]
    assert found["cut"] <= 0  # no table needs a scrollbar at the width below


def in_browser(file: Path, folder: Path) -> dict[str, Any]:
    """What the page says of itself in headless Chromium; skips where there is none."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    script = f"<script>{READER.read_text()}</script>"
    tried = folder / "tried.html"
    tried.write_text(file.read_text().replace("<style>", f"{script}<style>", 1))
    words = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    words += [
        "--window-size=1400,900",
        "--no-first-run",
        "--disable-extensions",
        "--disable-background-networking",
    ]
    words += [f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=20000", "--dump-dom"]
    done = subprocess.run(
        [browser, *words, f"file://{tried}"], capture_output=True, timeout=400, check=False
    )
    shown = done.stdout.decode().rpartition('<pre id="result">')[2].partition("</pre>")[0]
    assert shown, done.stderr.decode()[-2000:]
    return json.loads(unquote(shown))
