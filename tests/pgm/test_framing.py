"""Requests out of APDUs, by their Content-Length."""

import pytest

from srmp.vectors import load
from tiercel.pgm.framing import HEAD_MAX_BYTES, Framing
from tiercel.pgm.packet import APDU_MAX_BYTES

REQUEST = load("05_pgm")


@pytest.mark.conformance("SRMP-178")
@pytest.mark.parametrize("size", [1, 3, 7, 100, 700, len(REQUEST), 2000, 5000])
def test_requests_are_found_however_they_are_cut(size: int) -> None:
    framing, stream = Framing(), REQUEST * 3
    found = [each for at in range(0, len(stream), size) for each in framing.feed(stream[at : at + size])]
    assert found == [REQUEST] * 3
    assert framing.feed(REQUEST) == [REQUEST]  # nothing of the others is left


def test_after_a_loss_it_waits_for_the_beginning_of_a_request() -> None:
    framing = Framing()
    assert framing.feed(REQUEST[:500]) == []
    framing.lost()
    assert framing.feed(REQUEST[700:]) == []
    assert framing.malformed == 1
    assert framing.feed(REQUEST) == [REQUEST]


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"POST x HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (APDU_MAX_BYTES + HEAD_MAX_BYTES),
        b"POST " + b"x" * HEAD_MAX_BYTES,
        b"POST \r\n\r\n" * 7000,  # no message is without an envelope
    ],
)
def test_what_is_no_request_or_too_long_is_dropped(data: bytes) -> None:
    framing = Framing()
    assert framing.feed(data) == []
    assert framing.malformed == 1
    assert framing.feed(REQUEST) == [REQUEST]
