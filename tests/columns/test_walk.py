"""Packets that are wrong in one thing are refused here as everywhere, and what is only odd is read."""

import struct
import zlib

import pytest

from columns.test_stored import assert_same, is_plain, record, stored
from tiercel.model.limits import MAX_PACKET_SIZE
from wire.packets import (
    AH,
    HH,
    MQ,
    PLAIN,
    SH,
    TH,
    aq,
    direct,
    dq,
    packet,
    properties,
    replaced,
    rq,
    transaction,
    user,
)

NAME = direct(r"OS:h\q")
LABELLED = packet(user(dq(7), NAME), properties(label="label"))


def with_name(name: bytes) -> bytes:
    return packet(user(dq(7), name), properties())


def u32(value: int) -> bytes:
    return struct.pack("<I", value)


WRONG = {
    "version": replaced(PLAIN, 0, b"\x11"),
    "signature": replaced(PLAIN, 4, b"LION"),
    "size is smaller": replaced(PLAIN, 8, u32(len(PLAIN) - 4)),
    "size is larger": replaced(PLAIN, 8, u32(len(PLAIN) + 4)),
    "more than a packet may have": packet(user(dq(7), NAME), properties(), bytes(MAX_PACKET_SIZE)),
    "no properties": replaced(PLAIN, 60, u32(dq(7))),
    "kind of destination": packet(user(dq(1)), properties()),
    "kind of administration queue": packet(user(dq(7) | aq(1), NAME), properties()),
    "name of no bytes": with_name(struct.pack("<HH", 0, 0)),
    "name of one byte": with_name(struct.pack("<HH", 1, 0)),
    "name of odd bytes": with_name(struct.pack("<HHHH", 5, 65, 0, 0)),
    "name without a NUL": with_name(struct.pack("<HH", 2, 65)),
    "name beyond the end": with_name(struct.pack("<HH", 0xFFFF, 0)),
    "second name beyond the end": packet(user(dq(7) | rq(7), NAME + b"\xfe\xff\0\0"), properties()),
    "nothing after the names": packet(user(dq(7), NAME)),
    "nothing after the transaction": packet(user(dq(7) | TH, NAME), transaction()),
    "no transaction": packet(user(dq(7) | TH, NAME)),
    "no security": packet(user(dq(7) | SH, NAME)),
    "security beyond the end": packet(
        user(dq(7) | SH, NAME), bytes(8), u32(0xFFFF_FFFF), u32(1), properties()
    ),
    "label too long": packet(user(dq(7), NAME), properties(label="x" * 250)),
    "label without a NUL": replaced(LABELLED, len(LABELLED) - 2, b"x"),
    "label beyond the end": replaced(LABELLED, 64 + len(NAME) + 1, b"\xfa"),
    "body beyond the end": replaced(PLAIN, 64 + len(direct(r"OS:host\private$\orders")) + 32, u32(500)),
    "room beyond the end": replaced(LABELLED, 64 + len(NAME) + 36, u32(500)),
    "extension beyond the end": replaced(LABELLED, 64 + len(NAME) + 52, u32(0xFFFF_FFFF)),
    "no padding": packet(user(dq(7), NAME), properties(body=b"abcde")[:-3]),
    "body in the session header": packet(user(dq(7), NAME), properties(body=bytes(16)), flags=0x13),
    "debug header": packet(user(dq(7), NAME), properties(), b"\3\0\0\0", flags=0x23),
    "SOAP": packet(user(dq(7) | HH, NAME), properties(), bytes(16)),
    "envelope over HTTP": packet(user(dq(7) | AH, NAME), properties(), bytes(4)),
    "list of queues": packet(user(dq(7) | MQ, NAME), properties(), bytes(16)),
    "no bytes": b"",
    "one byte less than its headers": PLAIN[:63],
}


@pytest.mark.parametrize("data", WRONG.values(), ids=WRONG)
def test_wrong_in_one_thing(data: bytes) -> None:
    batch = assert_same(stored(record(PLAIN), record(data), record(PLAIN)))
    assert batch["decode_error"][1].is_valid
    assert batch["decode_error"].null_count == 2


def resealed(head: bytes, at: int, new: bytes) -> bytes:
    """The record with other bytes and the checksum of these."""
    rest = replaced(head, at, new)[4:]
    return zlib.crc32(rest).to_bytes(4, "little") + rest


@pytest.mark.parametrize(
    "data",
    [
        resealed(record(PLAIN), 4, b"\3"),
        resealed(record(PLAIN), 4, b"\2"),
        resealed(record(PLAIN), 6, b"\xff\xff")[:-1],
        resealed(record(PLAIN)[:24], 4, b"\1"),
        record(PLAIN)[:23],
        zlib.crc32(b"").to_bytes(4, "little"),
        b"",
    ],
    ids=[
        "unknown version",
        "no room for a reason",
        "name beyond the end",
        "no packet",
        "cut short",
        "checksum alone",
        "nothing",
    ],
)
def test_record_wrong_in_one_thing(data: bytes) -> None:
    batch = assert_same(stored(record(PLAIN), data, record(PLAIN)))
    assert batch["decode_error"][1].is_valid


ODD = {
    "last name that fits": with_name(NAME),
    "bytes behind the last header": packet(user(dq(7), NAME), properties(), b"trailer!"),
    "no destination": packet(user(), properties()),
    "longest label": packet(user(dq(7), NAME), properties(label="x" * 249)),
    "room behind the body": packet(user(dq(7), NAME), properties(body=b"ab", allocated=b"abcdef")),
    "body and no room for it said": packet(user(dq(7), NAME), replaced(properties(body=b"abcd"), 36, u32(0))),
    "transaction with a connector": packet(
        user(dq(7) | TH, NAME), transaction(flags=1), bytes(16), properties()
    ),
}


@pytest.mark.parametrize("data", ODD.values(), ids=ODD)
def test_odd_but_plain(data: bytes) -> None:
    rows = stored(record(PLAIN), record(data), record(PLAIN))
    assert assert_same(rows)["decode_error"].null_count == 3
    assert is_plain(rows)
