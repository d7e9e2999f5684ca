"""Which tests run which line: measured once per folder of tests, and kept in build/mutants.

Tests that only start another process do not count for the lines that run there.
"""

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest
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
        self._data = []
        self._durations: dict[str, float] = {}
        for path in data_files:
            self._durations |= json.loads(path.with_suffix(".json").read_text("utf-8"))
            data = coverage.CoverageData(str(path))
            data.read()
            self._data.append(data)
        self._files: dict[str, dict[int, set[str]]] = {}

    def tests_of(self, mutant: Mutant) -> list[str]:
        """The tests that touch the line; its own folder's first, and of these the quickest.

        A line that runs at import counts as touched by all tests of its file.
        """
        lines = self._lines_of(mutant.path)
        touched = lines if mutant.is_imported else range(mutant.line, mutant.last_line + 1)
        tests = set().union(*(lines.get(line, ()) for line in touched)) & self._durations.keys()
        home = f"tests/{Path(mutant.path).parent.name}/"
        return sorted(tests, key=lambda test: (not test.startswith(home), self._durations[test], test))

    def _lines_of(self, path: str) -> dict[int, set[str]]:
        if path not in self._files:
            lines: dict[int, set[str]] = defaultdict(set)
            for data in self._data:
                for line, contexts in data.contexts_by_lineno(path).items():
                    lines[line].update(contexts)
            self._files[path] = lines
        return self._files[path]
