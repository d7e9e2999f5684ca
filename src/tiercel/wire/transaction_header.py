"""TransactionHeader: a message's place in a transactional stream. [MS-MQMQ] 2.2.20.5."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self
from uuid import UUID

from tiercel.model.identifiers import NO_SEQUENCE, TxSequenceId
from tiercel.wire.structure import Layout, Part, Reader, Structure, encode_guid, flag_words

CONNECTOR_GUID = 0x1
FINAL_ACK_REQUIRED = 0x2
FIRST_IN_TRANSACTION = 0x4
LAST_IN_TRANSACTION = 0x8
TRANSACTION_ID_SHIFT = 4
TRANSACTION_ID_MASK = 0xFFFFF


@dataclass(frozen=True, slots=True)
class TransactionHeader(Structure):
    """[MS-MQMQ] 2.2.20.5"""

    flags: int = 0
    tx_sequence_id: TxSequenceId = NO_SEQUENCE
    tx_sequence_number: int = 0
    previous_tx_sequence_number: int = 0
    connector_qm_guid: UUID | None = None

    LAYOUT = Layout("I TXID I I")
    FLAGS = flag_words(flags="CG FA FM LM ID:20")

    @classmethod
    def read(cls, reader: Reader) -> Self:
        fixed = reader.fixed(cls)
        connector = reader.guid("connector_qm_guid") if fixed[0] & CONNECTOR_GUID else None
        return cls.make(fixed, connector)

    def variable(self) -> Iterator[Part]:
        if self.connector_qm_guid is not None:
            yield Part("connector_qm_guid", encode_guid(self.connector_qm_guid), self.connector_qm_guid)

    @property
    def transaction_id(self) -> int:
        return self.flags >> TRANSACTION_ID_SHIFT & TRANSACTION_ID_MASK
