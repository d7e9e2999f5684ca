"""Workers of Python that lose no time.

Spark on this computer has them import pyspark from an archive that holds no compiled code, so each compiles
it first: most of a second, and a query starts a dozen of them. `use_quick_workers` makes a SPARK_HOME where
everything is a link to the installed package, and the archives are folders with the same names.

After every task a worker searches everything that it holds for garbage, which takes some ten milliseconds.
What it has imported is none: `spare_imports` has it left out.
"""

import gc
import hashlib
import os
import shutil
import tempfile
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pyspark
from pyspark import TaskContext


def use_quick_workers() -> None:
    """For a Spark that runs on this computer; whoever has a SPARK_HOME of his own keeps it."""
    if "SPARK_HOME" not in os.environ:
        with suppress(OSError):  # without a folder for it, workers start as slowly as ever
            os.environ["SPARK_HOME"] = str(_made(Path(pyspark.__file__).parent))


@cache  # once in each worker
def spare_imports() -> None:
    """For a task, when all that it needs is imported."""
    if TaskContext.get() is not None:
        gc.freeze()


def cache_folder() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "pyspark_msmq"


def _made(installed: Path) -> Path:
    key = hashlib.sha256(os.fsencode(installed)).hexdigest()[:16]
    home = cache_folder() / f"spark-{pyspark.__version__}-{key}"
    if not home.exists():
        home.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(dir=home.parent))
        _fill(draft, installed)
        try:
            draft.rename(home)
        except OSError:  # somebody else was quicker
            shutil.rmtree(draft)
    return home


def _fill(home: Path, installed: Path) -> None:
    for part in installed.iterdir():
        if part.name != "python":
            (home / part.name).symlink_to(part)
    for archive in (installed / "python" / "lib").glob("*.zip"):
        name = archive.name.partition("-")[0].removesuffix(".zip")  # py4j-0.10.9.9-src.zip, pyspark.zip
        found = find_spec(name)
        assert found is not None
        assert found.origin is not None
        folder = home / "python" / "lib" / archive.name
        folder.mkdir(parents=True)
        # Only the package itself: its neighbours must not come before what is on the user's own path.
        (folder / name).symlink_to(Path(found.origin).parent)
