"""Programs of others, which `make interop` installs."""

import shutil
from pathlib import Path

import pytest


def installed(program: str, elsewhere: Path | None = None) -> str:
    """The path of a program; without it, the test is skipped."""
    found = shutil.which(program) or (str(elsewhere) if elsewhere is not None and elsewhere.exists() else "")
    if not found:
        pytest.skip(f"{program} is not installed; make interop does that")
    return found
