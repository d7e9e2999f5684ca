"""Headers with SOAP text: SoapHeader [MS-MQMQ] 2.2.20.7, the SRMP headers [MS-MQRR] 2.2.5.1.2."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from struct import Struct
from typing import Self

from tiercel.wire.structure import Layout, Part, Reader, Structure, encode_text_nul, padding

# Not documented; those of the other headers are the hundreds around them.
ENVELOPE_ID = 400
COMPOUND_MESSAGE_ID = 500
HEADER_SECTION = 0x0320
BODY_SECTION = 0x0384
_BODY_ID = BODY_SECTION.to_bytes(2, "little")

_SECTION = Struct("<HHI")


@dataclass(frozen=True, slots=True)
class TextSection(Structure):
    """An id, a count of characters with the NUL, the text (none for count 0), and alignment to 4."""

    header_id: int = 0
    reserved: int = 0
    data_length: int = 0
    data: str = ""
    padding: bytes = b""

    LAYOUT = Layout("H H I")

    @classmethod
    def of(cls, header_id: int, text: str) -> Self:
        return cls(header_id, 0, len(encode_text_nul(text)) // 2, text)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        header_id, reserved, length = reader.fixed(cls)
        text = reader.text(length * 2, "data") if length else ""
        return cls(header_id, reserved, length, text, reader.padding(length * 2))

    def variable(self) -> Iterator[Part]:
        data = encode_text_nul(self.data) if self.data_length else b""
        yield Part("data", data, self.data)
        yield Part("padding", padding(len(data), self.padding), self.padding)


def encode_section(header_id: int, text: str) -> bytes:
    """`TextSection.of(header_id, text).encode()` in a third of the time: each message over HTTP has three."""
    data = encode_text_nul(text)
    return _SECTION.pack(header_id, 0, len(data) // 2) + data + bytes(-len(data) & 3)


@dataclass(frozen=True, slots=True)
class SRMPEnvelopeHeader(TextSection):
    """The SOAP envelope of a message that arrived over HTTP: [MS-MQRR] 2.2.5.1.2.1.

    Its length counts characters, as packets show.
    """


@dataclass(frozen=True, slots=True)
class SoapHeader(Structure):
    """[MS-MQMQ] 2.2.20.7

    The text does not mention alignment of the two sections. We align both; peers may align neither.
    """

    header: TextSection = TextSection(HEADER_SECTION)
    body: TextSection = TextSection(BODY_SECTION)
    gaps: tuple[bytes, bytes] | None = None  # after the texts of a peer that does not align them

    @classmethod
    def read(cls, reader: Reader) -> Self:
        start = reader.at
        header = _section(reader, "header", HEADER_SECTION)
        gap = -2 * header.data_length % 4
        if is_loose := gap > 0 and reader.data[reader.at + gap :][:2] != _BODY_ID:
            gap = 0
        gaps = [reader.take(gap, "padding")]
        body = _section(reader, "body", BODY_SECTION)
        gap, left = -(reader.at - start) % 4, reader.end - reader.at
        gaps.append(reader.take(min(gap, left), "padding"))
        if is_loose or gap > left:
            return cls(header, body, (gaps[0], gaps[1]))
        header, body = (
            replace(section, padding=each if any(each) else b"")
            for section, each in zip((header, body), gaps, strict=True)
        )
        return cls(header, body)

    def variable(self) -> Iterator[Part]:
        for index, name in enumerate(("header", "body")):
            section: TextSection = getattr(self, name)
            for part in section.parts():
                gap = part.data if self.gaps is None or part.name != "padding" else self.gaps[index]
                yield part._replace(name=f"{name}.{part.name}", data=gap)


def _section(reader: Reader, name: str, header_id: int) -> TextSection:
    """A section without its alignment."""
    at = reader.at
    found, reserved, length = reader.fixed(TextSection)
    if found != header_id:
        reader.structure = "SoapHeader"
        raise reader.error(f"{name}_section_id", f"is 0x{found:04x}, not 0x{header_id:04x}", at)
    return TextSection(found, reserved, length, reader.text(length * 2, "data") if length else "")


@dataclass(frozen=True, slots=True)
class CompoundMessageHeader(Structure):
    """The HTTP request of an SRMP message, and the place of the body in it: [MS-MQRR] 2.2.5.1.2.2."""

    header_id: int = 0
    reserved: int = 0
    http_body_size: int = 0
    msg_body_size: int = 0
    msg_body_offset: int = 0
    data: bytes = b""
    padding: bytes = b""

    LAYOUT = Layout("H H I I I")

    @classmethod
    def read(cls, reader: Reader) -> Self:
        at = reader.at
        fixed = reader.fixed(cls)
        size, body_size, body_offset = fixed[2:]
        if body_offset + body_size > size:
            problem = f"the body at {body_offset} of {body_size} bytes passes http_body_size {size}"
            raise reader.error("msg_body_offset", problem, at + 12)
        data = reader.take(size, "data")
        return cls.make(fixed, data, reader.padding(size))

    def variable(self) -> Iterator[Part]:
        yield Part("data", self.data, self.data)
        yield Part("padding", padding(len(self.data), self.padding), self.padding)

    @property
    def message_body(self) -> bytes:
        return self.data[self.msg_body_offset : self.msg_body_offset + self.msg_body_size]


def measure_srmp_headers(data: bytes, at: int, end: int) -> tuple[int, int, int] | None:
    """Where the headers of a message over HTTP are, if they are there in their order and all is well.

    Gives the place and size of the message body, and the end. Reading them takes ten times as long.
    """
    at = _after_section(data, at, end)
    if not at or at + _COMPOUND.size > end:
        return None
    _, _, size, body_size, body_offset = _COMPOUND.unpack_from(data, at)
    request_at = at + _COMPOUND.size
    at = request_at + (size + 3 & ~3)
    if body_offset + body_size > size or at > end:
        return None
    for section in (HEADER_SECTION, BODY_SECTION):
        at = _after_section(data, at, end, section)
        if not at:
            return None
    return request_at + body_offset, body_size, at


def _after_section(data: bytes, at: int, end: int, expected: int | None = None) -> int:
    """The end of a section of text that is as it should be, or 0."""
    if at + _SECTION.size > end:
        return 0
    header_id, _, length = _SECTION.unpack_from(data, at)
    at += _SECTION.size + 2 * length
    is_text = data[at - 2 : at] == b"\0\0"
    after = at + (-2 * length & 3)
    return after if is_text and after <= end and expected in {None, header_id} else 0


_COMPOUND = CompoundMessageHeader.LAYOUT.struct
