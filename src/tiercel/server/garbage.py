"""Python's search for garbage that refers to itself, as it suits a process that serves for months.

Messages die by reference counting. But each brings a few objects, and Python looks for cycles after every
seven hundred: that takes a quarter of the time of a busy queue manager, and finds nothing.
"""

import gc
from typing import Final

_OBJECTS_BETWEEN_SEARCHES: Final = 50_000


def search_seldom() -> None:
    """What there is now stays for good, and is not looked at again; the rest is, now and then."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_OBJECTS_BETWEEN_SEARCHES)
