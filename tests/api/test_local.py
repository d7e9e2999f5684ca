"""The API on a store that no daemon has open."""

from pathlib import Path

import httpx
import pytest

import tiercel
from data.served import PATIENCE_S
from tiercel.api import local


def client(path: Path) -> httpx.Client:
    transport = httpx.HTTPTransport(uds=str(path))
    return httpx.Client(transport=transport, base_url="http://local/api/v1", timeout=2 * PATIENCE_S)


def test_the_same_requests(tmp_path: Path) -> None:
    with tiercel.open(tmp_path / "data") as manager:
        manager.create_queue(r".\private$\orders")
    with local.serving(tmp_path / "data") as path, client(path) as http:
        assert http.post("/queues/orders/messages", json={"text": "x", "delivery": "recoverable"}).is_success
        (message,) = http.post("/queues/orders/receive", json={"lease_s": 0.01}).json()["messages"]
        waited = http.post("/queues/orders/receive", json={"wait_ms": 60_000, "lease_s": 3600}).json()[
            "messages"
        ]
        assert waited[0]["id"] == message["id"]
        assert http.post("/queues/orders/receive", json={"wait_ms": 10}).json()["messages"] == []
        manager_row = http.get("/queue-manager").json()
        assert (manager_row["is_running"], manager_row["addresses"]) == (False, [])
        far = "/queues/DIRECT%3DTCP%3A127.0.0.1%5Cprivate%24%5Cq"
        assert http.post(f"{far}/messages", json={"delivery": "recoverable"}).is_success
        assert http.get("/outgoing").json()["outgoing"][0]["history"] == []  # nobody dials
        assert http.get("/connections").json() == {"connections": []}
        assert http.post("/backup", json={"directory": str(tmp_path / "b")}).status_code == 503
        assert http.get("http://local/metrics").status_code == 200
    assert not path.exists()
    with tiercel.open(tmp_path / "data") as manager:
        assert manager.queue(r".\private$\orders").count == 1


def test_one_that_somebody_runs(tmp_path: Path) -> None:
    with (
        tiercel.open(tmp_path / "data"),
        pytest.raises(tiercel.StoreInUseError, match="process"),
        local.serving(tmp_path / "data"),
    ):
        raise AssertionError("it must not open")


def test_one_that_is_not_there(tmp_path: Path) -> None:
    with (
        pytest.raises(tiercel.StoreFailedError, match="there is no store here"),
        local.serving(tmp_path / "data"),
    ):
        raise AssertionError("it must not be made")
    assert not (tmp_path / "data").exists()
    with local.serving(tmp_path / "data", create=True) as path, client(path) as http:
        assert http.get("/queues").json() == {"queues": []}


def test_who_raises_meanwhile_leaves_nothing_open(tmp_path: Path) -> None:
    with pytest.raises(KeyError), local.serving(tmp_path / "data", create=True):
        raise KeyError
    with tiercel.open(tmp_path / "data"):
        pass
