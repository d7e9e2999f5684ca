"""What a process that serves for months does without."""

import gc
import sys
from typing import Any, Final

_OBJECTS_BETWEEN_SEARCHES: Final = 50_000


def search_seldom() -> None:
    """Has Python search for garbage that refers to itself only now and then, and not in what there is now.

    Messages die by reference counting. But each brings a few objects, and Python looks for cycles after every
    seven hundred: that takes a quarter of the time of a busy queue manager, and finds nothing.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_OBJECTS_BETWEEN_SEARCHES)


def leave_out_pandas() -> None:
    """Has this process do without pandas, if it is installed.

    Arrow imports it to see whether a value is one of its objects: most of a second in which nobody is served,
    and forty megabytes, for nothing.
    """
    if _NoPandas not in sys.meta_path:
        sys.meta_path.insert(0, _NoPandas)


class _NoPandas:
    @staticmethod
    def find_spec(name: str, *_: Any) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("a queue manager does without pandas", name=name)
