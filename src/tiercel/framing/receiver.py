"""The receiving machine: [MS-NMFMB] 3.3."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tiercel.framing.addresses import Address, direct_format_name, is_same_queue
from tiercel.framing.binding import Binding
from tiercel.framing.body import Framed, read_body
from tiercel.framing.envelopes import EnvelopeReader
from tiercel.framing.records import STRUCTURE, Mode, Preamble
from tiercel.framing.requests import Abort, CloseQueue, CreateTransaction, Dequeue, Hold, OpenQueue, Steps
from tiercel.model.codes import AuthenticationLevel, QueueAccess
from tiercel.model.errors import DecodeError, InvalidHandleError
from tiercel.model.message import Message
from tiercel.nbfx import Event


@dataclass(frozen=True, slots=True)
class Received:
    """A message that was taken from the queue, and the transaction or hold that has it."""

    message: Message
    transaction: Any


class Receiver:
    """Takes the messages of one address."""

    def __init__(self, address: Address, binding: Binding) -> None:
        self.address = address
        self.binding = binding
        self._queue: Any = None

    def open(self) -> Steps[None]:
        """[MS-NMFMB] 3.3.4.1 and 3.3.7.1: by the direct name, to receive (NMFMB trap 6)."""
        self._queue = yield OpenQueue(direct_format_name(self.address), QueueAccess.RECEIVE)

    @property
    def queue(self) -> Any:
        """The open queue, or None."""
        return self._queue

    def receive(self, timeout_s: float | None = None) -> Steps[Received]:
        """[MS-NMFMB] 3.3.4.2, the first half; `envelopes` is the second, for a message may be poison."""
        if self._queue is None:
            fix = "open it first"
            raise InvalidHandleError(str(self.address), problem="the queue is not open", fix=fix)
        transaction = yield CreateTransaction() if self.binding.exactly_once else Hold()
        try:
            message = yield Dequeue(self._queue, timeout_s, transaction)
        except BaseException:
            yield Abort(transaction)
            raise
        return Received(message, transaction)

    def check_protection(self, message: Message) -> None:
        """[MS-NMFMB] 2.2.3.4: DecodeError when the message is not authenticated, and must be."""
        if self.binding.authenticated and message.authentication_level == AuthenticationLevel.NONE:
            problem = "the endpoint demands authenticated messages, and no signature of this one was verified"
            raise DecodeError(STRUCTURE, "message", 0, problem)

    def envelopes(self, body: bytes) -> Iterator[list[Event]]:
        """The envelopes of a body one by one; DecodeError when preamble or envelope is not acceptable.

        [MS-NMFMB] 3.3.4.2 with [MC-NMF] 3.3.4.2 and 3.3.4.4.
        """
        framed = read_body(body)
        self._verify(framed.preamble)
        return read_envelopes(framed)

    def _verify(self, preamble: Preamble) -> None:
        if preamble.mode is not self.binding.mode:
            wanted, found = (_MODES[mode] for mode in (self.binding.mode, preamble.mode))
            raise DecodeError(STRUCTURE, "Mode", 4, f"the endpoint takes {wanted}, and this is {found}")
        if not is_same_queue(preamble.via, self.address):
            problem = f"{preamble.via[:120]!a} is not the address of this endpoint, {self.address}"
            raise DecodeError(STRUCTURE, "Via", 5, problem)

    def close(self) -> Steps[None]:
        """[MS-NMFMB] 3.3.4.3."""
        if self._queue is not None:
            queue, self._queue = self._queue, None
            yield CloseQueue(queue)


_MODES = {Mode.SIMPLEX: "sessions", Mode.SINGLETON_SIZED: "datagrams"}


def read_envelopes(framed: Framed) -> Iterator[list[Event]]:
    reader = EnvelopeReader(framed.preamble)
    return map(reader.read, framed.envelopes)
