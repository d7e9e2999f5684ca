"""Times operations in turns, so that a noisy machine is noisy to all of them alike."""

import gc
import time
from collections.abc import Callable

Operation = Callable[[], object]

ROUNDS = 15
CALLS = 2000


def rates(operations: dict[str, Operation], rounds: int = ROUNDS, calls: int = CALLS) -> dict[str, float]:
    """Calls per second of processor time of each operation, the best of many short rounds taken by turns."""
    best = dict.fromkeys(operations, float("inf"))
    gc.disable()
    try:
        for _ in range(rounds):
            for name, operation in operations.items():
                best[name] = min(best[name], _time(operation, calls))
    finally:
        gc.enable()
    return {name: calls / seconds for name, seconds in best.items()}


def _time(operation: Operation, calls: int) -> float:
    start = time.process_time()
    for _ in range(calls):
        operation()
    return time.process_time() - start
