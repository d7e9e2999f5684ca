"""The front door on machines that lack something: make says what to do."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def make(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = ["make", "--no-print-directory", *arguments]
    return subprocess.run(  # noqa: S603  # our own Makefile
        command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("hidden", ["ensurepip", "venv"])
def test_without_venv_it_names_the_package(hidden: str, tmp_path: Path) -> None:
    """Debian packages venv and ensurepip apart from Python."""
    (tmp_path / f"{hidden}.py").write_text(f"raise ModuleNotFoundError('No module named {hidden}')")
    made = make(f"VENV={tmp_path}/venv", f"PYTHON={sys.executable}", "setup", PYTHONPATH=str(tmp_path))
    assert made.returncode == 2
    package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
    assert f"On Debian and Ubuntu run: sudo apt install {package}" in made.stdout
    assert not (tmp_path / "venv").exists()


def test_an_old_python_is_refused(tmp_path: Path) -> None:
    old = tmp_path / "python3.9"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    made = make(f"VENV={tmp_path}/venv", f"PYTHON={old}", "setup")
    assert made.returncode == 2
    assert "Tiercel needs Python 3.11 or later" in made.stdout


def test_pythons_finds_this_one() -> None:
    version, folder = "{}.{}".format(*sys.version_info), Path(sys.executable).parent
    found = subprocess.run(  # noqa: S603  # our own script
        [sys.executable, str(ROOT / "tools" / "pythons")],
        env=os.environ | {"PATH": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    listed, python = found.stdout.split()
    assert (listed, Path(python).parent) == (version, folder)


def test_pythons_lists_each_version_once() -> None:
    found = subprocess.run(  # noqa: S603  # our own script
        [sys.executable, str(ROOT / "tools" / "pythons")], capture_output=True, text=True, check=True
    )
    versions = [line.split()[0] for line in found.stdout.splitlines()]
    assert len(versions) == len(set(versions))
    assert all(tuple(map(int, each.split("."))) >= (3, 11) for each in versions)
