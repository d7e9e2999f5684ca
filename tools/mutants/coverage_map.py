"""Which tests run which line: measured once per folder of tests, and kept in build/mutants.

Tests that only start another process do not count for the lines that run there.
"""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest
from coverage.numbits import register_sqlite_functions
from mutations import Mutant


class Recorder:
    """A plugin of pytest that notes the lines that each test runs, and how long it takes."""

    def __init__(self, data_file: Path, sources: list[str]) -> None:
        self._durations: dict[str, float] = defaultdict(float)
        self._durations_file = data_file.with_suffix(".json")
        self._coverage = coverage.Coverage(
            data_file=str(data_file), include=[f"{source}/*" for source in sources], config_file=False
        )
        self._coverage.set_option("run:relative_files", value=True)
        self._coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._coverage.switch_context(item.nodeid)
        result = yield
        self._coverage.switch_context("")
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._durations[report.nodeid] += report.duration

    def save(self) -> None:
        self._coverage.stop()
        self._coverage.save()
        self._durations_file.write_text(json.dumps(self._durations), "utf-8")


class CoverageMap:
    def __init__(self, data_files: list[Path]) -> None:
        self._durations: dict[str, float] = {}
        self._connections = []
        for path in data_files:
            self._durations |= json.loads(path.with_suffix(".json").read_text("utf-8"))
            connection = sqlite3.connect(path)
            register_sqlite_functions(connection)
            self._connections.append(connection)

    def tests_of(self, mutant: Mutant) -> list[str]:
        """The tests that touch the line; its own folder's first, and of these the quickest.

        A line that runs at import counts as touched by all tests of its file.
        """
        query = "SELECT context FROM line_bits JOIN context ON context.id = context_id"
        query += " JOIN file ON file.id = file_id WHERE path = ?"
        if not mutant.is_imported:
            lines = range(mutant.line, mutant.last_line + 1)
            query += f" AND ({' OR '.join(f'num_in_numbits({line}, numbits)' for line in lines)})"
        rows = [row for each in self._connections for row in each.execute(query, (mutant.path,))]
        tests = {test for (test,) in rows} & self._durations.keys()
        home = f"tests/{Path(mutant.path).parent.name}/"
        return sorted(tests, key=lambda test: (not test.startswith(home), self._durations[test], test))
