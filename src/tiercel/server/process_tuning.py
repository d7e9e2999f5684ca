"""Process tuning for long-running servers."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

_OBJECTS_BETWEEN_COLLECTIONS: Final = 50_000

_left_alone = 0  # how many want the collector to rest


def collect_garbage_rarely() -> None:
    """Run the cycle collector rarely, and not over the objects that exist now.

    Messages are freed by reference counting. With the default of one collection per 700 objects, the search
    for cycles takes a quarter of the time of a busy queue manager and finds nothing.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)


@contextmanager
def garbage_left_alone() -> Iterator[None]:
    """No search for cycles meanwhile, for work that holds very many objects and makes no cycles.

    Each search looks at all of them, for a tenth of a second, and finds nothing.
    """
    global _left_alone  # noqa: PLW0603  # the collector is one for the process
    _left_alone += 1
    gc.disable()
    try:
        yield
    finally:
        _left_alone -= 1
        if not _left_alone:
            gc.enable()


def leave_out_pandas() -> None:
    """Hide pandas from this process, if it is installed.

    Arrow imports it only to recognize its objects. That would take most of a second, during which nothing is
    served, and 40 MB.
    """
    if _NoPandas not in sys.meta_path:
        sys.meta_path.insert(0, _NoPandas)


class _NoPandas:
    @staticmethod
    def find_spec(name: str, *_: Any) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is hidden from queue managers", name=name)
