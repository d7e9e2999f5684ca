"""A queue manager with a queue for orders, and the endpoint of that queue."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tiercel
from tiercel import wcf

ADDRESS = "net.msmq://localhost/private/orders"
ACTION = "http://example.org/IOrders/Submit"
NAMESPACE = "http://example.org/"


@pytest.fixture
def qm(tmp_path: Path) -> Iterator[Any]:
    with tiercel.open(tmp_path / "qm", computer_name="TEST") as manager:
        manager.create_queue(r".\private$\orders", transactional=True)
        manager.create_queue(r".\private$\news")
        yield manager


@pytest.fixture
def orders(qm: Any) -> wcf.Endpoint:
    return wcf.Endpoint(qm, ADDRESS)


@pytest.fixture
def queue(qm: Any) -> Any:
    return qm.queue(r".\private$\orders")


def send(endpoint: wcf.Endpoint, *numbers: int) -> None:
    with endpoint.client() as client:
        for number in numbers:
            client.send(ACTION, {"order": {"id": number}}, namespace=NAMESPACE)


def number_of(message: wcf.Envelope) -> int:
    return int(message.arguments["order"]["id"])
