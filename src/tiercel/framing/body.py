"""A whole body: preamble, envelopes, end. [MS-NMFMB] 3.1.1.1, [MC-NMF] 3.1.1.2.

A datagram is the preamble and then the octets of its one envelope up to the end of the body, without an
envelope record and without an end record (NMFMB trap 1). A session has a preamble end, a sized envelope
record for each envelope, and an end record.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from tiercel.framing.records import (
    Cursor,
    Mode,
    Preamble,
    RecordType,
    read_preamble,
    record_name,
    write_counted,
)


@dataclass(frozen=True, slots=True)
class Framed:
    """The envelopes of a body, still encoded."""

    preamble: Preamble
    envelopes: tuple[bytes, ...]

    def encode(self) -> bytes:
        return write_body(self.preamble, self.envelopes)


def looks_framed(body: bytes) -> bool:
    """Whether a body begins as every framed one does: version 1.0 and one of the two modes."""
    return body[:4] == b"\x00\x01\x00\x01" and body[4:5] in {b"\x03", b"\x04"} and body[5:6] == b"\x02"


def read_body(body: bytes) -> Framed:
    """The preamble and the envelopes; DecodeError names the record that is wrong and its offset."""
    cursor = Cursor(body)
    preamble = read_preamble(cursor)
    if preamble.mode is Mode.SINGLETON_SIZED:
        if cursor.is_at_end:
            raise cursor.error(RecordType.SIZED_ENVELOPE, "the body ends before the envelope")
        return Framed(preamble, (body[cursor.at :],))
    envelopes = []
    while (record := cursor.octet(RecordType.END)) == RecordType.SIZED_ENVELOPE:
        envelopes.append(cursor.counted(RecordType.SIZED_ENVELOPE))
    if record != RecordType.END:
        problem = f"{record_name(record)} stands where an envelope or the end must"
        raise cursor.error(RecordType.END, problem, cursor.at - 1)
    if not cursor.is_at_end:
        raise cursor.error(RecordType.END, f"{len(body) - cursor.at} octets follow the end record")
    return Framed(preamble, tuple(envelopes))


def write_body(preamble: Preamble, envelopes: Iterable[bytes]) -> bytes:
    """A datagram of one envelope, or a session of any number."""
    out = bytearray(preamble.encode())
    if preamble.mode is Mode.SINGLETON_SIZED:
        (envelope,) = envelopes
        return bytes(out) + envelope
    for envelope in envelopes:
        out.append(RecordType.SIZED_ENVELOPE)
        write_counted(out, envelope)
    out.append(RecordType.END)
    return bytes(out)
