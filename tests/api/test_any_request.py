"""Schemathesis asks a daemon whatever its description allows, and some things that it does not."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from api.asked import Asked, asked
from tiercel.api.app import description

_QUEUE = "fuzzed"
_CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
_SCHEMA = schemathesis.openapi.from_dict(description())
_OPERATIONS = {
    each.ok().definition.raw["operationId"]: each.ok()
    for each in _SCHEMA.get_all_operations()
    if isinstance(each, Ok) and each.ok().definition.raw["operationId"] != "watch_events"  # it never ends
}
_CASES = [
    pytest.param(name, mode, id=f"{name}-{mode.value}")
    for name, operation in sorted(_OPERATIONS.items())
    for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    # Where nothing can be given, nothing wrong can be.
    if mode is GenerationMode.POSITIVE or {"parameters", "requestBody"} & operation.definition.raw.keys()
]
_SETTINGS = settings(
    max_examples=10,
    derandomize=True,
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    """A daemon of its own: nobody knows which properties it will have in the end."""
    with asked(tmp_path_factory.mktemp("any"), "[api]\nenabled = true\nport = 0\n") as served:
        yield served


def _never_wait(case: Case[Any]) -> None:
    """A test has no minute to wait for a message."""
    for values in (case.query, case.body):
        if isinstance(values, dict) and isinstance(values.get("wait_ms"), int | str):
            values["wait_ms"] = 0 if isinstance(values["wait_ms"], int) else "0"


@pytest.mark.parametrize(("operation", "mode"), _CASES)
def test_is_answered_as_described(served: Asked, operation: str, mode: GenerationMode) -> None:
    numbers = count()

    @_SETTINGS
    @given(_OPERATIONS[operation].as_strategy(generation_mode=mode))
    def ask(case: Case[Any]) -> None:
        _never_wait(case)
        parameters: Any = case.path_parameters
        # Nearly every name is of no queue; every second request is about the one that is there.
        if "queue" in (parameters or {}) and next(numbers) % 2:
            parameters["queue"] = _QUEUE
            served.post("/queues", {"path_name": _QUEUE, "exist_ok": True})
        response = case.call(base_url=served.start["api"], timeout=60)
        case.validate_response(response, checks=_CHECKS)

    ask()
