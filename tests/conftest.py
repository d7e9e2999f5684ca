"""What holds for all tests: their order, their random examples, and the rows of conformance that they prove.

`@pytest.mark.conformance("MQQB-012", ...)` becomes a property in JUnit's XML, which tools/conformance reads.
"""

import logging
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

import schedule

# A busy machine is no bug, so nothing here has a time limit. The examples are the same every time: whether a
# change is good must not hang on a draw. `make model` draws new ones, as many as one likes.
settings.register_profile(
    "steady",
    deadline=None,
    derandomize="TIERCEL_MODEL_EXAMPLES" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("steady")

MATRICES = Path(__file__).resolve().parent.parent / "conformance"
ROW = re.compile(r"^\|\s*((?:MQQB|SRMP|MQRR|DMPR|NMFMB)-\d{3})\s*\|", re.MULTILINE)


def known_rows() -> frozenset[str]:
    return frozenset(row for path in MATRICES.glob("*.md") for row in ROW.findall(path.read_text("utf-8")))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: schedule.place(item.nodeid))
    note_conformance(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> schedule.Scheduler:
    config.option.loadscopereorder = False  # the order is ours
    return schedule.Scheduler(config, log)


def pytest_runtest_setup() -> None:
    """Ends what earlier tests have left in `logging`: handlers whose stream was that of a test and is closed.

    PySpark makes such, and sets the class of all loggers for a moment: of two of its threads at once, one may
    set it back to what the other has set.
    """
    logging.setLoggerClass(logging.Logger)
    for logger in (logging.getLogger(), *logging.Logger.manager.loggerDict.values()):
        for handler in tuple(getattr(logger, "handlers", ())):
            if getattr(getattr(handler, "stream", None), "closed", False):
                handler.close()
                logger.removeHandler(handler)  # type: ignore[union-attr]  # a placeholder has no handlers


def note_conformance(items: list[pytest.Item]) -> None:
    rows = known_rows()
    for item in items:
        for marker in item.iter_markers("conformance"):
            for row in marker.args:
                if row not in rows:
                    message = f"{item.nodeid} claims {row}, which is in no matrix of {MATRICES.name}/"
                    raise pytest.UsageError(message)
                item.user_properties.append(("conformance", row))
