"""`python tests/spark_schedules/run.py [--schedules N] [--seed N]`: random schedules, each from its seed."""

import argparse
import logging
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from spark_schedules.schedule import Schedule


def main() -> None:
    parser = argparse.ArgumentParser(description="Run streaming queries through random schedules.")
    parser.add_argument("--schedules", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1, help="of the first one")
    chosen = parser.parse_args()
    logging.disable()  # of what is provoked
    began, total, failed = time.monotonic(), Counter[str](), []
    for seed in range(chosen.seed, chosen.seed + chosen.schedules):
        schedule = Schedule(seed)
        try:
            schedule.run()
        except Exception:  # noqa: BLE001  # it is printed
            failed.append(seed)
            print(f"seed {seed}:\n{traceback.format_exc()}", flush=True)  # noqa: T201 -- a script
        faults = schedule.faults
        total.update(
            {
                "messages": schedule.sent,
                "runs of a query": schedule.runs,
                "batches": schedule.commits,
                "drivers killed": faults.kills,
                "queue managers killed": faults.restarts,
                "lost answers": faults.repeats,
            }
        )
    print(  # noqa: T201
        f"{chosen.schedules} schedules in {time.monotonic() - began:.0f} s: "
        + ", ".join(f"{count:,} {name}" for name, count in total.items())
        + (f"; FAILED: {failed}" if failed else "; none lost, none doubled")
    )
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
