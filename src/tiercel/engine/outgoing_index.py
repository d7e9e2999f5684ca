"""An index of messages in outgoing queues."""

import struct
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from tiercel.engine.core import Core
from tiercel.engine.queue_state import QueueState
from tiercel.model.identifiers import NULL_GUID
from tiercel.store.interface import Keyspace
from tiercel.wire.alike import Alike
from tiercel.wire.user_message import UserMessage

_PLACE = struct.Struct(">IQ")  # and then the GUID of the receiver, if there is one


class Place(NamedTuple):
    slot: int
    lookup_id: int
    receiver: UUID = NULL_GUID  # of a message that it has; null if that is not known


class OutgoingIndex:
    """The locations of messages that await a final ack."""

    def __init__(self, core: Core, own_guid: bytes) -> None:
        self._core = core
        self._own = own_guid

    def entered(self, queue: QueueState, lookup_ids: Sequence[int], messages: Alike) -> None:
        if self._awaits_final_ack(messages.first):
            for lookup_id, packet in zip(lookup_ids, messages.messages(), strict=True):
                self.place(packet, queue, lookup_id)

    def left(self, first: UserMessage, packets: Sequence[bytes]) -> None:
        """Messages of one shape are no longer in their queue."""
        if self._awaits_final_ack(first):
            for packet in packets:
                self._core.batch.delete(Keyspace.AWAITING, UserMessage(packet).number_bytes)

    def place(
        self, packet: UserMessage, queue: QueueState, lookup_id: int, receiver: UUID = NULL_GUID
    ) -> None:
        """Remember the location of a message, by the number that its final ack will carry."""
        place = _PLACE.pack(queue.slot, lookup_id)
        if receiver != NULL_GUID:
            place += receiver.bytes
        self._core.batch.put(Keyspace.AWAITING, packet.number_bytes, place)

    def find(self, number: int) -> Place | None:
        data = self._core.batch.get(Keyspace.AWAITING, number.to_bytes(4, "big"))
        if not data:
            return None
        slot, lookup_id = _PLACE.unpack_from(data)
        receiver = data[_PLACE.size :]
        return Place(slot, lookup_id, UUID(bytes=receiver) if receiver else NULL_GUID)

    def _awaits_final_ack(self, packet: UserMessage) -> bool:
        return packet.is_transactional and packet.wants_final_ack and packet.comes_from(self._own)
