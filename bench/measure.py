"""Times operations in turns, so that a noisy machine is noisy to all of them alike."""

import gc
import time
from collections.abc import Callable

Operation = Callable[[], object]

ROUNDS = 15
CALLS = 2000


def rates(operations: dict[str, Operation]) -> dict[str, float]:
    """Calls a second of each operation, the best of many short rounds taken by turns."""
    best = dict.fromkeys(operations, float("inf"))
    gc.disable()
    try:
        for _ in range(ROUNDS):
            for name, operation in operations.items():
                best[name] = min(best[name], _time(operation))
    finally:
        gc.enable()
    return {name: CALLS / seconds for name, seconds in best.items()}


def _time(operation: Operation) -> float:
    start = time.perf_counter()
    for _ in range(CALLS):
        operation()
    return time.perf_counter() - start
