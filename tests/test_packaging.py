"""The package installs and starts anywhere, and the code is in order."""

import ast
import configparser
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def run(*command: object, **kwargs: object) -> subprocess.CompletedProcess:
    return subprocess.run(  # type: ignore[call-overload]
        [str(word) for word in command],
        **{"capture_output": True, "text": True, "timeout": 180, "check": True, **kwargs},
    )


def test_every_package_is_listed() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    listed = set(setup["options"]["packages"].split())
    folders = {path.parent.relative_to(ROOT) for path in ROOT.glob("[a-z]*/**/__init__.py")}
    folders -= {f for f in folders if f.parts[0] in ("build", "dist", "tests")}
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


def test_wheel_starts_in_a_fresh_environment(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    run(tmp_path / "venv" / "bin" / "pip", "install", "--no-deps", "--no-index", wheel)
    shown = run(tmp_path / "venv" / "bin" / "holdfast", "--help", cwd=tmp_path).stdout
    assert "demo" in shown
    assert "report" in shown


def test_wheel_occupies_one_name_only(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"holdfast"}
    for needed in ("datamodules/sources/glyphs.txt", "benchmarks/configs/demo.yaml", "py.typed"):
        assert f"holdfast/{needed}" in names


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import contextlib, sys\nfrom holdfast.benchmarks.cli import main\n"
        "with contextlib.suppress(SystemExit): main(['--help'])\n"
        "print(sorted({'torch', 'lightning', 'numpy', 'matplotlib', 'dspy'} & set(sys.modules)))"
    )
    assert run(sys.executable, "-c", code).stdout.endswith("[]\n")


def test_agents_import_no_torch() -> None:
    for path in (ROOT / "agents").glob("**/*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {"torch", "lightning"} & {n.split(".")[0] for n in names}, path


@pytest.mark.parametrize("command", [("check", "."), ("format", "--check", ".")], ids=" ".join)
def test_ruff(command: tuple[str, ...]) -> None:
    found = run(sys.executable, "-m", "ruff", *command, cwd=ROOT, check=False)
    assert found.returncode == 0, found.stdout


def test_types(tmp_path: Path) -> None:
    """The checker knows a package by its folder's name, which a clone may have chosen freely."""
    (tmp_path / "holdfast").symlink_to(ROOT)
    config = tmp_path / "holdfast" / "pyproject.toml"
    packages = ["agents", "benchmarks", "callbacks", "datamodules", "methods"]
    words = [word for name in packages for word in ("-p", f"holdfast.{name}")]
    cache = ROOT / ".mypy_cache"
    found = run(
        *(sys.executable, "-m", "mypy", "--config-file", config, "--cache-dir", cache, *words),
        **{"cwd": tmp_path, "check": False},
    )
    assert found.returncode == 0, found.stdout
