"""nginx between two queue managers: where TLS ends, and as a hop in front of the receiver."""

import time
from collections.abc import Callable
from pathlib import Path

from api.asked import Asked, at
from certificates import Authority

from .http_peers import PATIENCE_S, nginx, plain_server, queue_manager, tls_server, wait_for
from .served import free_ports

COUNT = 20


def send_all(sender: Asked, name: str, *, transactional: bool) -> None:
    path = f"{at(name)}/messages"
    for number in range(COUNT):
        message = {"label": f"{number}", "text": "x" * 2000, "delivery": "recoverable"}
        query = {"transactional": "true"} if transactional else {}
        answer = sender.ask("POST", path, json=message, params=query)
        assert answer.status_code == 201, answer.text


def wait_until(condition: Callable[[], bool], *daemons: Asked) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, [each.events[-5:] for each in daemons]
        time.sleep(0.1)


def waiting(sender: Asked) -> int:
    """Messages that wait for their receipts, or for their turn."""
    return sum(each["count"] for each in sender.get("/outgoing").json()["outgoing"])


def labels(receiver: Asked, queue: str) -> list[str]:
    return receiver.labels(queue, limit=100)


def test_tls_ends_at_nginx_in_front_of_both(tmp_path: Path, transcript: Callable[[str], None]) -> None:
    """Streams over HTTPS: messages through one proxy, receipts back through the other."""
    authority = Authority(tmp_path)
    issued = authority.issue("localhost")
    left, right, left_tls, right_tls = free_ports(4)

    def options(port: int, tls_port: int) -> str:
        return f'port = {port}\nhttps_url = "https://localhost:{tls_port}"\nca = "{authority.file}"'

    servers = tls_server(left_tls, left, issued) + tls_server(right_tls, right, issued)
    queues = {"plain": False, "ordered": True}
    with (
        nginx(tmp_path / "nginx", servers),
        queue_manager(tmp_path / "left", options(left, left_tls), {}) as sender,
        queue_manager(tmp_path / "right", options(right, right_tls), queues) as receiver,
    ):
        wait_for(right_tls)
        for queue, transactional in queues.items():
            name = f"DIRECT=HTTPS://localhost:{right_tls}/msmq/private$/{queue}"
            send_all(sender, name, transactional=transactional)
        wait_until(lambda: receiver.count("plain") + receiver.count("ordered") >= 2 * COUNT, sender, receiver)
        assert (
            labels(receiver, "plain") == labels(receiver, "ordered") == [f"{each}" for each in range(COUNT)]
        )
        wait_until(lambda: waiting(sender) == 0, sender, receiver)
    log = (tmp_path / "nginx" / "access.log").read_text("utf-8").splitlines()
    transcript("\n".join([*log[:3], "...", log[-1]]))
    assert len([line for line in log if '" 200 ' in line]) > 2 * COUNT


def test_nginx_as_a_hop_that_redirections_name(tmp_path: Path, transcript: Callable[[str], None]) -> None:
    left, right, hop = free_ports(3)
    with (
        nginx(tmp_path / "nginx", plain_server(hop, right)),
        queue_manager(
            tmp_path / "left", f'port = {left}\nhttp_url = "http://localhost:{left}"', {}
        ) as sender,
        queue_manager(
            tmp_path / "right", f'port = {right}\naliases = ["far.invalid"]', {"ordered": True}
        ) as receiver,
    ):
        wait_for(hop)
        row = {"kind": "outbound", "pattern": "http://far.invalid/*", "to": f"http://127.0.0.1:{hop}/"}
        assert sender.post("/redirections", row).status_code == 200
        send_all(sender, "DIRECT=HTTP://far.invalid/msmq/private$/ordered", transactional=True)
        wait_until(lambda: receiver.count("ordered") >= COUNT, sender, receiver)
        assert labels(receiver, "ordered") == [f"{each}" for each in range(COUNT)]
        wait_until(lambda: waiting(sender) == 0, sender, receiver)
    transcript((tmp_path / "nginx" / "access.log").read_text("utf-8").splitlines()[0])


def test_nginx_as_an_http_proxy(tmp_path: Path) -> None:
    """Requests with the whole URL in their first line."""
    left, right, hop = free_ports(3)
    with (
        nginx(tmp_path / "nginx", plain_server(hop, right)),
        queue_manager(tmp_path / "left", f'port = {left}\nproxy = "127.0.0.1:{hop}"', {}) as sender,
        queue_manager(
            tmp_path / "right", f'port = {right}\naliases = ["far.invalid"]', {"plain": False}
        ) as receiver,
    ):
        wait_for(hop)
        send_all(sender, "DIRECT=HTTP://far.invalid/msmq/private$/plain", transactional=False)
        wait_until(lambda: receiver.count("plain") >= COUNT, sender, receiver)
        assert labels(receiver, "plain") == [f"{each}" for each in range(COUNT)]
