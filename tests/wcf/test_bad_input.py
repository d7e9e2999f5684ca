"""Bad input of every kind: one clear error, the poison path, and on with the next message."""

import logging
import tracemalloc
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from tiercel import nbfx, wcf
from tiercel.framing.body import write_body
from tiercel.framing.receiver import Receiver
from tiercel.framing.records import Encoding, Mode, Preamble
from tiercel.model.errors import DecodeError
from tiercel.model.message import Message
from tiercel.nbfx import elements, reader, xml_text
from tiercel.nbfx.int31 import write_int31
from tiercel.nbfx.limits import SESSION_STRINGS_MAX
from tiercel.wcf.envelope import Envelope

from .conftest import ACTION, ADDRESS, NAMESPACE, number_of, send

DATAGRAM = Preamble(Mode.SINGLETON_SIZED, ADDRESS, Encoding.BINARY)
SESSION = Preamble(Mode.SIMPLEX, ADDRESS, Encoding.BINARY_SESSION)
TEXT = Preamble(Mode.SINGLETON_SIZED, ADDRESS, Encoding.SOAP12_UTF8)
HEAD = DATAGRAM.encode()
EMPTY = bytes.fromhex("56020b017304560801560e0101")  # an envelope with nothing in it
TABLE = b"\x80\x10" + b"\x01a" * 1024  # in front of an envelope of a session
MIB = 2**20


def envelope(body: bytes) -> bytes:
    """A binary envelope that is good up to its body: an action, and these records in the wrapper."""
    events = list(wcf.Endpoint(None, ADDRESS).envelope(ACTION, {}, namespace=NAMESPACE))
    whole = nbfx.encode(events)
    assert whole.endswith(b"\x01\x01\x01")
    return whole[:-3] + body + whole[-3:]


def datagram(body: bytes) -> bytes:
    return HEAD + envelope(body)


def session(*envelopes: bytes) -> bytes:
    return write_body(SESSION, envelopes)


def element(text: str) -> bytes:
    """<v> with a text record in it."""
    return b"\x40\x01v" + bytes.fromhex(text)


# What the body is, and a part of the line in the log.
BAD = {
    "unknown record": (datagram(b"\xbe"), "unknown record type"),
    "unknown dictionary id": (datagram(b"\x42\xd0\x07\x01"), "the dictionary has no string 976"),
    "id of a session": (datagram(b"\x42\x01\x01"), "the dictionary has no string 1"),
    "2^31 - 1 bytes": (datagram(element("9dffffff7f41")), "2147483647 bytes are announced"),
    "2^31 bytes": (datagram(element("9d00000080")), "is negative"),
    "2^31 - 1 items": (datagram(bytes.fromhex("0340016101b5ffffffff07")), "2147483647 items are announced"),
    "a name of 2^31 - 1 bytes": (datagram(bytes.fromhex("40ffffffff07")), "a string of 2147483647 bytes"),
    "depth": (HEAD + b"\x40\x01r" * 100_000 + b"\x01" * 100_000, "deeper than 256 levels"),
    "depth of text": (TEXT.encode() + b"<r>" * 100_000 + b"</r>" * 100_000, "deeper than 256 levels"),
    "half a surrogate pair": (datagram(element("b70200d8")), "not valid UTF-16"),
    "half a surrogate pair in UTF-8": (datagram(element("9903eda080")), "not valid UTF-8"),
    "scale 29": (datagram(element("9500001d00" + "00" * 12)), "scale of a decimal must be 0 to 28, not 29"),
    "a date of the year 10000": (datagram(element("970040f4f475280a2c")), "beyond the year 9999"),
    "no items": (datagram(bytes.fromhex("0340016101b500")), "an array has no items"),
    "trailing bytes": (datagram(b"") + b"\x00", "unknown record type"),
    "a second envelope": (datagram(b"") + envelope(b""), "there is a second root element"),
    "no envelope": (HEAD, "the body ends before the envelope"),
    "a via of no bytes": (HEAD[:6] + b"\x00" + HEAD[7:], "the size must not be 0"),
    "a via of 2^31 bytes": (HEAD[:6] + b"\xff\xff\xff\xff\x0f", "a size exceeds 2147483647"),
    "a via of 1 GiB": (HEAD[:6] + b"\x80\x80\x80\x80\x04", "exceed the limit of 2048"),
    "mode 1": (HEAD[:4] + b"\x01" + HEAD[5:], "the mode must be 3 (simplex) or 4 (singleton sized), not 1"),
    "a session": (session(), "the endpoint takes datagrams, and this is sessions"),
    "version 2": (b"\x00\x02" + HEAD[2:], "the version must be 1.0, not 2.0"),
    "encoding 9": (HEAD[:-1] + b"\x09", "the encoding must be 0 to 8, not 9"),
    "a document type": (TEXT.encode() + b"<!DOCTYPE r [<!ENTITY e 'x'>]><r>&e;</r>", "not allowed in SOAP"),
    "MTOM of nothing": (HEAD[:-1] + b"\x06x", ""),
}
BAD_SESSIONS = {
    "a datagram": (datagram(b""), "the endpoint takes sessions, and this is datagrams"),
    "an envelope of no bytes": (SESSION.encode() + b"\x06\x00\x07", "the size must not be 0"),
    "an envelope of 2^31 - 1 bytes": (SESSION.encode() + b"\x06\xff\xff\xff\xff\x07", "are announced"),
    "no end": (SESSION.encode(), "the body ends before this record is complete"),
    "behind the end": (session() + b"\x00", "1 octets follow the end record"),
    "a table that is too long": (session(b"\x7fxx"), "the table has 127 bytes, but 2 are left"),
    "tables that grow without end": (
        session(*[TABLE + EMPTY] * (SESSION_STRINGS_MAX // 1024 + 1)),
        "the session has more than",
    ),
}
CASES = {
    **{name: (False, *case) for name, case in BAD.items()},
    **{name: (True, *case) for name, case in BAD_SESSIONS.items()},
}
EVERY_CASE = pytest.mark.parametrize(("is_session", "body", "said"), CASES.values(), ids=CASES)


def serve(service: wcf.Service, operation: Callable[[wcf.Envelope], None]) -> int:
    service.operation(ACTION)(operation)
    return service.run(timeout=0)


@EVERY_CASE
@pytest.mark.conformance("NMFMB-054")
def test_the_service_puts_it_aside_and_goes_on(
    qm: Any, queue: Any, caplog: pytest.LogCaptureFixture, is_session: bool, body: bytes, said: str
) -> None:
    endpoint = wcf.Endpoint(qm, ADDRESS, session=is_session)
    with qm.transaction() as transaction:
        queue.send(Message(body), transaction=transaction)
    send(endpoint, 2)
    service, seen = wcf.Service(endpoint), list[int]()
    # A session may have good envelopes before the bad one: what those did is undone with the transaction.
    service.operation("")(lambda _: None)
    with caplog.at_level(logging.ERROR):
        assert serve(service, lambda message: seen.append(number_of(message))) == 2
    assert seen == [2]
    assert (queue.count, queue.subqueue("poison").count) == (0, 1)
    assert queue.subqueue("poison").receive(0).body == body
    (line,) = [record.getMessage() for record in caplog.records if "is poison (move)" in record.getMessage()]
    assert said in line


def test_an_error_that_nobody_expects_is_counted_and_the_service_goes_on(
    qm: Any, queue: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a reader, not of an operation: the message would end every service that takes it."""
    endpoint = wcf.Endpoint(qm, ADDRESS)
    send(endpoint, 1, 2)
    bodies, envelopes = [queue.peek(0).body], Receiver.envelopes

    def fail(self: Receiver, body: bytes) -> Any:
        if body in bodies:
            raise RecursionError
        return envelopes(self, body)

    monkeypatch.setattr(Receiver, "envelopes", fail)
    seen: list[int] = []
    service = wcf.Service(endpoint, receive_retry_count=1, max_retry_cycles=0)
    serve(service, lambda message: seen.append(number_of(message)))
    assert seen == [2]
    assert queue.subqueue("poison").receive(0).abort_count == 2


@pytest.mark.conformance("NMFMB-054")
def test_a_service_survives_truncation_at_every_byte(qm: Any, queue: Any) -> None:
    """All prefixes of one message are put aside, and the whole one behind them is served."""
    endpoint = wcf.Endpoint(qm, ADDRESS)
    send(endpoint, 7)
    body = queue.receive(0).body
    with qm.transaction() as transaction:
        for size in range(len(body)):
            queue.send(Message(body[:size]), transaction=transaction)
    send(endpoint, 8)
    seen: list[int] = []
    assert serve(wcf.Service(endpoint), lambda message: seen.append(number_of(message))) == len(body) + 1
    assert seen == [8]
    assert (queue.count, queue.subqueue("poison").count) == (0, len(body))


# Memory.


def string_table(string: bytes) -> bytes:
    strings, table = bytearray(), bytearray()
    for out, size in (strings, len(string)), (table, len(string) + 3):
        write_int31(out, size)
    return bytes(table + strings) + string


# Bodies that announce or repeat as much as they can, and a limit in MiB: an element takes some hundred bytes,
# and nothing is made for what is only announced. The limits on elements and text are lower here, to be fast.
BOMBS: dict[str, tuple[Callable[[], bytes], int]] = {
    "announced sizes": (lambda: datagram(element("9dffffff7f41")), 1),
    "depth": (lambda: HEAD + b"\x40\x01r" * 1_000_000, 8),
    "elements": (lambda: HEAD + b"\x40\x01r" + b"\x40\x01e\x01" * 1_000_000 + b"\x01", 16),
    "elements of text": (lambda: TEXT.encode() + b"<r>" + b"<e/>" * 1_000_000 + b"</r>", 16),
    "attributes": (
        lambda: HEAD + b"\x40\x01r" + b"".join(b"\x04\x06a%05d\x82" % n for n in range(99_999)),
        16,
    ),
    "lists": (lambda: HEAD + b"\x40\x01r\xa4" + b"\x80" * 4_000_000, 8),
    "string tables": (lambda: session(*[TABLE + EMPTY] * 1_900), 8),
    "a string of 32 KiB many times": (
        lambda: session(string_table(b"a" * 0x7FFF) + b"\x40\x01r" + b"\xaa\x01" * 10_000 + b"\x01"),
        8,
    ),
}


@pytest.mark.parametrize("name", BOMBS)
def test_bad_input_is_refused_within_a_fixed_memory(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "ELEMENTS_MAX", 10_000)
    monkeypatch.setattr(xml_text, "ELEMENTS_MAX", 10_000)
    monkeypatch.setattr(elements, "TEXT_MAX_CHARACTERS", 2 * MIB)
    make, limit = BOMBS[name]
    body = make()
    endpoint = wcf.Endpoint(None, ADDRESS, session=body.startswith(SESSION.encode()))
    receiver = Receiver(endpoint.address, endpoint.binding)
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError):
            deque(map(Envelope, receiver.envelopes(body)), maxlen=0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < limit * MIB
