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


_ARROW_AT_THE_FIRST_PUBLISH = """
import asyncio, sys, threading
from tiercel.data import daemon_app

class Watch:
    threads = set()

    def find_spec(self, name, *_):
        if name == "pyarrow":
            self.threads.add(threading.current_thread() is threading.main_thread())

sys.meta_path.insert(0, Watch())
rows_of = asyncio.run(daemon_app._rows_of())
print(Watch.threads, rows_of.__module__)
"""


def test_the_event_loop_has_turns_while_arrow_is_imported() -> None:
    command = [sys.executable, "-c", _ARROW_AT_THE_FIRST_PUBLISH]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout == "{False} tiercel.data.staged_rows\n"
