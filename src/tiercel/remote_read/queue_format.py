"""QUEUE_FORMAT: the name of a queue in a call. [MS-MQMQ] 2.2.7, [MS-MQRR] 2.2.3."""

from dataclasses import dataclass
from typing import Self
from uuid import UUID

from tiercel.model.codes import QueueFormatFlag, QueueFormatKind, QueueFormatSuffix
from tiercel.model.errors import InvalidParameterError
from tiercel.model.format_name import (
    DirectFormatName,
    FormatName,
    MachineFormatName,
    PrivateFormatName,
    PublicFormatName,
)
from tiercel.model.identifiers import NULL_GUID
from tiercel.model.path_name import SystemQueue
from tiercel.rpc.ndr import NdrReader, NdrWriter

_K = QueueFormatKind
_GUIDS = {_K.PUBLIC, _K.MACHINE, _K.CONNECTOR}
_TEXTS = {_K.DIRECT, _K.SUBQUEUE}
_NAME_MAX_UNITS = 1024  # longer than any computer, queue and subqueue name together

_SYSTEM_QUEUES = {
    QueueFormatSuffix.JOURNAL: SystemQueue.JOURNAL,
    QueueFormatSuffix.DEADLETTER: SystemQueue.DEADLETTER,
    QueueFormatSuffix.DEADXACT: SystemQueue.DEADXACT,
}
_SUFFIX_OF = {queue: suffix for suffix, queue in _SYSTEM_QUEUES.items()}
_SUFFIX = 0x0F
_JOURNAL = QueueFormatFlag.SYSTEM | QueueFormatSuffix.JOURNAL


@dataclass(frozen=True, slots=True)
class QueueFormat:
    """One arm of the union is in use: a GUID, a GUID with a number, a text, or nothing."""

    kind: int = QueueFormatKind.UNKNOWN
    suffix_and_flags: int = 0
    guid: UUID = NULL_GUID
    number: int = 0  # of a private queue; the port of a multicast name
    text: str | None = None  # a direct name without DIRECT=; the domain of a distribution list
    address: int = 0  # of a multicast name

    @classmethod
    def of(cls, name: FormatName) -> Self:
        match name:
            case DirectFormatName(subqueue=None):
                return cls(_K.DIRECT, text=name.wire_name)
            case DirectFormatName():
                return cls(_K.SUBQUEUE, QueueFormatSuffix.SUBQUEUE, text=name.wire_name)
            case PublicFormatName():
                return cls(_K.PUBLIC, _JOURNAL if name.journal else 0, name.queue)
            case PrivateFormatName():
                return cls(_K.PRIVATE, _JOURNAL if name.journal else 0, name.queue_manager, name.number)
            case MachineFormatName():
                suffix = QueueFormatFlag.SYSTEM | _SUFFIX_OF[name.queue]
                return cls(_K.MACHINE, suffix, name.queue_manager)
        problem = "queues of this kind cannot be read remotely"
        raise InvalidParameterError(str(name), problem=problem, fix="use a direct, public or private name")

    def format_name(self) -> FormatName:
        """The name of the queue; kinds that cannot be read remotely are invalid parameters (MQRR-020)."""
        suffix = self.suffix_and_flags & _SUFFIX
        is_journal = suffix == QueueFormatSuffix.JOURNAL
        match self.kind:
            case _K.PUBLIC:
                return PublicFormatName(self.guid, journal=is_journal)
            case _K.PRIVATE:
                return PrivateFormatName(self.guid, self.number, journal=is_journal)
            case _K.DIRECT | _K.SUBQUEUE if self.text is not None:
                return DirectFormatName.from_wire(self.text)
            case _K.MACHINE if suffix in _SYSTEM_QUEUES:
                return MachineFormatName(self.guid, _SYSTEM_QUEUES[QueueFormatSuffix(suffix)])
        raise InvalidParameterError("pQueueFormat", problem="no queue of this kind can be read remotely")

    # The union tag is one byte (MQRR trap 3). The text is behind a pointer, so it follows the structure.

    @classmethod
    def read(cls, reader: NdrReader) -> Self:
        reader.align(4)
        kind, suffix = reader.u8("m_qft"), reader.u8("m_SuffixAndFlags")
        reader.u16("m_reserved")
        reader.union_tag(reader.u8("union tag"), "union tag", kind)
        match kind:
            case _K.UNKNOWN:
                return cls(kind, suffix)
            case _ if kind in _GUIDS:
                return cls(kind, suffix, reader.guid("guid"))
            case _K.PRIVATE:
                return cls(kind, suffix, reader.guid("Lineage"), reader.u32("Uniquifier"))
            case _ if kind in _TEXTS:
                return cls(kind, suffix, text=_read_text(reader, "m_pDirectID"))
            case _K.DL:
                return cls(kind, suffix, reader.guid("m_DlGuid"), text=_read_text(reader, "m_pwzDomain"))
            case _K.MULTICAST:
                address, port = reader.u32("m_address"), reader.u32("m_port")
                return cls(kind, suffix, number=port, address=address)
        raise reader.error("m_qft", f"is {kind}, not a known kind")

    def write(self, writer: NdrWriter) -> None:
        writer.align(4).u8(self.kind).u8(self.suffix_and_flags).u16(0).u8(self.kind)
        if self.kind == _K.MULTICAST:
            writer.u32(self.address).u32(self.number)
            return
        if self.kind in _GUIDS | {_K.PRIVATE, _K.DL}:
            writer.guid(self.guid)
        if self.kind == _K.PRIVATE:
            writer.u32(self.number)
        if self.kind in _TEXTS | {_K.DL}:
            writer.pointer(is_there=self.text is not None)
            if self.text is not None:
                writer.string(self.text)


NO_QUEUE = QueueFormat()


def _read_text(reader: NdrReader, field: str) -> str | None:
    return reader.string(field, max_units=_NAME_MAX_UNITS) if reader.pointer(field) else None
