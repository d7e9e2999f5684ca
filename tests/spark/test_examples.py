"""What the pages show of Spark runs, and names every option and column."""

import os
import re
import subprocess
import sys
from contextlib import chdir
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from docs.pages import PAGES, blocks, manner
from pyspark_msmq.options import BatchOptions, StreamOptions, WriteOptions, names
from pyspark_msmq.schema import DISCARDS, MESSAGES
from spark.jvm import JAVA_OPTIONS
from spark.served import Served
from tiercel import columns

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "spark.md").read_text("utf-8")
WITH_SPARK = [page for page in PAGES if manner(page) == "with Spark"]


@pytest.mark.parametrize("page", WITH_SPARK, ids=lambda page: page.name)
def test_page(page: Path, spark: SparkSession, daemon: Served, tmp_path: Path) -> None:
    """Its blocks are one program; only where the queue manager and the folders are had to be told: the JVM
    was started elsewhere.
    """
    for queue in ("orders", "copies"):
        daemon.make_queue(queue, exist_ok=True)
    daemon.send("orders", "tea", "milk")
    names: dict[str, object] = {}
    with chdir(tmp_path):
        for block in blocks(page):
            if block.is_run:
                here = f'format("msmq").option("url", "{daemon.url}")'
                code = block.code.replace('format("msmq")', here)
                code = re.sub(r'"(\w+/\w+)"', rf'"{tmp_path}/\1"', code)
                exec(compile(code, str(block), "exec"), names)  # noqa: S102  # what we have written ourselves
    assert spark.version


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


def test_the_story(tmp_path: Path) -> None:
    """What `make demo` shows: two machines, one of them killed, and all that was sent in a table once."""
    program = ROOT / "examples" / "story.py"
    ended = subprocess.run(  # noqa: S603  # our own program
        [sys.executable, str(program)],
        cwd=tmp_path,
        env=os.environ | {"JDK_JAVA_OPTIONS": JAVA_OPTIONS},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    [sent] = re.findall(r"(\d+) messages sent to", ended.stdout)
    taken = re.findall(r"(\d+) messages loaded, (\d+) quarantined", ended.stdout)
    assert taken == [(str(int(sent) + 1), "1"), ("0", "0")]  # one was left before, and one is spoilt
    assert sum(map(int, re.findall(r"\| *(\d+)\|$", ended.stdout, re.MULTILINE))) == int(sent)
    assert "received: order 1" in ended.stdout
    assert "MQ_ERROR_ACCESS_DENIED" in ended.stdout
    assert "left in the queue of the warehouse: 0" in ended.stdout
    assert re.search(r"console was http://127\.0\.0\.2:\d+/console/ ", ended.stdout)
    assert (tmp_path / "build" / "demo" / "traffic.png").stat().st_size
    assert len(ended.stdout.splitlines()) < 50, "it fits on a screen"
