"""What README and docs/spark.md show runs as it stands, on a computer without Java."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pyspark_msmq.options import BatchOptions, StreamOptions, WriteOptions, names
from pyspark_msmq.schema import DISCARDS, MESSAGES
from spark.jvm import JAVA_OPTIONS
from spark.served import Served
from tiercel import columns

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "spark.md").read_text("utf-8")
README = (ROOT / "README.md").read_text("utf-8")


def example(text: str) -> str:
    found = [
        block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "pyspark_msmq" in block
    ]
    assert len(found) == 1
    return str(found[0])


def test_the_example(daemon: Served, tmp_path: Path) -> None:
    assert example(README) == example(PAGE)
    daemon.make_queue("orders")
    daemon.send("orders", "tea", "milk")
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("/bin", "/usr/bin"):  # what Spark's scripts need, without any java
        for program in Path(tool).iterdir():
            if program.name != "java" and not (tools / program.name).exists():
                (tools / program.name).symlink_to(program)
    without_java = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    ended = subprocess.run(  # noqa: S603  # our own words
        (sys.executable, "-c", example(README)),
        cwd=tmp_path,
        env=without_java
        | {"MSMQ_URL": daemon.url, "PATH": str(tools), "XDG_CACHE_HOME": str(tmp_path)}
        | {"JDK_JAVA_OPTIONS": JAVA_OPTIONS},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert re.findall(r"\| *(tea|milk)\| *(\d)\|", ended.stdout) == [("tea", "3"), ("milk", "4")]
    assert list(tmp_path.glob("pyspark_msmq/java-*/bin/java"))
    assert daemon.count("orders") == 0


@pytest.mark.parametrize("role", [BatchOptions, StreamOptions, WriteOptions])
def test_every_option_is_on_the_page(role: type[BatchOptions]) -> None:
    documented = set(re.findall(r"`(\w+)`", PAGE))
    assert set(names(role)) - documented - {"checkpointLocation"} == set()


def test_every_column_is_on_the_page() -> None:
    lines = {line.split("|")[1].strip(): line for line in PAGE.splitlines() if line.startswith("| ")}
    for column in columns.COLUMNS:
        line = lines[column.group]
        kind = "string" if column.group == "queues" else column.kind
        assert re.search(rf"\b{column.name}( {kind})?\b", line), column
    assert set(MESSAGES) == {column.name for column in columns.COLUMNS}
    for name, spark_type in DISCARDS.items():
        assert f"{name} {spark_type.simpleString().replace('bigint', 'long')}" in PAGE


def test_the_example_of_a_pipeline(tmp_path: Path) -> None:
    program = ROOT / "examples" / "spark_orders.py"
    ended = subprocess.run(  # noqa: S603  # our own program
        [sys.executable, str(program)],
        cwd=tmp_path,
        env=os.environ | {"JDK_JAVA_OPTIONS": JAVA_OPTIONS},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    [sent] = re.findall(r"([\d,]+) messages were sent, one of them spoilt", ended.stdout)
    [landed] = re.findall(r"the table has ([\d,]+) orders", ended.stdout)
    assert int(landed.replace(",", "")) == int(sent.replace(",", "")) - 1
