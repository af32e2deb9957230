"""What MkDocs is given that does not lie in docs/: the packages' source, reference pages, the changelog."""

import ast
import re
import shutil
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent  # of the repository, which is the package
COPY = ROOT / "build" / "reference" / "holdfast"
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


@event_priority(50)  # before mkdocstrings looks for them
def on_config(config: Any) -> None:
    """Copy the packages to where they are called `holdfast`, and list the papers' pages."""
    shutil.rmtree(COPY, ignore_errors=True)
    COPY.mkdir(parents=True)
    for path in ROOT.glob("*.py"):
        shutil.copy(path, COPY)
    for name in PACKAGES:
        shutil.copytree(ROOT / name, COPY / name, ignore=only_python)

    papers = next(section["Papers"] for section in config.nav if "Papers" in section)
    for folder in sorted(path for path in (ROOT / "docs" / "papers").iterdir() if path.is_dir()):
        pages = [
            {page.stem: f"papers/{folder.name}/{page.name}"} for page in sorted(folder.glob("*.md"))
        ]
        papers.append({folder.name: pages})


def only_python(folder: str, names: list[str]) -> list[str]:
    """The names of what is neither Python nor a folder."""
    return [
        n
        for n in names
        if n == "__pycache__" or not (n.endswith(".py") or Path(folder, n).is_dir())
    ]


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
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill in what stands in the README, where a comment names it."""
    readme = (ROOT / "README.md").read_text()
    for comment, name in re.findall(r"^(<!-- (.+) -->)$", markdown, re.M):
        section = name.removeprefix("README: ")
        start = f"## {section}\n" if section != name else comment
        body = readme.partition(start)[2].strip().partition("\n\n")[0]
        if not body.startswith("|"):
            raise PluginError(f"README.md has no table for {comment}")
        markdown = markdown.replace(comment, body.replace("](docs/", "]("))
    return markdown


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
