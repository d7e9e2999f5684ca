"""What is shipped, and computers that have everything but the source."""

import importlib.metadata
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parents[2]
NEEDED = ("numpy", "pyarrow")  # by the source, in a task


def run(*command: str | Path, cwd: Path | None = None) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stdout + done.stderr


def python_without_the_source(folder: Path, *more: Path) -> Path:
    """A Python with every dependency of this one, and without our own packages.

    They are installed by a .pth file, and those are not read in a folder that is itself named by one.
    """
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    places = [sysconfig.get_path("purelib"), *map(str, more)]
    site = next(folder.glob("lib/python*/site-packages"))
    (site / "dependencies.pth").write_text("".join(f"{place}\n" for place in places), "utf-8")
    python = folder / "bin" / "python"
    missing = subprocess.run((python, "-c", "import pyspark_msmq"), capture_output=True, check=False)  # noqa: S603
    assert b"ModuleNotFoundError" in missing.stderr, "this Python has the source"
    run(python, "-c", "import pyspark, pyarrow")
    return python


def wheel(folder: Path) -> Path:
    run(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder, cwd=ROOT)
    return next(folder.glob("*.whl"))


def archive(folder: Path) -> Path:
    """For `--py-files`, which takes a wheel by the name of .zip only."""
    return wheel(folder).rename(folder / "tiercel.zip")


def packed_environment(folder: Path) -> Path:
    """A virtual environment for `--archives`; Spark brings PySpark itself."""
    made = folder / "environment"
    run(sys.executable, "-m", "venv", made)
    pinned = [f"{name}=={importlib.metadata.version(name)}" for name in NEEDED]
    run(made / "bin" / "pip", "install", "--quiet", *pinned)
    run(made / "bin" / "pip", "install", "--quiet", "--no-deps", wheel(folder))
    packed = folder / "environment.tar.gz"
    run("tar", "--create", "--gzip", "--file", packed, "--directory", made, ".")
    return packed
