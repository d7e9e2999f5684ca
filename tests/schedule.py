"""Which worker of pytest-xdist runs which tests, and in which order.

All tests that use the session of Spark run in one worker: a session costs ten seconds and half a gigabyte.
(`--dist loadgroup` would do it, but pytest-xdist 3.8 writes groups into an attribute of a test that pytest
9.2 does not read any more.) The tests of a file stay together as well, so that what they share is made once.
What takes longest comes first: in the end no worker waits for another.
"""

from typing import Final

from xdist.scheduler import LoadScopeScheduling

_SPARK: Final = ("tests/spark/", "tests/pipeline/")
# Those with processes of their own:
_OWN_SPARK: Final = ("tests/spark_soak/", "tests/spark_shipping/", "tests/spark/test_examples.py")
_LONG: Final = (
    *_OWN_SPARK,
    "tests/docs/",
    "tests/model_based/",
    "tests/data/",
    "tests/api/",
    "tests/sim/",
    "tests/crash/",
    "tests/soak/",
    "tests/install/",
)


def scope(test: str) -> str:
    """What stays together has the same scope."""
    is_of_the_session = test.startswith(_SPARK) and not test.startswith(_OWN_SPARK)
    return "spark" if is_of_the_session else test.partition("::")[0]


def place(test: str) -> int:
    """Where a test stands in the order."""
    if scope(test) == "spark":
        return -1
    return next((at for at, long in enumerate(_LONG) if test.startswith(long)), len(_LONG))


class Scheduler(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    def _split_scope(self, nodeid: str) -> str:
        return scope(nodeid)
