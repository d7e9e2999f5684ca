"""MultiQueueFormatHeader: all destinations of a message to several queues. [MS-MQMQ] 2.2.20.1 to .3."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from tiercel.model.format_name import MAX_ELEMENTS
from tiercel.wire.queue_names import PrivateQueueFormatName, PublicQueueFormatName
from tiercel.wire.structure import (
    Layout,
    Part,
    Reader,
    Structure,
    align4,
    decode_text,
    encode_text_nul,
    padding,
)

DESTINATION = 0x0064
ADMINISTRATION = 0x00C8
RESPONSE = 0x012C
SIGNATURE = 0x015E

PUBLIC = 1
PRIVATE = 2
DIRECT = 3
DISTRIBUTION_LIST = 6


@dataclass(frozen=True, slots=True)
class MQFDirectQueueFormatName(Structure):
    """A direct name up to its NUL, without a count: [MS-MQMQ] 2.2.18.1.4.1."""

    direct_format_name: str = ""

    @classmethod
    def read(cls, reader: Reader) -> Self:
        reader.structure = cls.__name__
        at = reader.at
        nul = _find_nul(reader.data, at, reader.end)
        if nul < 0:
            raise reader.error("direct_format_name", "has no NUL before the header ends")
        reader.at = nul + 2
        return cls(decode_text(reader.data[at:nul]))

    def variable(self) -> Iterator[Part]:
        yield Part("direct_format_name", encode_text_nul(self.direct_format_name), self.direct_format_name)


@dataclass(frozen=True, slots=True)
class MQFDistributionQueueFormatName(PublicQueueFormatName):
    """A distribution list, laid out as a public name: [MS-MQMQ] 2.2.18.1.4.2."""


MQFFormatName = (
    PublicQueueFormatName | PrivateQueueFormatName | MQFDirectQueueFormatName | MQFDistributionQueueFormatName
)

_NAMES: dict[int, type[MQFFormatName]] = {
    PUBLIC: PublicQueueFormatName,
    PRIVATE: PrivateQueueFormatName,
    DIRECT: MQFDirectQueueFormatName,
    DISTRIBUTION_LIST: MQFDistributionQueueFormatName,
}


@dataclass(frozen=True, slots=True)
class MQFFormatNameElement(Structure):
    """One queue of a list: [MS-MQMQ] 2.2.18.1.4. Names with a GUID start on a 4-byte boundary."""

    format_type: int = DIRECT
    padding: bytes = b""
    format_name: MQFFormatName = MQFDirectQueueFormatName()

    LAYOUT = Layout("H")

    @classmethod
    def read(cls, reader: Reader) -> Self:
        at = reader.at
        (format_type,) = reader.fixed(cls)
        structure = _NAMES.get(format_type)
        if structure is None:
            raise reader.error("format_type", f"is {format_type}, not one of {sorted(_NAMES)}", at)
        gap = b"" if format_type == DIRECT else reader.take(-reader.at % 4, "padding")
        return cls(format_type, gap if any(gap) else b"", structure.read(reader))

    def encode_at(self, at: int) -> Iterator[Part]:
        """The element at offset `at` of its header: the gap before the name depends on it."""
        yield Part("format_type", self.fixed(), self.format_type)
        gap = 0 if self.format_type == DIRECT else -(at + self.LAYOUT.size) % 4
        if len(self.padding) not in {0, gap}:
            raise ValueError(f"{len(self.padding)} bytes of padding do not fill a gap of {gap}")
        yield Part("padding", self.padding or bytes(gap), self.padding)
        yield from self.format_name.parts()


@dataclass(frozen=True, slots=True)
class MQFAddressHeader(Structure):
    """A list of queues: [MS-MQMQ] 2.2.20.2."""

    header_size: int = 12
    header_id: int = DESTINATION
    reserved: int = 0
    element_count: int = 0
    elements: tuple[MQFFormatNameElement, ...] = ()
    # The bytes between the last element and the end of the header; empty if they are zeros.
    rest: bytes = b""

    LAYOUT = Layout("I H H I")

    @classmethod
    def of(cls, header_id: int, elements: tuple[MQFFormatNameElement, ...]) -> Self:
        size = cls.LAYOUT.size + sum(len(part.data) for part in _element_parts(elements))
        return cls(align4(size), header_id, 0, len(elements), elements)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        start = reader.at
        fixed = reader.fixed(cls)
        header_size, count = fixed[0], fixed[3]
        # The specification does not say whether the size includes the last alignment; align4 handles both.
        after = start + align4(header_size)
        if header_size < cls.LAYOUT.size or after > reader.end:
            limits = f"{cls.LAYOUT.size} to {reader.end - start}"
            raise reader.error("header_size", f"is {header_size}, allowed are {limits}", start)
        if count > MAX_ELEMENTS:
            raise reader.error("element_count", f"is {count}, at most {MAX_ELEMENTS} are allowed", start + 8)
        inner = Reader(reader.data, reader.at, after)
        elements = tuple(MQFFormatNameElement.read(inner) for _ in range(count))
        reader.at = after
        rest = reader.data[inner.at : after]
        return cls.make(fixed, elements, rest if any(rest) else b"")

    def variable(self) -> Iterator[Part]:
        used = self.LAYOUT.size
        for part in _element_parts(self.elements):
            used += len(part.data)
            yield part
        left = align4(self.header_size) - used
        if left < 0 or len(self.rest) not in {0, left}:
            raise ValueError(f"header_size {self.header_size} does not fit its {used} bytes of elements")
        yield Part("rest", self.rest or bytes(left), self.rest)


def _element_parts(elements: tuple[MQFFormatNameElement, ...]) -> Iterator[Part]:
    at = MQFAddressHeader.LAYOUT.size
    for i, element in enumerate(elements):
        for part in element.encode_at(at):
            at += len(part.data)
            yield part._replace(name=f"elements[{i}].{part.name}")


@dataclass(frozen=True, slots=True)
class MQFSignatureHeader(Structure):
    """The MSMQ 3.0 signature of a message to several queues: [MS-MQMQ] 2.2.20.3."""

    id: int = SIGNATURE
    reserved: int = 0
    size: int = 0
    signature: bytes = b""
    padding: bytes = b""

    LAYOUT = Layout("H H I")

    @classmethod
    def of(cls, signature: bytes) -> Self:
        return cls(SIGNATURE, 0, len(signature), signature)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        at = reader.at
        header_id, reserved, size = reader.fixed(cls)
        if header_id != SIGNATURE:
            raise reader.error("id", f"is 0x{header_id:04x}, not 0x{SIGNATURE:04x}", at)
        return cls(header_id, reserved, size, reader.take(size, "signature"), reader.padding(size))

    def variable(self) -> Iterator[Part]:
        yield Part("signature", self.signature, self.signature)
        yield Part("padding", padding(len(self.signature), self.padding), self.padding)


@dataclass(frozen=True, slots=True)
class MultiQueueFormatHeader(Structure):
    """[MS-MQMQ] 2.2.20.1"""

    destination: MQFAddressHeader = MQFAddressHeader(header_id=DESTINATION)
    administration: MQFAddressHeader = MQFAddressHeader(header_id=ADMINISTRATION)
    response: MQFAddressHeader = MQFAddressHeader(header_id=RESPONSE)
    signature: MQFSignatureHeader = MQFSignatureHeader()

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(
            _address_header(reader, DESTINATION),
            _address_header(reader, ADMINISTRATION),
            _address_header(reader, RESPONSE),
            MQFSignatureHeader.read(reader),
        )

    def variable(self) -> Iterator[Part]:
        for name in ("destination", "administration", "response", "signature"):
            header: Structure = getattr(self, name)
            yield from (part._replace(name=f"{name}.{part.name}") for part in header.parts())


def _address_header(reader: Reader, header_id: int) -> MQFAddressHeader:
    at = reader.at
    header = MQFAddressHeader.read(reader)
    if header.header_id != header_id:
        reader.structure = "MQFAddressHeader"
        raise reader.error("header_id", f"is 0x{header.header_id:04x}, not 0x{header_id:04x}", at + 4)
    return header


def _find_nul(data: bytes, at: int, end: int) -> int:
    """The position of the next NUL character at an even distance from `at`, or -1."""
    nul = data.find(b"\0\0", at, end)
    while nul >= 0 and (nul - at) % 2:
        nul = data.find(b"\0\0", nul + 1, end)
    return nul
