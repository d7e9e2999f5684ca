"""Which messages the next claim takes: in the order of the queue, whole transactions only, up to a limit.

A claim may end wherever no transaction is open, that is begun but not complete in the messages seen. It
ends at the last such place within the limit, and goes beyond the limit only to get to the first one. Messages
of one transaction follow each other in their stream, though those of other senders may lie between them; so
its end has come with its last message, or, if another reader has taken that one, with the next transaction of
the stream. For an end that has not arrived yet a claim waits, but not for ever.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from tiercel.engine.core import Core
from tiercel.engine.queue_state import QueueState
from tiercel.engine.records import Record, decode_record, glance
from tiercel.model.errors import StoreDamagedError
from tiercel.wire.transaction_header import (
    FIRST_IN_TRANSACTION,
    LAST_IN_TRANSACTION,
    TRANSACTION_ID_SHIFT,
)
from tiercel.wire.user_header import TRANSACTION_HEADER
from tiercel.wire.user_message import UserMessage

_IN_MEMORY = 64 * 2**20  # bytes; messages of a larger selection are read again when moved


class Taken(NamedTuple):
    """A message that is to be claimed."""

    lookup_id: int
    size: int  # of its packet
    data: bytes  # its record; empty when there are too many to keep them all
    is_express: bool
    clock: UserMessage | None  # if its time is limited


@dataclass(slots=True)
class Selection:
    """The messages that a claim may take: those up to any of the cuts."""

    taken: list[Taken] = field(default_factory=list)
    cuts: list[int] = field(default_factory=list)


def select(core: Core, queue: QueueState, limit: int, byte_limit: int, overdue: int) -> Selection:
    """A transaction whose first message arrived by `overdue` is taken as it is."""
    selection, transactions = Selection(), _Transactions(overdue)
    taken, cuts = selection.taken, selection.cuts
    size = 0
    for lookup_id, found in queue.available(core):
        is_express = isinstance(found, Record)
        data = found.encode() if isinstance(found, Record) else found
        try:
            packet_size, flags, ends_at, arrival_time = glance(data)
        except StoreDamagedError as problem:
            core.set_aside(queue, lookup_id, data, problem)
            continue
        if ends_at is not None and ends_at <= core.seconds:  # it ends in this very moment
            continue
        if cuts and (len(taken) >= limit or size + packet_size > byte_limit):
            break
        size += packet_size
        if flags & TRANSACTION_HEADER:
            transactions.meet(_packet(data), arrival_time)
        clock = None if ends_at is None else _packet(data)
        kept = data if is_express or size <= _IN_MEMORY else b""
        taken.append(Taken(lookup_id, packet_size, kept, is_express, clock))
        if not transactions.awaited:
            cuts.append(len(taken))
    return selection


def _packet(data: bytes) -> UserMessage:
    return UserMessage(decode_record(data).packet)


class _Transactions:
    """The transactions that began in the messages seen, by stream, and have not ended."""

    def __init__(self, overdue: int) -> None:
        self._overdue = overdue
        self._begun: dict[bytes, int] = {}
        self.awaited: set[bytes] = set()

    def meet(self, packet: UserMessage, arrival_time: int) -> None:
        stream, flags = packet.stream, packet.transaction_flags
        number = flags >> TRANSACTION_ID_SHIFT
        if flags & LAST_IN_TRANSACTION:
            self._begun.pop(stream, None)
            self.awaited.discard(stream)
        elif flags & FIRST_IN_TRANSACTION or self._begun.get(stream) != number:
            self._begun[stream] = number
            if arrival_time > self._overdue:
                self.awaited.add(stream)
            else:
                self.awaited.discard(stream)
