"""Turns `@pytest.mark.conformance("MQQB-012", ...)` into JUnit properties that tools/conformance reads."""

import os
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A busy machine is no bug, so nothing here has a time limit. In CI the examples are the same every time: a
# landing must not hang on a draw; elsewhere they are new ones, and `make model` draws as many as one likes.
settings.register_profile(
    "steady",
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("steady")

MATRICES = Path(__file__).resolve().parent.parent / "conformance"
ROW = re.compile(r"^\|\s*((?:MQQB|SRMP|MQRR|DMPR|NMFMB)-\d{3})\s*\|", re.MULTILINE)


def known_rows() -> frozenset[str]:
    return frozenset(row for path in MATRICES.glob("*.md") for row in ROW.findall(path.read_text("utf-8")))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    rows = known_rows()
    for item in items:
        for marker in item.iter_markers("conformance"):
            for row in marker.args:
                if row not in rows:
                    message = f"{item.nodeid} claims {row}, which is in no matrix of {MATRICES.name}/"
                    raise pytest.UsageError(message)
                item.user_properties.append(("conformance", row))
