"""The headers after a message in the form for remote readers: [MS-MQRR] 2.2.5.2 to 2.2.5.5."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from tiercel.wire.structure import Layout, Part, Reader, Structure, decode_text, encode_text, flag_words

DEAD_LETTER_HEADER = 0x01
SUBQUEUE_HEADER = 0x02
DEAD_LETTER_QUEUE_INVALID = 0x08
EXTENDED_ADDRESS_HEADER = 0x10

IPV4 = 1
IPV6 = 6

_NAME_SIZE = 64


@dataclass(frozen=True, slots=True)
class ExtensionHeader(Structure):
    """[MS-MQRR] 2.2.5.2"""

    header_size: int = 12
    remaining_headers_size: int = 0
    flags: int = SUBQUEUE_HEADER | EXTENDED_ADDRESS_HEADER
    reserved: bytes = bytes(3)

    LAYOUT = Layout("I I B 3s")
    FLAGS = flag_words(flags="DL SQ - DI EA")


@dataclass(frozen=True, slots=True)
class SubqueueHeader(Structure):
    """The subqueue of a message, its moves and aborts: [MS-MQRR] 2.2.5.3.

    LastMoveTime is in seconds since 1970 (MQRR trap 19).
    """

    header_size: int = 148
    word: int = 0
    abort_counter: int = 0
    move_counter: int = 0
    last_move_time: int = 0
    subqueue_name: bytes = bytes(_NAME_SIZE)
    target_subqueue_name: bytes = bytes(_NAME_SIZE)

    LAYOUT = Layout(f"I I I I I {_NAME_SIZE}s {_NAME_SIZE}s")
    # The class is not byte-aligned as drawn (MQRR trap 20).
    FLAGS = flag_words(word="TM AcknowledgementClass:16")

    @property
    def acknowledgement_class(self) -> int:
        return self.word >> 1 & 0xFFFF

    @property
    def subqueue(self) -> str:
        return decode_subqueue_name(self.subqueue_name)

    @property
    def target_subqueue(self) -> str:
        return decode_subqueue_name(self.target_subqueue_name)


def decode_subqueue_name(data: bytes) -> str:
    return decode_text(data).partition("\0")[0]


def encode_subqueue_name(name: str) -> bytes:
    """32 characters fill the field and leave no room for the NUL (MQRR trap 20)."""
    data = encode_text(name)
    if len(data) > _NAME_SIZE:
        raise ValueError(
            f"subqueue name {name!r} has {len(data) // 2} characters, the limit is {_NAME_SIZE // 2}"
        )
    return data.ljust(_NAME_SIZE, b"\0")


@dataclass(frozen=True, slots=True)
class DeadLetterHeader(Structure):
    """The application's dead-letter queue: path name, NUL, zeros up to header_size. [MS-MQRR] 2.2.5.4."""

    header_size: int = 4
    name: bytes = b""

    LAYOUT = Layout("I")

    @classmethod
    def of(cls, path_name: str) -> Self:
        data = encode_text(path_name + "\0")
        data += bytes(-len(data) % 4)
        return cls(cls.LAYOUT.size + len(data), data)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        at = reader.at
        (size,) = reader.fixed(cls)
        if size < cls.LAYOUT.size or size % 4:
            raise reader.error("header_size", f"is {size}, not a multiple of 4 above 0", at)
        return cls(size, reader.take(size - cls.LAYOUT.size, "name"))

    def variable(self) -> Iterator[Part]:
        yield Part("name", self.name, self.path_name)

    @property
    def path_name(self) -> str:
        return decode_text(self.name).partition("\0")[0]


@dataclass(frozen=True, slots=True)
class ExtendedAddressHeader(Structure):
    """The host that sent the message; type 0 means unknown. [MS-MQRR] 2.2.5.5."""

    header_size: int = 28
    address_length: int = 0
    address_type: int = 0
    address_scope: int = 0
    address: bytes = bytes(16)

    LAYOUT = Layout("I H H I 16s")


def read_extension_headers(reader: Reader) -> Iterator[Structure]:
    """The headers after a message: the first, and those that its flags announce."""
    at = reader.at
    extension = ExtensionHeader.read(reader)
    yield extension
    start = reader.at
    if extension.flags & SUBQUEUE_HEADER:
        yield SubqueueHeader.read(reader)
    if extension.flags & DEAD_LETTER_HEADER:
        yield DeadLetterHeader.read(reader)
    if extension.flags & EXTENDED_ADDRESS_HEADER:
        yield ExtendedAddressHeader.read(reader)
    if extension.remaining_headers_size != reader.at - start:
        reader.structure = "ExtensionHeader"
        problem = (
            f"is {extension.remaining_headers_size}, the headers that follow have {reader.at - start} bytes"
        )
        raise reader.error("remaining_headers_size", problem, at + 4)
