"""impacket reads from a `tiercel serve` process: its binds, its NDR, its fragments, its endpoint mapper."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from .conftest import Serve
from .impacket_reader import (
    ACK,
    FOREVER,
    LOOKUP_PEEK_CURRENT,
    LOOKUP_PEEK_NEXT,
    LOOKUP_PEEK_PREV,
    LOOKUP_RECEIVE_CURRENT,
    NACK,
    PEEK_CURRENT,
    PEEK_NEXT,
    Impacket,
    lookup_id,
    opening,
    packet,
    receiving,
)

NDR64 = ("71710533-beba-4937-8319-b5dbef9ccc36", "1.0")
CANCELLED, TIMED_OUT, NOT_FOUND, INVALID, SHARED = (
    0xC00E_0008,
    0xC00E_001B,
    0xC00E_0088,
    0xC00E_0006,
    0xC00E_0009,
)


def test_the_port(serve: Serve, impacket: Impacket) -> None:
    served = serve()
    impacket.connect(served.port)
    assert impacket.call("get_server_port")["status"] == served.port


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"interface": ("1a9134dd-7b39-45ba-ad88-44d01ca47f28", "2.0")}, "abstract_syntax_not_supported"),
        ({"interface": ("00000000-1111-2222-3333-444444444444", "1.0")}, "abstract_syntax_not_supported"),
        ({"syntax": NDR64}, "proposed_transfer_syntaxes_not_supported"),
    ],
)
def test_what_is_not_served_is_refused_in_the_bind(
    serve: Serve, impacket: Impacket, options: dict[str, Any], words: str
) -> None:
    answer = impacket.connect(serve().port, **options)
    assert words in answer["problem"]


def test_contexts_that_are_refused_do_no_harm_to_the_one_that_is_not(
    serve: Serve, impacket: Impacket
) -> None:
    served = serve()
    impacket.connect(served.port, bogus=3)
    assert impacket.call("get_server_port")["status"] == served.port


def test_a_receive_is_acknowledged_or_given_back(serve: Serve, impacket: Impacket) -> None:
    served = serve(b"first", b"second")
    impacket.connect(served.port)
    handle = impacket.open()["handle"]
    peeked = impacket.receive(handle, 1, action=PEEK_CURRENT)
    assert (peeked["status"], b"first" in packet(peeked)) == (0, True)
    assert abs(peeked["arrived"] - time.time()) < 3600
    received = impacket.receive(handle, 2)
    assert (received["status"], packet(received), received["sequence"]) == (
        0,
        packet(peeked),
        peeked["sequence"],
    )
    assert impacket.end(handle, ACK, 2) == 0
    again = impacket.receive(handle, 3)
    assert b"second" in packet(again)
    assert impacket.receive(handle, 4)["status"] == TIMED_OUT
    assert impacket.end(handle, NACK, 3) == 0
    assert impacket.end(handle, ACK, 3) != 0
    closed = impacket.call("close_queue", handle=handle)
    assert (closed["status"], closed["handle"]) == (0, "00" * 20)
    assert impacket.call("close_queue", handle=handle)["fault"] == 0x1C00_001A
    assert served.left() == [b"second"]


def test_100_kib_come_in_fragments(serve: Serve, impacket: Impacket) -> None:
    body = bytes(range(32, 127)) * 1078
    served = serve(body[: 100 << 10])
    impacket.connect(served.port)
    handle = impacket.open()["handle"]
    answer = impacket.receive(handle, 1)
    assert answer["fragments"] >= (100 << 10) // 4280
    assert body[: 100 << 10] in packet(answer)
    assert [(each["type"], each["size"]) for each in answer["sections"]] == [(0, len(packet(answer)))]
    assert impacket.end(handle, ACK, 1) == 0
    assert served.left() == []


def test_a_body_is_cut_into_two_sections(serve: Serve, impacket: Impacket) -> None:
    served = serve(b"x" * 1000)
    impacket.connect(served.port)
    handle = impacket.open()["handle"]
    first, second = impacket.receive(handle, 1, action=PEEK_CURRENT, max_body=100)["sections"]
    assert (first["type"], second["type"]) == (1, 2)
    assert first["alloc"] % 4 == 0  # the second section stays aligned: MQRR trap 22
    assert 900 <= first["alloc"] - first["size"] < 904
    assert bytes.fromhex(first["bytes"]).endswith(b"x" * 100)
    assert second["alloc"] == second["size"] == 188


def test_a_cursor_walks(serve: Serve, impacket: Impacket) -> None:
    served = serve(b"one", b"two", b"three")
    impacket.connect(served.port)
    handle = impacket.open()["handle"]
    cursor = impacket.call("create_cursor", handle=handle)["cursor"]
    actions = (PEEK_CURRENT, PEEK_NEXT, PEEK_NEXT, PEEK_NEXT)
    walked = [impacket.receive(handle, 1, action=action, cursor=cursor) for action in actions]
    found = [next(body for body in (b"one", b"two", b"three") if body in packet(each)) for each in walked[:3]]
    assert (found, walked[3]["status"]) == ([b"one", b"two", b"three"], TIMED_OUT)
    assert impacket.call("close_cursor", handle=handle, cursor=cursor)["status"] == 0
    assert impacket.receive(handle, 2, cursor=cursor)["status"] == 0xC000_0008


def test_lookup(serve: Serve, impacket: Impacket) -> None:
    served = serve(b"one", b"two", b"three")
    impacket.connect(served.port)
    handle = impacket.open()["handle"]
    cursor = impacket.call("create_cursor", handle=handle)["cursor"]
    impacket.receive(handle, 1, action=PEEK_CURRENT, cursor=cursor)
    second = impacket.receive(handle, 1, action=PEEK_NEXT, cursor=cursor)
    lookup = lookup_id(second)
    for action, body in (
        (LOOKUP_PEEK_CURRENT, b"two"),
        (LOOKUP_PEEK_NEXT, b"three"),
        (LOOKUP_PEEK_PREV, b"one"),
    ):
        assert body in packet(impacket.receive(handle, 1, action=action, lookup=lookup))
    assert impacket.receive(handle, 2, action=LOOKUP_RECEIVE_CURRENT, lookup=lookup)["status"] == 0
    assert impacket.end(handle, ACK, 2) == 0
    gone = impacket.receive(handle, 3, action=LOOKUP_RECEIVE_CURRENT, lookup=lookup)
    assert (gone["status"], served.left()) == (NOT_FOUND, [b"one", b"three"])


def test_purge(serve: Serve, impacket: Impacket) -> None:
    served = serve(b"one", b"two")
    impacket.connect(served.port)
    peeks = impacket.open(access=0x20)["handle"]
    assert impacket.call("purge_queue", handle=peeks)["status"] == 0xC000_0022
    handle = impacket.open()["handle"]
    assert impacket.call("purge_queue", handle=handle)["status"] == 0
    assert impacket.receive(handle, 1)["status"] == TIMED_OUT
    assert served.left() == []


def test_a_waiting_receive_is_cancelled_on_the_same_connection(serve: Serve, impacket: Impacket) -> None:
    impacket.connect(serve().port)
    handle = impacket.open()["handle"]
    impacket.begin("start_receive", **receiving(handle, 7, timeout=FOREVER))
    impacket.begin("cancel_receive", handle=handle, request=7)
    answers = {each["method"]: each["status"] for each in (impacket.answer(), impacket.answer())}
    assert answers == {"start_receive": CANCELLED, "cancel_receive": 0}
    assert impacket.call("cancel_receive", handle=handle, request=7)["status"] != 0


def test_a_waiting_receive_is_cancelled_from_another_connection_of_the_group(
    serve: Serve, impacket: Impacket
) -> None:
    served = serve()
    group = impacket.connect(served.port)["group"]
    handle = impacket.open()["handle"]
    assert impacket.connect(served.port, "b", group=group)["group"] == group
    impacket.begin("start_receive", **receiving(handle, 7, timeout=FOREVER))
    assert impacket.call("cancel_receive", "b", handle=handle, request=7)["status"] == 0
    assert impacket.answer()["status"] == CANCELLED
    impacket.ask("disconnect", "a")
    assert impacket.receive(handle, 8, "b")["status"] == TIMED_OUT  # the group still has a connection


def test_a_handle_is_nothing_to_another_group(serve: Serve, impacket: Impacket) -> None:
    served = serve(b"one")
    impacket.connect(served.port)
    impacket.connect(served.port, "b")
    handle = impacket.open()["handle"]
    assert impacket.receive(handle, 1, "b")["fault"] == 0x1C00_001A


@pytest.mark.parametrize("how", ["drop", "disconnect"])
def test_what_a_reader_held_that_is_gone_goes_to_the_next_one(
    serve: Serve, impacket: Impacket, how: str
) -> None:
    served = serve(b"held")
    impacket.connect(served.port, "lost")
    handle = impacket.open(on="lost", share=1)["handle"]
    assert b"held" in packet(impacket.receive(handle, 1, "lost"))
    impacket.connect(served.port)
    assert impacket.open()["fault"] == SHARED
    impacket.ask(how, "lost")
    until = time.monotonic() + 30
    while "fault" in (opened := impacket.open()):
        assert time.monotonic() < until
    assert b"held" in packet(impacket.receive(opened["handle"], 1, timeout=30_000))
    assert impacket.end(opened["handle"], ACK, 1) == 0
    assert served.left() == []


def test_a_waiting_receive_gets_what_another_gives_back(serve: Serve, impacket: Impacket) -> None:
    served = serve(b"one")
    impacket.connect(served.port)
    impacket.connect(served.port, "b")
    holds, waits = impacket.open()["handle"], impacket.open(on="b")["handle"]
    assert impacket.receive(holds, 1)["status"] == 0
    impacket.begin("start_receive", "b", **receiving(waits, 1, timeout=60_000))
    assert impacket.end(holds, NACK, 1) == 0
    assert b"one" in packet(impacket.answer("b"))
    assert impacket.end(waits, ACK, 1, "b") == 0
    assert served.left() == []


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (opening(r"OS:.\private$\nowhere"), 0xC00E_0003),
        (opening(r"OS:elsewhere\private$\q"), 0xC00E_0003),
        (opening(r"OS:.\private$\q", access=2), INVALID),
        (opening(r"OS:.\private$\q", share=2), INVALID),
    ],
)
def test_an_open_fails_with_a_fault(
    serve: Serve, impacket: Impacket, arguments: dict[str, Any], fault: int
) -> None:
    impacket.connect(serve().port)
    assert impacket.call("open_queue", **arguments)["fault"] == fault
    assert "handle" in impacket.open()


def test_stubs_that_are_wrong(serve: Serve, impacket: Impacket) -> None:
    served = serve()
    impacket.connect(served.port)
    assert impacket.ask("raw", opnum=16, stub="")["fault"] == 0x1C01_0002
    for opnum in range(2, 16):
        assert impacket.ask("raw", opnum=opnum, stub="0102")["fault"] == 0x6F7
    assert "fault" in impacket.ask("raw", opnum=1, stub="")
    assert impacket.call("get_server_port")["status"] == served.port


def test_a_move_between_subqueues(serve: Serve, impacket: Impacket) -> None:
    served = serve(b"moved")
    impacket.connect(served.port)
    handle = impacket.open()["handle"]
    peeked = impacket.receive(handle, 1, action=PEEK_CURRENT)
    opened = impacket.call("open_queue_for_move", **opening(r"OS:.\private$\q;retry", 4, kind=8))
    moved = impacket.call(
        "move_message", handle=handle, to=opened["move"], lookup=lookup_id(peeked), transaction="00" * 16
    )
    assert moved["status"] == 0
    other = impacket.open(r"OS:.\private$\q;retry", kind=8)["handle"]
    received = impacket.receive(other, 2)
    assert b"moved" in packet(received)
    assert "retry".encode("utf-16-le") in packet(received)
    assert impacket.end(other, ACK, 2) == 0


def test_the_endpoint_mapper(serve: Serve, impacket: Impacket, transcript: Callable[[str], None]) -> None:
    served = serve()
    answer = impacket.ask("endpoints", port=served.mapper_port)
    binding = f"ncacn_ip_tcp:127.0.0.1[{served.port}]"
    assert answer["mapped"] == binding
    assert [each[1:] for each in answer["found"]] == [[binding, "Message Queuing - RemoteRead V1"]]
    transcript(f"ept_map: {answer['mapped']}\nept_lookup: {answer['found']}")
    unknown = impacket.ask(
        "endpoints", port=served.mapper_port, interface=("00000000-1111-2222-3333-444444444444", "1.0")
    )
    assert "problem" in unknown
