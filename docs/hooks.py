"""What the site has beyond the pages in docs/: reference pages, the changelog, and parts of other pages.

A page on a method or an estimator is prose. Its row in the index comes from its front matter; its
configurations, cost, curve and settings are added here.
"""

import ast
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import yaml
from mkdocs.exceptions import PluginError
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parent))
import page_curves

ROOT = Path(__file__).parent.parent
LINKS = ROOT / "build" / "reference" / "holdfast"
PACKAGES = ("agents", "benchmarks", "callbacks", "datamodules", "methods")
# Public modules of several functions, and those with the functions that a user calls in Python.
MODULES = {
    "functional": [
        f"callbacks.functional.{path.stem}"
        for path in sorted((ROOT / "callbacks" / "functional").glob("[a-z]*.py"))
    ],
    "corruptions": [
        "datamodules.corruptions",
        "datamodules.corruptions.imagecorruptions",
        "datamodules.corruptions.augmentation",
        "datamodules.corruptions.transforms",
        "datamodules.corruptions.conformance",
    ],
}
FUNCTIONS = {
    "benchmarks": [
        "streams.calibrate.calibrate",
        "results.runs.collect",
        "results.runs.find",
        "results.runs.Run",
        "results.report.as_json",
        "results.tables.load",
    ],
    "agents": ["run.run", "data.Dataset", "data.Sample"],
}
METHODS = ROOT / "benchmarks" / "configs" / "methods.yaml"
COSTS = ROOT / "benchmarks" / "papers" / "field" / "step_costs.json"  # holdfast bench steps --json
PARTS = {"methods": "methods", "estimators": "callbacks"}
OPTIONS = "    options: {heading_level: 3, members: false}"
# What sorts the methods: whether they need source images, and gradients.
NEEDS = {
    (False, False): "Neither source images nor gradients",
    (True, False): "Source images, no gradients",
    (False, True): "Gradients, no source images",
    (True, True): "Source images and gradients",
}
UNKNOWN = ("i.i.d.*", "dozens*")  # what batch statistics need
HEADER = [
    "| method | time, in steps of Source | parameters that adapt | state |",
    "|---|---|---|---|",
]


@event_priority(50)  # before mkdocstrings looks for them
def on_config(config: Any) -> None:
    """Link the packages where they are called `holdfast`, and list the classes' pages."""
    shutil.rmtree(LINKS, ignore_errors=True)
    LINKS.mkdir(parents=True)
    for path in [*(ROOT / "core").glob("*.py"), *(ROOT / name for name in PACKAGES)]:
        (LINKS / path.name).symlink_to(path)

    sections = {name: pages for section in config.nav for name, pages in section.items()}
    for part in PARTS:
        for file, heading, _ in class_pages(part):
            sections[part.capitalize()].append({heading: f"{part}/{file}"})
    sections["Papers"][:] = map(with_tables, sections["Papers"])


def with_tables(entry: dict[str, str]) -> dict[str, Any]:
    """An entry of the navigation; a paper has the pages of its tables, in the order of its front page."""
    ((title, page),) = entry.items()
    folder = (ROOT / "docs" / page).with_suffix("")
    if not folder.is_dir():
        return entry
    text = folder.with_suffix(".md").read_text(encoding="utf-8").partition("\n## ")[2]
    names = re.findall(rf"\]\({folder.name}/([^/]+)\.md\)", text)
    tables = [{name: f"papers/{folder.name}/{name}.md"} for name in names]
    return {title: [{"Summary": page}, *tables]}


def class_pages(part: str) -> list[tuple[str, str, dict[str, list[str]]]]:
    """The pages of a folder by the year in their first row: file, heading, rows of the index by label."""
    found = []
    for path in sorted((ROOT / "docs" / part).glob("*.md")):
        matter, heading = re.match(
            r"(?:---\n(.*?)---\n)?# (.+?)\n", path.read_text(), re.S
        ).groups()
        if matter:
            found.append((path.name, heading, yaml.safe_load(matter)["index"]))
    return sorted(found, key=lambda page: re.findall(r"\b\d{4}$", next(iter(page[2].values()))[-1]))


def on_files(files: Files, config: Any) -> Files:
    """Add a reference page for each package, and the changelog."""
    described = {heading for part in PARTS for _, heading, _ in class_pages(part)}
    for page in files.documentation_pages():
        text = Path(page.abs_src_path).read_text()
        described |= set(re.findall(r"^::: holdfast\.\w+\.(\w+)$", text, re.M))
    for package in PACKAGES:
        names = [*exported(package), *FUNCTIONS.get(package, [])]
        add(files, config, package, [f"{package}.{name}" for name in names], described)
    for page, modules in MODULES.items():
        add(files, config, page, modules, described)
    changelog = File.generated(config, "changelog.md", abs_src_path=str(ROOT / "CHANGELOG.md"))
    files.append(changelog)
    kept = json.loads(page_curves.KEPT.read_text())
    for part, names in kept.items():
        for name in names:
            drawn = page_curves.picture(part, name, kept)
            files.append(File.generated(config, f"{part}/{picture(name)}", content=drawn))
    return files


def picture(name: str) -> str:
    """The file of a class' curve, beside its page."""
    return f"curve-{name.lower()}.svg"


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Add the sections of a class' page, and what a comment asks for, such as an index."""
    heading = re.match(r"# (\w+)\n", markdown)
    if page.meta.get("index") and heading:
        markdown = completed(markdown, page.file.src_uri.partition("/")[0], heading[1])
    for comment, name in re.findall(r"^(<!-- (.+) -->)$", markdown, re.M):
        filled = {"index": index, "needs": needs, "costs": costs, "fares": fares}.get(name)
        markdown = markdown.replace(comment, filled(page) if filled else of_readme(comment, name))
    return markdown.replace(
        "](docs/", "]("
    )  # in README and CHANGELOG, which lie outside the folder


def completed(markdown: str, part: str, name: str) -> str:
    """A class' page with the sections that it does not have itself."""
    sections = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", markdown, re.M | re.S))
    if part == "methods":
        sections["Use"] += f"{configurations(name)}\n\n"
        sections["Cost"] += f"{cost(name)}\n\n"
    source = sections.pop("Source")
    sections.setdefault("On embedded glyphs", f"\n{curve(part, name)}\n\n")
    settings = sections.pop("Settings", f"\n::: holdfast.{PARTS[part]}.{name}\n{OPTIONS}\n")
    sections |= {"Source": source.rstrip() + "\n\n", "Settings": settings}
    head = markdown.partition("## ")[0]
    return head + "".join(f"## {title}\n{text}" for title, text in sections.items() if text)


def configurations(name: str) -> str:
    """The presets of a method."""
    known = yaml.safe_load(METHODS.read_text()).items()
    found = [preset for preset, own in known if own["class_path"] == f"holdfast.methods.{name}"]
    names = ", ".join(f"`{preset}`" for preset in found)
    return f"Presets, for a suite or `holdfast test --preset`: {names}."


def index(page: Page) -> str:
    """A row for each page of the folder, or for each label of a page."""
    rows = [
        f"| [{label}]({file}) | {' | '.join(cells)} |"
        for file, _, labels in class_pages(page.file.src_uri.partition("/")[0])
        for label, cells in labels.items()
    ]
    return "\n".join(rows)


def needs(_: Page) -> str:
    """A table of the methods for each answer to: source images? backpropagation?"""
    tables: dict[tuple[bool, bool], list[str]] = {key: [] for key in NEEDS}
    for file, _, labels in class_pages("methods"):
        matter = (ROOT / "docs" / "methods" / file).read_text().split("---\n")[1]
        known = yaml.safe_load(matter).get("needs", {})
        for label, (idea, cost, adapts, remembers, source, paper) in labels.items():
            order, batch = known.get(label, UNKNOWN)
            cells = [
                f"[{label}]({file})",
                idea,
                order,
                batch,
                cost,
                adapts,
                remembers,
                *([] if source == "no" else [source]),
                paper,
            ]
            tables[source != "no", "bwd" in cost].append(f"| {' | '.join(cells)} |")
    parts = []
    for key, title in NEEDS.items():
        columns = ["method", "idea", "labels", "batch", "a batch costs", "adapts", "remembers"]
        columns += ["source images", "paper"] if key[0] else ["paper"]
        head = f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|"
        parts.append("\n".join([f"### {title}\n", head, *tables[key]]))
    return "\n\n".join(parts)


def fares(_: Page) -> str:
    """A table of the leaderboard's methods: worst seeds, also on a long stream, rank under a deadline."""
    from holdfast.benchmarks.leaderboard.page import read_entries, rows
    from holdfast.benchmarks.leaderboard.track import Track
    from holdfast.benchmarks.papers import EXPERIMENTS
    from holdfast.benchmarks.papers.engine.table import Table

    independent, correlated = rows(read_entries(Track())).values()
    others = {row["method"]: row for row in correlated}
    late = sorted(independent, key=lambda row: -row["deadline_utility"])
    ranks = {row["method"]: rank for rank, row in enumerate(late, 1)}
    long = Table.read(EXPERIMENTS["rdumb/long"].committed["embedded"])
    files = {label: file for file, _, labels in class_pages("methods") for label in labels}
    lines = []
    for row in independent:
        name = row["method"]
        ends = long.values("CCC-Medium", name, 100).values()
        cells = [
            f"[{name}]({files[name]})" if name in files else name,
            f"{100 * row['worst_seed']:.1f}",
            f"{100 * others[name]['worst_seed']:.1f}",
            f"{min(ends):.1f}" if ends else "-",
            str(ranks[name]),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    head = "| method | independent labels | correlated labels | after a million images | deadline: rank |"
    return "\n".join([head, "|---|---|---|---|---|", *lines])


def of_readme(comment: str, name: str) -> str:
    """README's first picture and what it shows, or its table in the section that a comment names."""
    readme = (ROOT / "README.md").read_text()
    if name == "README: picture":
        return re.search(r"^!\[.*?(?=\n## )", readme, re.M | re.S)[0]
    section = name.removeprefix("README: ")
    body = readme.partition(f"## {section}\n")[2].strip().partition("\n\n")[0]
    if not body.startswith("|"):
        raise PluginError(f"README.md has no table for {comment}")
    return body


def curve(part: str, name: str) -> str:
    """The picture of a class' curve, with what it shows."""
    kept = json.loads(page_curves.KEPT.read_text())
    if name not in kept[part]:
        suites = {"methods": "methods-2026", "estimators": "aetta/estimators --scale quick"}
        return f"Not drawn yet: `holdfast suite {suites[part]}`, then `docs/page_curves.py`."
    said = page_curves.caption(part, name, kept)
    return f"![{said.replace('`', '')}]({picture(name)})\n\n*{said}*"


def cost(name: str) -> str:
    """What a step of one method costs."""
    measured = json.loads(COSTS.read_text())
    lines = [row(label, measured) for label in measured["methods"] if label.split("-")[0] == name]
    if not lines:
        return f"`holdfast bench steps --methods {name} --backbone NETWORK` measures it for your network."
    return "\n".join([*HEADER, *lines, "", f"({measured['setting']})"])


def costs(_: Page) -> str:
    """What a step of each method costs."""
    measured = json.loads(COSTS.read_text())
    lines = [row(label, measured) for label in measured["methods"]]
    return "\n".join([*HEADER, *lines, "", f"Measured with {measured['setting']}."])


def row(label: str, measured: dict[str, Any]) -> str:
    """A method's line of the table."""
    own = measured["methods"][label]
    state = f"{own['state'] / 1024:.0f} KiB"
    return (
        f"| {label} | {own.get('sources', own['forwards']):.1f} | {own['adapts']:.2%} | {state} |"
    )


def exported(package: str) -> list[str]:
    """The names that a package, which is not imported, exports: `from .module import Name as Name`."""
    module = "exports.py" if package == "datamodules" else "__init__.py"
    body = ast.parse((ROOT / package / module).read_text()).body
    names = [
        alias.asname for node in body if isinstance(node, ast.ImportFrom) for alias in node.names
    ]
    return sorted(filter(None, names), key=str.lower)


def add(files: Files, config: Any, page: str, names: list[str], described: set[str]) -> None:
    """Append the page reference/PAGE.md, which describes these names or links to where they are."""
    package = names[0].split(".")[0]
    lines = [f"# {title(page, package)}", ""]
    elsewhere = [name for name in names if name.rpartition(".")[2] in described]
    if elsewhere:
        links = [f"[{n.rpartition('.')[2]}][holdfast.{n}]" for n in elsewhere]
        lines += [f"With pages of their own: {', '.join(links)}.", ""]
    for name in names:
        if name not in elsewhere:
            lines += [f"::: holdfast.{name}", ""]
    files.append(File.generated(config, f"reference/{page}.md", content="\n".join(lines)))


def title(page: str, package: str) -> str:
    return f"holdfast.{page}" if page == package else f"holdfast.{package}.{page}"
