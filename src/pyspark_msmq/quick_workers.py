"""Faster Python workers.

Local Spark workers import pyspark from an archive without compiled code, so each one compiles it first, which
takes most of a second; a query starts a dozen of them. `use_quick_workers` makes a SPARK_HOME of links to the
installed package, with folders in place of the archives.

After every task a worker runs the garbage collector over all objects, which takes about ten milliseconds.
`spare_imports` excludes imported modules from that.
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
    """For a local Spark; an existing SPARK_HOME is kept."""
    if "SPARK_HOME" not in os.environ:
        with suppress(OSError):  # without a cache folder, workers start slowly
            os.environ["SPARK_HOME"] = str(_made(Path(pyspark.__file__).parent))


@cache  # once in each worker
def spare_imports() -> None:
    """Call in a task after its imports."""
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
        except OSError:  # another process was faster
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
        # Only the package itself: its neighbours must not shadow the user's path.
        (folder / name).symlink_to(Path(found.origin).parent)
