"""SecurityHeader: sender, signature and key of a message. [MS-MQMQ] 2.2.20.6."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from tiercel.wire.structure import (
    Layout,
    Part,
    Reader,
    Structure,
    decode_text,
    encode_text_nul,
    flag_words,
    padding,
)

SENDER_ID_TYPE = 0x000F
AUTHENTICATED = 0x0010
ENCRYPTED_BODY = 0x0020
DEFAULT_PROVIDER = 0x0040
SECURITY_DATA_PRESENT = 0x0080  # frame 7 has security data and not this bit: the sizes decide (MQQB T55)
SIGNATURE_TYPE_SHIFT = 8
SIGNATURE_TYPE_MASK = 0xF

CLAIMS_OF_AUTHENTICATION = AUTHENTICATED | SIGNATURE_TYPE_MASK << SIGNATURE_TYPE_SHIFT

_ITEMS = ("security_id", "encryption_key", "signature", "sender_cert", "provider_info")


@dataclass(frozen=True, slots=True)
class SecurityHeader(Structure):
    """[MS-MQMQ] 2.2.20.6"""

    flags: int = 0
    sender_id_size: int = 0
    encryption_key_size: int = 0
    signature_size: int = 0
    sender_cert_size: int = 0
    provider_info_size: int = 0
    security_id: bytes = b""
    encryption_key: bytes = b""
    signature: bytes = b""
    sender_cert: bytes = b""
    provider_info: bytes = b""
    # The padding after each item; empty if all of it is zeros.
    paddings: tuple[bytes, ...] = ()

    LAYOUT = Layout("H H H H I I")
    FLAGS = flag_words(flags="ST:4 AU EB DE AI AS:4")

    @classmethod
    def of(
        cls,
        flags: int,
        *,
        security_id: bytes = b"",
        encryption_key: bytes = b"",
        signature: bytes = b"",
        sender_cert: bytes = b"",
        provider_info: bytes = b"",
    ) -> Self:
        items = (security_id, encryption_key, signature, sender_cert, provider_info)
        return cls.make((flags, *map(len, items)), *items)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        fixed = reader.fixed(cls)
        items, paddings = [], []
        for size, name in zip(fixed[1:], _ITEMS, strict=True):
            items.append(reader.take(size, name))
            paddings.append(reader.padding(size))
        return cls.make(fixed, *items, tuple(paddings) if any(paddings) else ())

    def variable(self) -> Iterator[Part]:
        for name, kept in zip(_ITEMS, self.paddings or (b"",) * len(_ITEMS), strict=True):
            item: bytes = getattr(self, name)
            yield Part(name, item, item)
            yield Part(f"{name}.padding", padding(len(item), kept), kept)

    @property
    def signature_type(self) -> int:
        """0 unsigned, 1 MSMQ 1.0, 3 MSMQ 2.0, 5 MSMQ 3.0: Flags.AS, not AU (DMPR T-15)."""
        return self.flags >> SIGNATURE_TYPE_SHIFT & SIGNATURE_TYPE_MASK

    @property
    def provider(self) -> tuple[int, str]:
        """The alternative cryptographic provider; (0, "") if there is none or it is unreadable."""
        return decode_provider_info(self.provider_info)


def decode_provider_info(info: bytes) -> tuple[int, str]:
    if len(info) < 6 or len(info) % 2 or info[-2:] != b"\0\0":
        return 0, ""
    return int.from_bytes(info[:4], "little"), decode_text(info[4:-2])


def encode_provider_info(provider_type: int, provider_name: str) -> bytes:
    return provider_type.to_bytes(4, "little") + encode_text_nul(provider_name)
