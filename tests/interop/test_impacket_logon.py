"""impacket logs on to a `tiercel serve` process with NTLM, at every level that it knows."""

from pathlib import Path
from typing import Any

import pytest

from .conftest import Serve
from .impacket_reader import ACK, Impacket, packet
from .logon import CONNECT, INTEGRITY, NONE, PACKET, PRIVACY, READER, protect
from .served import QUEUE

LARGE = bytes(range(33, 127)) * 1090
ACCESS_DENIED = 5
QUEUE_ACCESS_DENIED = 0xC00E_0025


@pytest.mark.parametrize("level", [CONNECT, INTEGRITY, PRIVACY])
def test_calls_at_a_level(serve: Serve, impacket: Impacket, tmp_path: Path, level: int) -> None:
    served = protect(serve, tmp_path, level, b"first", LARGE)
    assert "problem" not in impacket.connect(served.port, level=level, **READER)
    handle = impacket.open()["handle"]
    first, second = impacket.receive(handle, 1), impacket.receive(handle, 2)
    assert (b"first" in packet(first), LARGE in packet(second)) == (True, True)
    assert second["fragments"] > 20
    assert (impacket.end(handle, ACK, 1), impacket.end(handle, ACK, 2)) == (0, 0)
    assert impacket.open(r"OS:.\private$\nowhere")["fault"] == 0xC00E_0003
    assert impacket.call("close_queue", handle=handle)["status"] == 0
    assert served.left() == []


@pytest.mark.parametrize("least", [CONNECT, PACKET, INTEGRITY, PRIVACY])
@pytest.mark.parametrize("level", [NONE, CONNECT, INTEGRITY, PRIVACY])
def test_the_least_level(serve: Serve, impacket: Impacket, tmp_path: Path, least: int, level: int) -> None:
    served = protect(serve, tmp_path, least)
    impacket.connect(served.port, level=level, **(READER if level > NONE else {}))
    opened = impacket.open()
    assert ("handle" in opened) == (level >= least), opened
    if level < least:
        assert opened["fault"] == ACCESS_DENIED


def test_impacket_does_not_sign_at_level_packet(serve: Serve, impacket: Impacket, tmp_path: Path) -> None:
    """So it proves nothing there, and is refused."""
    served = protect(serve, tmp_path, PACKET)
    impacket.connect(served.port, level=PACKET, **READER)
    assert impacket.open()["fault"] == ACCESS_DENIED


@pytest.mark.parametrize(
    "wrong", [{"password": "wrong"}, {"user": "stranger"}, {"domain": "ELSEWHERE"}, {"password": ""}]
)
def test_who_is_somebody_else_gets_nothing(
    serve: Serve, impacket: Impacket, tmp_path: Path, wrong: dict[str, Any]
) -> None:
    served = protect(serve, tmp_path, PRIVACY, b"first")
    impacket.connect(served.port, level=PRIVACY, **(READER | wrong))
    answer = impacket.open()
    assert "handle" not in answer
    assert answer["fault"] == ACCESS_DENIED
    assert "logon_refused" in served.log.read_text("utf-8")
    assert served.left() == [b"first"]


def test_the_descriptor_of_a_queue_counts(serve: Serve, impacket: Impacket, tmp_path: Path) -> None:
    """The queue is the administrators' alone: a caller who is known gets no further than a stranger."""
    served = protect(serve, tmp_path, PRIVACY, b"first", owners_alone=True)
    impacket.connect(served.port, level=PRIVACY, **READER)
    assert impacket.call("get_server_port")["status"] == served.port
    assert impacket.open()["fault"] == QUEUE_ACCESS_DENIED
    assert served.left(QUEUE) == [b"first"]
