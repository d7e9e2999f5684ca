"""How much of the specifications has a test: requirements by weight, and which of them a test claims."""

import ast
import re
from collections import Counter
from pathlib import Path

from .tables import ROOT, table

HEAD = """# Conformance

The folder `conformance/` holds the requirements that were taken from five specifications, each with a
weight and a concrete test, and the traps where the text, taken literally, loses messages. A test of the
suite claims the rows that it proves (`@pytest.mark.conformance("MQQB-155")`); the table below counts those
claims in the source. `make conformance` runs the suite and counts only claims of tests that pass.

"""
_TITLES = {
    "MS-MQQB": "the protocol between queue managers",
    "MS-MQDMPR": "the rules of a queue manager",
    "MS-MQRR": "remote reading",
    "MC-MQSRM": "messages over HTTP (SRMP) and multicast: not built yet",
    "MS-NMFMB": "WCF framing inside of bodies: not built yet",
}
_WEIGHTS = ("core", "important", "rare")
_ROW = re.compile(r"^\|\s*([A-Z]+-\d{3})\s*\|(.*)\|\s*$", re.MULTILINE)


def page() -> str:
    claimed = claims(ROOT / "tests")
    rows = []
    for name, what in _TITLES.items():
        weights = requirements(ROOT / "conformance" / f"{name}.md")
        counts = [_share(weights, claimed, {weight}) for weight in _WEIGHTS]
        rows.append(
            (f"[{name}](../conformance/{name}.md)", what, *counts, _share(weights, claimed, set(_WEIGHTS)))
        )
    return HEAD + table(("specification", "what it is", *_WEIGHTS, "all"), rows)


def _share(weights: dict[str, str], claimed: set[str], wanted: set[str]) -> str:
    chosen = [row for row, weight in weights.items() if weight in wanted]
    return f"{sum(row in claimed for row in chosen)} of {len(chosen)}"


def requirements(matrix: Path) -> dict[str, str]:
    """The rows of a matrix, and the weight of each."""
    found = {}
    for row, rest in _ROW.findall(matrix.read_text("utf-8")):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", rest)]
        found[row] = next((cell for cell in cells if cell in _WEIGHTS), "")
    return found


def claims(tests: Path) -> set[str]:
    """The rows that markers in the tests name."""
    found: Counter[str] = Counter()
    for path in tests.rglob("*.py"):
        text = path.read_text("utf-8")
        if "conformance(" in text:
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "conformance":
                    found.update(each.value for each in node.args if isinstance(each, ast.Constant))
    return set(found)
