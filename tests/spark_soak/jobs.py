"""The two jobs that are killed: a pipeline into tables, and messages from one queue to another."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from spark_soak.daemon import COPIES, ORDERS
from spark_soak.driver import FOLDER, Driver
from spark_soak.steps import Sink

# One core for each task of a batch; a task whose worker died is tried again, as on a cluster.
LOCAL = "local[2,4]"
BATCH = 100  # messages at most, in two tasks


def pipeline(folder: Path, line: str, sinks: Sequence[Sink]) -> Driver:
    tables = "".join(
        f'[[table]]\nformat = "{sink}"\npath = "{sink}"\nfunction = "gates:through"\n'
        + ('name = "orders"\n' if sink is Sink.ICEBERG else "")
        for sink in sinks
    )
    file = folder / "pipeline.toml"
    file.write_text(
        f'[pipeline]\nname = "soak"\nmaster = "{LOCAL}"\nstate = "state"\ntrigger = "1s"\n'
        '[spark]\n"spark.driver.memory" = "1g"\n'
        f"[source]\nurl = '{line}'\nqueues = ['{ORDERS}']\n"
        "resume_consumer = true\n"  # a kill after the first claim leaves no checkpoint
        'columns = ["queue", "claim_seq", "message_id", "label", "body"]\n'
        f"max_messages_per_trigger = {BATCH}\nmax_messages_per_partition = {BATCH // 2}\n"
        f"[decode]\nbodies = false\n{tables}",
        "utf-8",
    )
    (folder / "gates.py").write_text((FOLDER / "gates.py").read_text("utf-8"), "utf-8")
    return Driver(folder, "pipeline_job.py", file, line)


def relay(
    folder: Path,
    line: str,
    *,
    name: str = "relay",
    state: str = "state",
    consumer: str = "soak",
    tasks: int = 2,
    master: str = LOCAL,
    spark: Mapping[str, str] | None = None,
) -> Driver:
    limits = {"maxMessagesPerTrigger": str(BATCH), "maxMessagesPerPartition": str(BATCH // tasks)}
    job = {
        "master": master,
        "spark": {"spark_driver_memory": "1g", "spark_ui_enabled": "false", **(spark or {})},
        "source": {
            "url": line,
            "queue": ORDERS,
            "consumer": consumer,
            "resumeConsumer": "true",  # a kill after the first claim leaves no checkpoint
            **limits,
        },
        "sink": {"url": line, "queue": COPIES},
        "checkpoint": str(folder / state / "checkpoint"),
    }
    file = folder / f"{name}.json"
    file.write_text(json.dumps(job), "utf-8")
    return Driver(folder, "relay_job.py", file, line)
