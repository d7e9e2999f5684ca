"""The example for Airflow, parsed by Airflow itself; `make airflow` installs it into .venv-airflow."""

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tiercel.cli import main

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-airflow" / "bin" / "python"
PARSE = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
found = DagBag(sys.argv[1])
print(json.dumps({
    "errors": found.import_errors,
    "dags": {dag.dag_id: {
        task.task_id: [task.bash_command, sorted(task.downstream_task_ids), task.pool] for task in dag.tasks
    } for dag in found.dags.values()},
}))
"""


@pytest.fixture(scope="module")
def parsed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    if not PYTHON.exists():
        pytest.skip("Airflow is not installed; make airflow does that")
    home = tmp_path_factory.mktemp("airflow")
    environment = {**os.environ, "AIRFLOW_HOME": str(home), "AIRFLOW__CORE__LOAD_EXAMPLES": "false"}
    command = [str(PYTHON), "-c", PARSE, str(ROOT / "examples" / "airflow_pipeline.py")]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)  # noqa: S603  # ours
    return json.loads(done.stdout.splitlines()[-1])


def test_airflow_takes_the_example(parsed: Any) -> None:
    assert parsed["errors"] == {}
    assert {name: sorted(tasks) for name, tasks in parsed["dags"].items()} == {
        "orders": ["plan", "run"],
        "orders_nightly": ["compact", "report"],
    }
    assert parsed["dags"]["orders"]["plan"][1] == ["run"]
    assert parsed["dags"]["orders"]["run"][2] == parsed["dags"]["orders_nightly"]["compact"][2] == "orders"


def test_every_command_is_one_of_ours(parsed: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for tasks in parsed["dags"].values():
        for command, _, _ in tasks.values():
            program, *arguments = shlex.split(command.replace("{{ ds }}", "2026-11-18"))
            assert program == "tiercel"
            options = [each for each in arguments if each.startswith("--")]
            assert main([*arguments[:2], "--help"]) == 0
            shown = capsys.readouterr().out
            assert all(each in shown for each in options)
