"""A few kills of each kind; `make spark-soak` does everybody at every step, and a real cluster."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from .soak import Kill, Soak
from .steps import TABLES, Sink, Step, Victim

# Those of the driver cost a start of Spark each: so they fall where most can go wrong, between the two logs.
SHORT = {
    "tables": (
        TABLES,
        [
            Kill(Step.READ, Victim.WORKER),
            Kill(Step.CLAIM, Victim.QUEUE_MANAGER),
            Kill(Step.COMMITTED, Victim.DRIVER),
            Kill(Step.READ, Victim.DATA_PROCESS),
        ],
    ),
    "queue": (
        (Sink.QUEUE,),
        [
            Kill(Step.WRITE, Victim.WORKER),
            Kill(Step.ACK, Victim.QUEUE_MANAGER),
            Kill(Step.COMMITTED, Victim.DRIVER),
        ],
    ),
}


_LONGER = pytest.mark.skipif(
    "TIERCEL_SPARK_SOAK" not in os.environ, reason="takes minutes: set TIERCEL_SPARK_SOAK, or make spark-soak"
)


@pytest.mark.parametrize("name", [pytest.param("tables", marks=_LONGER), "queue"])
def test_every_message_is_in_every_sink_once(
    name: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    sinks: Sequence[Sink]
    sinks, kills = SHORT[name]
    result = Soak(tmp_path, sinks, kills, seed=1).run()
    assert result.kills == kills
    record_property("kills", len(result.kills))
    record_property("messages", result.messages)
