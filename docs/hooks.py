"""What MkDocs is given that does not lie in docs/: the packages' source, reference pages, the changelog."""

import ast
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parent))
import curves

ROOT = Path(__file__).parent.parent
LINKS = ROOT / "build" / "reference" / "holdfast"
PACKAGES = ("agents", "benchmarks", "callbacks", "datamodules", "methods")
# Public modules of several functions, and those with the functions that a user calls in Python.
MODULES = {
    "functional": [
        f"callbacks.functional.{path.stem}"
        for path in sorted((ROOT / "callbacks" / "functional").glob("[a-z]*.py"))
    ],
    "corruptions": ["datamodules.corruptions"],
}
FUNCTIONS = {
    "benchmarks": [
        "calibrate.calibrate",
        "results.runs.collect",
        "results.runs.find",
        "results.runs.Run",
        "results.report.as_json",
    ],
    "agents": ["run.run", "data.Dataset", "data.Sample"],
}
COSTS = ROOT / "docs" / "costs.json"  # holdfast step-cost --json
HEADER = [
    "| method | time, in steps of Source | parameters that adapt | state |",
    "|---|---|---|---|",
]


@event_priority(50)  # before mkdocstrings looks for them
def on_config(config: Any) -> None:
    """Link the packages where they are called `holdfast`, and list the papers' pages."""
    shutil.rmtree(LINKS, ignore_errors=True)
    LINKS.mkdir(parents=True)
    for path in [*(ROOT / "core").glob("*.py"), *(ROOT / name for name in PACKAGES)]:
        (LINKS / path.name).symlink_to(path)

    papers = next(section["Papers"] for section in config.nav if "Papers" in section)
    for folder in sorted(path for path in (ROOT / "docs" / "papers").iterdir() if path.is_dir()):
        pages = [
            {page.stem: f"papers/{folder.name}/{page.name}"} for page in sorted(folder.glob("*.md"))
        ]
        papers.append({folder.name: pages})


def on_files(files: Files, config: Any) -> Files:
    """Add a reference page for each package, and the changelog."""
    described = {
        name: page.src_uri
        for page in files.documentation_pages()
        for name in re.findall(
            r"^::: holdfast\.\w+\.(\w+)$", Path(page.abs_src_path).read_text(), re.M
        )
    }
    for package in PACKAGES:
        names = [*exported(package), *FUNCTIONS.get(package, [])]
        add(files, config, package, [f"{package}.{name}" for name in names], described)
    for page, modules in MODULES.items():
        add(files, config, page, modules, described)
    changelog = File.generated(config, "changelog.md", abs_src_path=str(ROOT / "CHANGELOG.md"))
    files.append(changelog)
    kept = json.loads(curves.KEPT.read_text())
    for part, names in kept.items():
        for name in names:
            drawn = curves.picture(part, name, kept)
            files.append(File.generated(config, f"{part}/{picture(name)}", content=drawn))
    return files


def picture(name: str) -> str:
    """The file of a class' curve, beside its page."""
    return f"curve-{name.lower()}.svg"


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Fill in what a comment asks for: a table of the README, a class' curve, what a step costs."""
    for comment, name in re.findall(r"^(<!-- (.+) -->)$", markdown, re.M):
        filled = {"curve": curve, "cost": cost, "costs": costs}.get(name)
        markdown = markdown.replace(comment, filled(page) if filled else of_readme(comment, name))
    return markdown


def of_readme(comment: str, name: str) -> str:
    """The table in the README behind the same comment, or in the section that it names."""
    section = name.removeprefix("README: ")
    start = f"## {section}\n" if section != name else comment
    body = (ROOT / "README.md").read_text().partition(start)[2].strip().partition("\n\n")[0]
    if not body.startswith("|"):
        raise PluginError(f"README.md has no table for {comment}")
    return body.replace("](docs/", "](")


def described_by(page: Page) -> tuple[str, str]:
    """The folder of a page, and the class in its title."""
    found = re.search(r"^# (\w+)$", Path(page.file.abs_src_path).read_text(), re.M)
    assert found
    return page.file.src_uri.partition("/")[0], found[1]


def curve(page: Page) -> str:
    """The picture of a class' curve, with what it shows."""
    part, name = described_by(page)
    kept = json.loads(curves.KEPT.read_text())
    if name not in kept[part]:
        runs = f"{part}-glyphs"
        return f"`holdfast suite {runs}` and `python docs/curves.py runs/{runs}` draw it here."
    said = curves.caption(part, name, kept)
    return f"![{said.replace('`', '')}]({picture(name)})\n\n*{said}*"


def cost(page: Page) -> str:
    """What a step of one method costs."""
    _, name = described_by(page)
    measured = json.loads(COSTS.read_text())
    lines = [row(label, measured) for label in measured["methods"] if label.split("-")[0] == name]
    return "\n".join([*HEADER, *lines, "", f"({measured['setting']})"])


def costs(page: Page) -> str:
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
    """`__all__` of a package, which is not imported."""
    for node in ast.parse((ROOT / package / "__init__.py").read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return sorted(ast.literal_eval(node.value), key=str.lower)
    return []


def add(files: Files, config: Any, page: str, names: list[str], described: dict[str, str]) -> None:
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
