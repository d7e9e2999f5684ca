"""A SPARK_HOME whose Python part is made of files, and workers that do not search it for garbage."""

import gc
import os
import zipfile
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from pyspark_msmq.quick_workers import spare_imports, use_quick_workers

INSTALLED = Path(pyspark.__file__).parent


@pytest.fixture(autouse=True)
def nobody_has_a_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SPARK_HOME", "")
    monkeypatch.delenv("SPARK_HOME")


def test_everything_is_the_installed_package() -> None:
    use_quick_workers()
    home = Path(os.environ["SPARK_HOME"])
    for name in ("bin", "jars"):
        assert (home / name).resolve() == INSTALLED / name
    archives = {each.name: each for each in (INSTALLED / "python" / "lib").iterdir()}
    assert archives.keys() == {each.name for each in (home / "python" / "lib").iterdir()}
    for name, archive in archives.items():
        top = {inside.partition("/")[0] for inside in zipfile.ZipFile(archive).namelist()}
        folder = home / "python" / "lib" / name
        assert {each.name for each in folder.iterdir()} == top
        assert all((each / "__init__.py").exists() for each in folder.iterdir())


def test_it_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    use_quick_workers()
    home = Path(os.environ["SPARK_HOME"])
    made = home.stat().st_ino
    monkeypatch.delenv("SPARK_HOME")
    use_quick_workers()
    assert (os.environ["SPARK_HOME"], home.stat().st_ino) == (str(home), made)
    assert [each.name for each in home.parent.iterdir()] == [home.name]


def test_ones_own_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    use_quick_workers()
    assert os.environ["SPARK_HOME"] == "/opt/spark"


def test_without_a_place_for_it_all_is_as_ever(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(taken))
    use_quick_workers()
    assert "SPARK_HOME" not in os.environ


def test_workers_use_it(spark: SparkSession) -> None:
    def where(_: int) -> str:
        import pyspark  # noqa: PLC0415  # the worker's

        return pyspark.__file__

    assert spark.sparkContext.parallelize([0], 1).map(where).map(os.path.isfile).collect() == [True]


def test_imports_are_spared_the_search_for_garbage(spark: SparkSession) -> None:
    def spared(_: int) -> int:
        spare_imports()
        return gc.get_freeze_count()

    assert spark.sparkContext.parallelize([0], 1).map(spared).collect() > [10_000]


def test_but_not_in_the_program_itself() -> None:
    before = gc.get_freeze_count()
    spare_imports()
    assert gc.get_freeze_count() == before
