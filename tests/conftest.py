"""Turns `@pytest.mark.conformance("MQQB-012", ...)` into JUnit properties that tools/conformance reads."""

import re
from pathlib import Path

import pytest

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
