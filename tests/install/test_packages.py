"""The wheel and the source archive: built here, installed where nothing else is, without a network."""

import os
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("packages")  # built once

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def run(*command: str | Path, folder: Path, **environment: str) -> str:
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ended = subprocess.run(  # noqa: S603  # what we have built ourselves
        list(map(str, command)),
        cwd=folder,
        env=clean | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def built(source: Path, target: Path, *kinds: str) -> Path:
    run(sys.executable, "-m", "hatchling", "build", "-d", target, *kinds, folder=source)
    [found] = target.iterdir()
    return found


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(ROOT, tmp_path_factory.mktemp("archive"), "-t", "sdist")


@pytest.fixture(scope="module")
def wheel(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the source archive, which must have all that is needed then."""
    folder = tmp_path_factory.mktemp("source")
    with tarfile.open(archive) as packed:
        packed.extraction_filter = getattr(tarfile, "data_filter", None)  # Debian's Python has none
        packed.extractall(folder)  # noqa: S202  # what we have packed ourselves
    [source] = folder.iterdir()
    return built(source, tmp_path_factory.mktemp("wheel"), "-t", "wheel")


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with nothing but the wheel in it."""
    venv = tmp_path_factory.mktemp("venv")
    run(sys.executable, "-m", "venv", "--without-pip", venv, folder=venv)
    pip = (sys.executable, "-m", "pip", "--python", venv / "bin" / "python", "--disable-pip-version-check")
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", wheel, folder=venv)
    return venv


def test_the_archive_has_what_one_needs_to_work_on_it(archive: Path) -> None:
    with tarfile.open(archive) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    for wanted in (
        "LICENSE",
        "Makefile",
        "requirements/dev.lock",
        "docs/README.md",
        "packaging/tiercel.service",
    ):
        assert wanted in names
    assert "tests/vectors/README.md" in names


def test_the_wheel_has_the_packages_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
    source = {str(each.relative_to(ROOT / "src")) for each in (ROOT / "src").rglob("*.py")}
    packages = [name for name in names if ".dist-info/" not in name]
    assert {name for name in packages if name.endswith(".py")} == source
    assert {name.partition("/")[0] for name in packages} == {"tiercel", "pyspark_msmq"}
    assert {"tiercel/py.typed", "pyspark_msmq/py.typed"} <= set(names)


def test_the_program_works(installed: Path, tmp_path: Path) -> None:
    """With the dependencies of this environment, but not with the sources that it is tied to."""
    libraries = sysconfig.get_paths()["purelib"]
    program = installed / "bin" / "tiercel"
    version = run(program, "--version", folder=tmp_path, PYTHONPATH=libraries)
    assert version.split() == ["tiercel", PROJECT["version"]]
    code = "import tiercel; print(tiercel.__file__); tiercel.open('data').close()"
    where = run(installed / "bin" / "python", "-c", code, folder=tmp_path, PYTHONPATH=libraries)
    assert where.startswith(str(installed))
    assert run(program, "check", "data", folder=tmp_path, PYTHONPATH=libraries).startswith("sound")


def test_pytest_finds_the_fixtures(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "def test_it(queue_manager): queue_manager.create_queue('q')\n", "utf-8"
    )
    libraries = sysconfig.get_paths()["purelib"]
    words = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "test_it.py")
    said = run(installed / "bin" / "python", *words, folder=tmp_path, PYTHONPATH=libraries)
    assert "1 passed" in said
    # A suite that names the module as before: pytest refuses one that is registered under two names.
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["tiercel.testing"]\n', "utf-8")
    assert "1 passed" in run(installed / "bin" / "python", *words, folder=tmp_path, PYTHONPATH=libraries)


def test_the_library_needs_few_packages(installed: Path, tmp_path: Path) -> None:
    """`import tiercel` is for programs that have a queue manager inside: no HTTP, no Arrow, no terminal."""
    libraries = sysconfig.get_paths()["purelib"]
    code = "import sys, tiercel; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = set(run(installed / "bin" / "python", "-c", code, folder=tmp_path, PYTHONPATH=libraries).split())
    assert not loaded & {
        "fastapi",
        "starlette",
        "uvicorn",
        "httpx",
        "typer",
        "rich",
        "pyarrow",
        "numpy",
        "pyspark",
    }
