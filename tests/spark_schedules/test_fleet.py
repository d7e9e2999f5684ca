"""`make proof-spark` does it with twenty."""

import random
from pathlib import Path

from spark_schedules.fleet import Fleet


def test_three_queue_managers_of_which_two_die(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, 3)
    fleet.start()
    try:
        fleet.run(12, random.Random(7))
    finally:
        fleet.stop()
    assert fleet.kills
