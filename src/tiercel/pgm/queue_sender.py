"""One outgoing queue to a multicast address: [MC-MQSRM] 2.2.4.2, 3.1.7.9.

The source takes a little more than it may send at once; the rest stays in the queue. A message is done when
its last packet has been handed to the network (SRMP-180), which is noted in a later batch: after a crash in
between it is sent again, under the same id, and receivers drop the copy.
"""

from collections import deque
from functools import partial

from tiercel.engine.carriers import CarrierQueues, is_held
from tiercel.engine.engine import Engine
from tiercel.engine.queue_state import QueueState
from tiercel.engine.taken import Taken
from tiercel.model.codes import ConnectionStatus, MessageClass, OutgoingQueueState
from tiercel.model.message import Message
from tiercel.model.queue import OutgoingQueue
from tiercel.pgm.limits import SENT_APDU_MAX_BYTES
from tiercel.pgm.source import Source
from tiercel.srmp.message import envelope_of
from tiercel.srmp.request import write_srmp
from tiercel.srmp.usual_request import UsualRequests
from tiercel.wire.message import decode_message
from tiercel.wire.soap_header import CompoundMessageHeader

_RUN = 32
_AHEAD_BYTES = 65_536  # application data that waits in the source


class QueueSender:
    def __init__(
        self, engine: Engine, carried: CarrierQueues, queue: QueueState, source: Source, ahead_bytes: float
    ) -> None:
        self.queue = queue
        self.source = source
        self.sent = 0
        self._engine = engine
        self._carried = carried
        self._ahead_bytes = max(_AHEAD_BYTES, ahead_bytes)
        self._usual = UsualRequests(partial(write_request, engine=engine))
        self._taken: deque[tuple[int, Taken]] = deque()  # in the source, with the end of each in its bytes
        self._leaving: list[Taken] = []  # in the packets of this batch
        self._left: list[Taken] = []  # on the wire

    @property
    def _queue(self) -> OutgoingQueue:
        assert isinstance(self.queue.queue, OutgoingQueue)
        return self.queue.queue

    def serve(self) -> None:
        """Give the source what it can send soon."""
        while self.source.waiting_bytes < self._ahead_bytes and not is_held(self.queue):
            run = self._engine.outgoing.take(self.queue, _RUN)
            if not run:
                return
            if self._queue.state is not OutgoingQueueState.CONNECTED:
                self._queue.state, self._queue.reason = OutgoingQueueState.CONNECTED, ""
                self._queue.next_hops = [self.source.group]
                self._carried.note(self._queue, ConnectionStatus.ESTABLISHED, 0, self.source.group)
            for taken in run:
                for single in taken.singles():
                    self._submit(single)

    def _submit(self, taken: Taken) -> None:
        request = self._request(taken)
        if len(request) > SENT_APDU_MAX_BYTES:  # `check` refuses it, unless it came from an older store
            self._engine.outgoing.refused(taken, MessageClass.NACK_BAD_DST_Q)
            return
        self.source.submit(request)
        self._taken.append((self.source.submitted_bytes, taken))

    def _request(self, taken: Taken) -> bytes:
        if (stored := taken.packet.other(CompoundMessageHeader)) is not None:
            return stored.data
        return self._usual.write(taken.packet) or write_request(decode_message(taken.packet), self._engine)

    # After the source has run.

    def note_sent(self) -> None:
        """Messages whose last packet is in this batch."""
        done = self.source.submitted_bytes - self.source.waiting_bytes
        while self._taken and self._taken[0][0] <= done:
            self._leaving.append(self._taken.popleft()[1])

    def packets_left(self) -> bool:
        """The batch is durable, and its packets are on their way."""
        self._left += self._leaving
        self._leaving.clear()
        return bool(self._left)

    def settle(self) -> None:
        """Message done: deleted, and journaled if asked for."""
        left, self._left = self._left, []
        self.sent += len(left)
        self._engine.outgoing.delivered(left)

    def withdraw(self) -> None:
        """Nothing more may leave; an APDU of which a part was sent is completed."""
        count = self.source.withdraw()
        withdrawn = [self._taken.pop()[1] for _ in range(count)]
        self._engine.outgoing.give_back(reversed(withdrawn))

    @property
    def is_at_rest(self) -> bool:
        return not (self._taken or self._leaving or self._left)


def write_request(message: Message, engine: Engine) -> bytes:
    """The request of a message, as in [MC-MQSRM] 4.5."""
    envelope = envelope_of(message, stream_sender=engine.queue_manager.identifier)
    return write_srmp(
        envelope,
        message.body or None,
        message.extension or None,
        content_guid=engine.queue_manager.identifier,
        boundary=message.id.uniquifier,
    ).encode()
