"""Nobody pays for a framework that nobody uses."""

import json
import subprocess
import sys

import pytest

HEAVY = ("fastapi", "pydantic", "starlette", "uvicorn", "prometheus_client", "pyarrow")


@pytest.mark.parametrize(
    "imports", ["tiercel", "tiercel.faces", "tiercel.aio", "tiercel.cli.serve, tiercel.server.service"]
)
def test_it_is_loaded_by_the_first_request(imports: str) -> None:
    program = f"import {imports}, json, sys; print(json.dumps(list(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)  # noqa: S603
    loaded = {name.partition(".")[0] for name in json.loads(done.stdout)}
    assert loaded.isdisjoint(HEAVY)
