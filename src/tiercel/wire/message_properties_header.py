"""MessagePropertiesHeader: label, extension, body and their attributes. [MS-MQMQ] 2.2.19.3."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from tiercel.model.limits import LABEL_MAX_UTF16_UNITS
from tiercel.wire.structure import Layout, Part, Reader, Structure, encode_text_nul, flag_words, padding

ACKNOWLEDGEMENTS = 0x0F
LABEL_LENGTH_MAX = LABEL_MAX_UTF16_UNITS + 1  # with the NUL


@dataclass(frozen=True, slots=True)
class MessagePropertiesHeader(Structure):
    """[MS-MQMQ] 2.2.19.3"""

    flags: int = 0
    label_length: int = 0
    message_class: int = 0
    correlation_id: bytes = bytes(20)
    body_type: int = 0
    application_tag: int = 0
    message_size: int = 0
    allocation_body_size: int = 0
    privacy_level: int = 0
    hash_algorithm: int = 0
    encryption_algorithm: int = 0
    extension_size: int = 0
    label: str = ""
    extension_data: bytes = b""
    # Everything reserved for the body: longer than message_size when the body is encrypted (MQQB T59).
    message_body: bytes = b""
    padding: bytes = b""

    LAYOUT = Layout("B B H 20s I I I I I I I I")
    FLAGS = flag_words(flags="PA PR NA NR")

    @classmethod
    def read(cls, reader: Reader) -> Self:
        at = reader.at
        fixed = reader.fixed(cls)
        label_length, message_size, allocation_body_size, extension_size = (
            fixed[1],
            fixed[6],
            fixed[7],
            fixed[11],
        )
        if label_length > LABEL_LENGTH_MAX:
            problem = f"is {label_length}, at most {LABEL_LENGTH_MAX} is allowed"
            raise reader.error("label_length", problem, at + 1)
        label = reader.text(label_length * 2, "label") if label_length else ""
        extension = reader.take(extension_size, "extension_data")
        body = reader.take(max(message_size, allocation_body_size), "message_body")
        size = label_length * 2 + extension_size + len(body)
        return cls.make(fixed, label, extension, body, reader.padding(size))

    def variable(self) -> Iterator[Part]:
        label = encode_text_nul(self.label) if self.label_length else b""
        yield Part("label", label, self.label)
        yield Part("extension_data", self.extension_data, self.extension_data)
        yield Part("message_body", self.message_body, self.message_body)
        size = len(label) + len(self.extension_data) + len(self.message_body)
        yield Part("padding", padding(size, self.padding), self.padding)
