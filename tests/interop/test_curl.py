"""curl posts the vectors to a `tiercel serve` process and reads its answers."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from api.asked import Asked
from certificates import Authority
from srmp.vectors import BAD, VALID, http

from .http_peers import HOST, curl, curl_post, queue_manager
from .served import free_ports

QUEUES = {"simpleq": False, "receipts": False, "orders": False, "tsimpleq": True}
UNICAST = [name for name in VALID if name != "05_pgm"]
# Streams, to a queue that takes none.
MISFITS = {"08_lowercase_stream", "09_stream_gap"}
MESSAGE = "02_msmq_element"


@pytest.fixture
def ports() -> list[int]:
    return free_ports(2)


@pytest.fixture
def served(tmp_path: Path, ports: list[int]) -> Iterator[Asked]:
    issued = Authority(tmp_path).issue("localhost", HOST)
    options = (
        f'port = {ports[0]}\nhttps_port = {ports[1]}\naliases = ["machine1", "machine2"]\n'
        f'tls_certificate = "{issued.certificate}"\ntls_key = "{issued.key}"'
    )
    with queue_manager(tmp_path / "qm", options, QUEUES) as served:
        yield served


def test_every_vector_gets_its_answer(
    served: Asked, ports: list[int], tmp_path: Path, transcript: Callable[[str], None]
) -> None:
    lines = []
    for name in (*UNICAST, *BAD):
        status, text = curl_post(f"http://{HOST}:{ports[0]}", http(name), tmp_path / "body")
        assert status == (400 if name in {*BAD, *MISFITS} else 200), (name, text)
        lines.append(f"{status} {name}  {text}")
    transcript("\n".join(lines))
    assert [served.count(queue) for queue in ("simpleq", "tsimpleq")] == [3, 3]


@pytest.mark.parametrize(
    "options",
    [
        ("--http1.0",),
        ("--header", "Transfer-Encoding: chunked"),
        ("--header", "Expect: 100-continue"),
        ("--header", "Connection: close"),
    ],
    ids=lambda words: words[-1],
)
def test_the_ways_of_http(served: Asked, ports: list[int], tmp_path: Path, options: tuple[str, ...]) -> None:
    base = f"http://{HOST}:{ports[0]}"
    assert curl_post(base, http(MESSAGE), tmp_path / "body", *options) == (200, "")
    assert served.count("simpleq") == 1


def test_https(served: Asked, ports: list[int], tmp_path: Path) -> None:
    base, file = f"https://localhost:{ports[1]}", tmp_path / "body"
    trust = ("--cacert", str(tmp_path / "authority.pem"))
    assert curl_post(base, http(MESSAGE), file, *trust) == (200, "")
    assert served.count("simpleq") == 1


def test_requests_that_are_not_for_queues(served: Asked, ports: list[int]) -> None:
    base = f"http://{HOST}:{ports[0]}"
    assert curl(f"{base}/msmq/private$/simpleq")[0] == 405
    assert curl(f"{base}/other", "--data", "x")[0] == 404
    assert curl(f"{base}/msmq/private$/simpleq", "--data", "x")[0] == 400
    assert served.count("simpleq") == 0


def test_one_connection_for_many_messages(served: Asked, ports: list[int], tmp_path: Path) -> None:
    url = f"http://{HOST}:{ports[0]}/msmq/private$/simpleq"
    request = http("01_simple")  # without an id, so that none is a duplicate
    file = tmp_path / "body"
    file.write_bytes(request.body)
    kind = f"Content-Type: {request.head.header('Content-Type')}"
    status, text = curl("--verbose", "--header", kind, "--data-binary", f"@{file}", *[url] * 10)
    assert (status, text.count("200")) == (200, 9)
    assert served.count("simpleq") == 10
