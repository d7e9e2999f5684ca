"""The sending machine: [MS-NMFMB] 3.2."""

from collections.abc import Iterable
from typing import Any

from tiercel.framing.addresses import (
    Address,
    TransferProtocol,
    direct_format_name,
    directory_path,
    http_format_name,
)
from tiercel.framing.binding import Binding
from tiercel.framing.body import write_body
from tiercel.framing.envelopes import EnvelopeWriter
from tiercel.framing.records import Preamble
from tiercel.framing.requests import (
    Abort,
    CloseQueue,
    Commit,
    CreateTransaction,
    Enqueue,
    OpenQueue,
    ReadDirectory,
    Steps,
)
from tiercel.model.codes import QueueAccess
from tiercel.model.errors import InvalidHandleError
from tiercel.model.format_name import FormatName, PublicFormatName
from tiercel.nbfx import Event


class Initiator:
    """Sends envelopes to one address: a message for each, or in a session one message for all.

    A transaction that is passed to `send` is the caller's, who commits it after `close`. Without one, an
    exactly-once message gets a transaction of its own (NMFMB trap 15).
    """

    def __init__(self, address: Address, binding: Binding, *, computer_name: str = "localhost") -> None:
        self.address = address
        self.binding = binding
        self._computer_name = computer_name
        self._preamble = Preamble(binding.mode, str(address), binding.envelope_encoding)
        self._queue: Any = None
        self._writer: EnvelopeWriter | None = None  # None: there is no message yet (rMsmqMessage is NULL)
        self._envelopes: list[bytes] = []
        self._transaction: Any = None

    def open(self) -> Steps[None]:
        """[MS-NMFMB] 3.2.4.1; a failure is the caller's, and nothing more is done."""
        name = yield from self._format_name()
        self._queue = yield OpenQueue(name, QueueAccess.SEND)

    def _format_name(self) -> Steps[FormatName]:
        """[MS-NMFMB] 3.2.7.1."""
        binding = self.binding
        if binding.transfer is not TransferProtocol.NATIVE:
            return http_format_name(self.address, secure=binding.transfer is TransferProtocol.SECURE_SRMP)
        if not binding.use_active_directory:
            return direct_format_name(self.address)
        identifier = yield ReadDirectory(directory_path(self.address, self._computer_name))
        return PublicFormatName(identifier)

    def send(self, envelope: Iterable[Event], transaction: Any = None) -> Steps[None]:
        """[MS-NMFMB] 3.2.4.2. In a session the envelope waits for `close`."""
        if self._queue is None:
            fix = "open it first"
            raise InvalidHandleError(str(self.address), problem="the queue is not open", fix=fix)
        writer = self._writer or EnvelopeWriter(self.binding.envelope_encoding)
        encoded = writer.write(envelope)
        if self._writer is None:  # a new message has a new preamble and new envelopes (NMFMB trap 14)
            self._writer, self._envelopes, self._transaction = writer, [], transaction
        self._envelopes.append(encoded)
        if not self.binding.session:
            yield from self._enqueue()

    def _enqueue(self) -> Steps[None]:
        message = self.binding.message(write_body(self._preamble, self._envelopes))
        transaction, queue = self._transaction, self._queue
        self._forget()
        if transaction is not None or not self.binding.exactly_once:
            yield Enqueue(queue, message, transaction)
            return
        transaction = yield CreateTransaction()
        try:
            yield Enqueue(queue, message, transaction)
        except BaseException:
            yield Abort(transaction)
            raise
        yield Commit(transaction)

    def _forget(self) -> None:
        self._writer, self._envelopes, self._transaction = None, [], None

    def close(self) -> Steps[None]:
        """[MS-NMFMB] 3.2.4.3: a session's message leaves now; the queue is closed in any case."""
        if self._queue is None:
            return
        try:
            if self._writer is not None:
                yield from self._enqueue()
        finally:
            queue, self._queue = self._queue, None
            yield CloseQueue(queue)

    def abandon(self) -> Steps[None]:
        """Close the queue and send nothing of an unfinished session."""
        self._forget()
        yield from self.close()
