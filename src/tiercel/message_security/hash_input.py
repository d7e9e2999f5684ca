"""The fields that a signature covers, byte by byte: [MS-MQMQ] 2.5.1 to 2.5.3.

The fields are joined in the order of the specification, without lengths between them, and hashed:

    all      CorrelationID, ApplicationTag, MessageBody (in clear), Label, ResponseQueue, AdminQueue
    3.0      ExtensionData, MultiQueueFormatHeader.Destination.FormatNameList
    2.0 3.0  SourceQueueManager, DM, priority, journaling, acknowledgements, MessageClass, BodyType,
             ConnectorType
    2.0      DestinationQueue

No signature covers the message id, the times, the transaction header and the sender id, so a recorded message
can be sent again. The specification does not say whether a queue name counts with its padding and the label
with its NUL. Nobody has a capture of a signed message from Windows, so a verifier tries each in turn and
records the one that fitted: `READINGS`. All of them cover the body.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from tiercel.model.codes import AuthenticationLevel, HashAlgorithm, QueueFormatType
from tiercel.wire.multi_queue_format_header import MultiQueueFormatHeader
from tiercel.wire.queue_names import STRUCTURE_OF_KIND
from tiercel.wire.user_header import (
    ADMIN_SHIFT,
    CONNECTOR_TYPE,
    DELIVERY_SHIFT,
    DESTINATION_SHIFT,
    MULTI_QUEUE_FORMAT_HEADER,
    RESPONSE_SHIFT,
)
from tiercel.wire.user_message import FIXED, PROPERTIES, UserMessage

_JOURNALING_SHIFT = 8  # JN is bit 8 and JP bit 9: together JP << 1 | JN
_SIZES = {kind: structure.LAYOUT.size for kind, structure in STRUCTURE_OF_KIND.items()}
_DIRECT = QueueFormatType.DIRECT

_FUNCTIONS: dict[int, Callable[[bytes], Any]] = {
    HashAlgorithm.MD5: lambda data: hashlib.md5(data, usedforsecurity=False),
    HashAlgorithm.SHA1: lambda data: hashlib.sha1(data, usedforsecurity=False),
    HashAlgorithm.SHA_256: hashlib.sha256,
    HashAlgorithm.SHA_512: hashlib.sha512,
}


class Reading(NamedTuple):
    """One way to read the specification."""

    level: AuthenticationLevel
    padded_names: bool = False
    label_nul: bool = True

    @property
    def is_expected(self) -> bool:
        """Whether it is how Tiercel itself signs."""
        return self.label_nul and not self.padded_names

    def __str__(self) -> str:
        version = _VERSIONS[self.level]
        names = ", padded names" if self.padded_names else ""
        return f"MSMQ {version}{names}{'' if self.label_nul else ', label without NUL'}"


_VERSIONS = {
    AuthenticationLevel.SIG10: "1.0",
    AuthenticationLevel.SIG20: "2.0",
    AuthenticationLevel.SIG30: "3.0",
}
# MSMQ 3.0 and later may put a 3.0 signature into the SecurityHeader, too ([MS-MQMQ] 2.2.20.6).
_LEVELS = (AuthenticationLevel.SIG20, AuthenticationLevel.SIG10, AuthenticationLevel.SIG30)
# In the order in which they are tried. A stored verdict has the position of one: only ever add at the end.
READINGS = (
    *(Reading(level) for level in _LEVELS),
    *(Reading(level, padded_names=True) for level in _LEVELS),
    *(Reading(level, label_nul=False) for level in _LEVELS),
)


class _Name(NamedTuple):
    exact: bytes
    padded: bytes


class SignedFields:
    """The parts of a packet that signatures cover."""

    __slots__ = ("_additions", "_begin", "_header", "_label", "_list", "_names")

    def __init__(self, packet: UserMessage, body: bytes) -> None:
        """`body` is the clear one."""
        data = packet.data
        at = packet.properties_at
        _, label_length, message_class, correlation_id, body_type, tag, *_, extension = (
            PROPERTIES.unpack_from(data, at)
        )
        label_at = at + PROPERTIES.size
        extension_at = label_at + 2 * label_length
        self._begin = b"".join((correlation_id, tag.to_bytes(4, "little"), body))
        self._label = data[label_at:extension_at]
        self._names, connector = _read_names(data, packet.flags)
        self._list = _format_name_list(packet)
        self._additions = data[extension_at : extension_at + extension]
        flags = packet.flags
        self._header = b"".join(
            (
                data[16:32],  # SourceQueueManager
                bytes(
                    (
                        flags >> DELIVERY_SHIFT & 3,
                        packet.base_flags & 7,
                        flags >> _JOURNALING_SHIFT & 3,
                        packet.acknowledgements,
                    )
                ),
                message_class.to_bytes(2, "little"),
                body_type.to_bytes(4, "little"),
                connector,
            )
        )

    def joined(self, reading: Reading) -> bytes:
        """The whole input of the hash."""
        return self._begin + self._rest(reading)

    def digest(self, reading: Reading, algorithm: int) -> bytes:
        ((_, digest),) = self.digests((reading,), algorithm)
        return digest

    def digests(self, readings: Iterable[Reading], algorithm: int) -> Iterator[tuple[Reading, bytes]]:
        """The hash for each of the readings, in turn; the body is hashed once."""
        begun = _FUNCTIONS[algorithm](self._begin)
        for reading in readings:
            hashed = begun.copy()
            hashed.update(self._rest(reading))
            yield reading, hashed.digest()

    def _rest(self, reading: Reading) -> bytes:
        level, padded, label_nul = reading
        destination, admin, response = [name.padded if padded else name.exact for name in self._names]
        label = self._label if label_nul else self._label[:-2]
        if level == AuthenticationLevel.SIG10:
            return b"".join((label, response, admin))
        if level == AuthenticationLevel.SIG20:
            return b"".join((label, response, admin, self._header, destination))
        names = self._list.padded if padded else self._list.exact
        return b"".join((label, response, admin, self._additions, names, self._header))


def _read_names(data: bytes, flags: int) -> tuple[list[_Name], bytes]:
    """Destination, administration and response queue as in the packet, and the connector type."""
    at, names = FIXED.size, []
    for shift in (DESTINATION_SHIFT, ADMIN_SHIFT, RESPONSE_SHIFT):
        kind = flags >> shift & 7
        size = _SIZES.get(kind, 0)
        if kind == _DIRECT:
            size += int.from_bytes(data[at : at + 2], "little")
        after = at + size + 3 & ~3
        names.append(_Name(data[at : at + size], data[at:after]))
        at = after
    return names, data[at : at + 16] if flags & CONNECTOR_TYPE else b""


_NO_LIST = _Name(b"", b"")


def _format_name_list(packet: UserMessage) -> _Name:
    """The destinations in the MultiQueueFormatHeader; the text does not say that it means these."""
    if not packet.flags & MULTI_QUEUE_FORMAT_HEADER:
        return _NO_LIST
    header = packet.other(MultiQueueFormatHeader)
    if header is None:
        return _NO_LIST
    *elements, rest = [part.data for part in header.destination.variable()]
    exact = b"".join(elements)
    return _Name(exact, exact + rest)
