"""Process tuning: a server does not import pandas."""

import subprocess
import sys

import pytest

pytest.importorskip("pandas")

_SCRIPT = """
import sys
from tiercel.server import process_tuning
{first}
import pyarrow as pa
assert pa.array([1, None]).to_pylist() == [1, None]
print("pandas" in sys.modules)
"""


@pytest.mark.parametrize(("first", "has_pandas"), [("", True), ("process_tuning.leave_out_pandas()", False)])
def test_arrow_does_without_pandas(first: str, has_pandas: bool) -> None:
    """The first case shows that Arrow imports pandas by itself."""
    script = _SCRIPT.format(first=first)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout == f"{has_pandas}\n"
