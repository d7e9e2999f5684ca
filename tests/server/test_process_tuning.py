"""Process tuning: a server does not import pandas, and searches for cycles rarely."""

import gc
import subprocess
import sys

import pytest

from tiercel.server import process_tuning

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
    pytest.importorskip("pandas")
    script = _SCRIPT.format(first=first)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout == f"{has_pandas}\n"


def fail_without_garbage() -> None:
    with process_tuning.garbage_left_alone():
        raise ValueError("it has ended")


def test_garbage_is_left_alone_until_the_last_one_has_ended() -> None:
    with process_tuning.garbage_left_alone():
        with process_tuning.garbage_left_alone():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ValueError, match="ended"):
        fail_without_garbage()
    assert gc.isenabled()
