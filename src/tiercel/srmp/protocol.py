"""SRMP over HTTP for one queue manager: all its connections, and their shared state. [MC-MQSRM] 3.1.

All inputs come between `begin` and `flush`, inside a batch of the engine; the resulting actions, among them
the answers to requests, are returned by `take_actions`, after the commit.
"""

from collections import Counter
from collections.abc import Callable
from http import HTTPStatus

from tiercel.engine.engine import Engine
from tiercel.engine.machine import CarrierMachine, Close
from tiercel.engine.queue_state import QueueState
from tiercel.model.codes import ConnectionStatus, MessageClass
from tiercel.model.errors import (
    IllegalPropertyValueError,
    MessageTooLargeError,
    UnsupportedFormatNameOperationError,
)
from tiercel.model.format_name import DirectFormatName, DirectProtocol, FormatName
from tiercel.model.identifiers import NULL_GUID
from tiercel.model.limits import MAX_PACKET_SIZE
from tiercel.model.message import Message
from tiercel.srmp.actions import Action
from tiercel.srmp.connection_info import ConnectionInfo
from tiercel.srmp.context import Context
from tiercel.srmp.http_request import HttpRequest
from tiercel.srmp.incoming_connection import Answer, IncomingConnection
from tiercel.srmp.kinds import DECISIONS
from tiercel.srmp.message import check_administration_queue
from tiercel.srmp.queue_sender import QueueSender
from tiercel.srmp.receipt_reader import ReceiptReader
from tiercel.srmp.receipt_sender import ReceiptSender
from tiercel.srmp.receipt_tokens import ReceiptTokens
from tiercel.srmp.receiver import Receiver, Refusal
from tiercel.srmp.redirections import StoredRedirections
from tiercel.srmp.request_writer import RequestWriter, no_listener
from tiercel.srmp.settings import Settings
from tiercel.srmp.stream_receipts import StreamReceipts

# 3.1.5.1.5 has neither negative arrival acknowledgements nor reports (SRMP-061, SRMP-117).
_NOT_CARRIED = frozenset(MessageClass) - DECISIONS - {MessageClass.NORMAL, MessageClass.ACK_REACH_QUEUE}
_ALWAYS_FITS = MAX_PACKET_SIZE - 2**20  # bytes; an envelope has at most 1 MiB in all its forms
_OTHER_SCHEME = {DirectProtocol.HTTP: "DIRECT=HTTPS", DirectProtocol.HTTPS: "DIRECT=HTTP"}


class SrmpProtocol(CarrierMachine[Action]):
    _context: Context

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        is_welcome: Callable[[str], bool] = lambda _address: True,
        refusal: Refusal = lambda _senders, _address: "",
    ) -> None:
        """`[[peers]]` and `only_peers`: `is_welcome` says whether requests of an address are read at all.

        `refusal` says why a message of these queue managers is refused from an address; empty if it is not.
        """
        self._engine = engine
        self._is_welcome = is_welcome
        self.redirections = StoredRedirections(engine)
        self._context = context = Context(settings, self.redirections)
        receipts = ReceiptSender(engine)
        engine.delivery.tell_by(receipts)
        tokens = ReceiptTokens(engine)
        self._writer = RequestWriter(context, engine, tokens)
        self._receiver = Receiver(
            context,
            engine,
            ReceiptReader(context, engine, tokens, self._confirmed),
            StreamReceipts(context, receipts.confirm),
            refusal,
        )
        self._queues = engine.carriers.register(self)
        self._incoming: dict[int, IncomingConnection] = {}
        self._dialled: dict[int, QueueSender] = {}
        self._senders: dict[QueueState, QueueSender] = {}
        self._resting: dict[QueueSender, None] = {}
        self._is_stopped = False

    # The batch.

    def flush(self) -> None:
        """Before the commit: run the timers, and send what is ready."""
        self._context.timers.run(self._context.now)
        while ready := self._queues.take_ready():
            for queue in () if self._is_stopped else ready:
                self._sender(queue).serve()
        self._retire()
        history = self._engine.arrivals.history
        if len(history) and not self._context.timers.is_set(self.clean_history):
            self._context.after(self.clean_history, self._context.settings.history_lifetime_ms)

    def clean_history(self) -> None:
        """Forget the ids of old messages: [MC-MQSRM] 3.1.1.1.5."""
        self._engine.arrivals.history.clean_up(self._context.settings.history_lifetime_ms / 1000)

    @property
    def statuses(self) -> Counter[int]:
        """Our answers by status code, since the start."""
        return self._context.statuses

    @property
    def answers(self) -> Counter[int]:
        """The answers to our requests by status code, since the start."""
        return self._context.answers

    @property
    def connections(self) -> list[ConnectionInfo]:
        """The connections that others have opened, and then ours."""
        ours = [sender.info for number, sender in self._dialled.items() if sender.connection == number]
        return [connection.info for connection in self._incoming.values()] + ours

    @property
    def dropped(self) -> Counter[str]:
        """Messages that were answered with 200 and not kept, by reason, since the start."""
        return self._context.dropped

    @property
    def doubts(self) -> Counter[str]:
        """Receipts that were not believed, by reason, since the start."""
        return self._context.doubts

    # Inputs: network events, reported by the owner of the sockets.

    def stop(self) -> None:
        """Close every connection, and dial no more."""
        self._is_stopped = True
        for sender in self._senders.values():
            sender.stop()
        for connection in list(self._incoming.values()):
            connection.close()

    def change_settings(self, settings: Settings) -> None:
        self._context.settings = settings

    def accepted(self, address: str) -> int:
        """A client connected; returns the number of the connection."""
        number = self._context.new_connection()
        self._incoming[number] = IncomingConnection(
            self._context, number, address, self._receive, self._forget
        )
        return number

    def _receive(self, request: HttpRequest, address: str) -> Answer:
        if not self._is_welcome(address):
            return Answer(HTTPStatus.FORBIDDEN, "only the computers of [[peers]] are accepted")
        return self._receiver.receive(request, address)

    def _forget(self, connection: int) -> None:
        self._incoming.pop(connection, None)

    def connected(self, connection: int, address: str) -> None:
        """A `Dial` succeeded."""
        sender = self._sender_of(connection)
        if sender is None:
            self._dialled.pop(connection, None)
            self._context.do(Close(connection))
        else:
            sender.connected(address)

    def connect_failed(
        self, connection: int, status: ConnectionStatus, error: int = 0, reason: str = ""
    ) -> None:
        """A `Dial` failed: no such host, no connection, or a certificate that is not valid."""
        sender = self._sender_of(connection)
        self._dialled.pop(connection, None)
        if sender is not None:
            sender.connect_failed(status, error, reason)

    def received(self, connection: int, data: bytes) -> None:
        if (incoming := self._incoming.get(connection)) is not None:
            incoming.receive(data)
        elif (sender := self._sender_of(connection)) is not None:
            sender.receive(data)

    def disconnected(self, connection: int, error: int = 0, reason: str = "") -> None:
        """The connection ended, but not by a `Close`; `error` and `reason` if it was not closed in order."""
        if (incoming := self._incoming.get(connection)) is not None:
            incoming.disconnected()
        sender = self._sender_of(connection)
        self._dialled.pop(connection, None)
        if sender is not None:
            sender.disconnected(error, reason)

    # Sending.

    def _sender(self, queue: QueueState) -> QueueSender:
        sender = self._senders.get(queue)
        if sender is None:
            sender = self._senders[queue] = QueueSender(
                self._context,
                self._engine,
                self._queues,
                self._writer,
                queue,
                self._dialled,
                self._rested,
            )
        return sender

    def _sender_of(self, connection: int) -> QueueSender | None:
        """The queue that still uses a connection; one that it has closed may have bytes under way."""
        sender = self._dialled.get(connection)
        return sender if sender is not None and sender.connection == connection else None

    def _confirmed(self, queue: QueueState, number: int) -> None:
        """A stream receipt for messages of the queue arrived, and is believed."""
        sender = self._sender(queue)
        sender.stream.confirmed(number)
        self._rested(sender)
        self._engine.outgoing.wake(queue)

    def _rested(self, sender: QueueSender) -> None:
        self._resting[sender] = None

    def _retire(self) -> None:
        """Release outgoing queues that have nothing to send."""
        resting, self._resting = self._resting, {}
        for sender in resting:
            queue = sender.queue
            if queue.is_deleted or (sender.is_at_rest and self._engine.outgoing.retire(queue)):
                self._senders.pop(queue, None)

    # Called by the engine, as a carrier.

    kinds = ("DIRECT=HTTP", "DIRECT=HTTPS")

    @staticmethod
    def carries(name: FormatName) -> bool:
        return isinstance(name, DirectFormatName) and name.is_http

    def check(self, message: Message) -> None:
        """Refuses at once what could never be done as the sender asks."""
        name = message.destination_queue
        assert isinstance(name, DirectFormatName)
        if message.message_class in _NOT_CARRIED:
            problem = (
                f"SRMP has no message of the class {message.message_class:#06x}, and receivers ignore it"
            )
            raise IllegalPropertyValueError("message message_class", problem=problem)
        if message.is_transactional and not self._writer.receipts_base(name):
            fix = f"configure one in [srmp], or use {_OTHER_SCHEME[name.protocol]}"
            raise UnsupportedFormatNameOperationError(str(name), problem=no_listener(name), fix=fix)
        if message.signature and message.connector_type == NULL_GUID:
            self._check_signing(name)
        check_administration_queue(message)
        self._check_size(message)

    def _check_signing(self, name: DirectFormatName) -> None:
        if not self._context.settings.xml_signatures:
            problem = "XML signatures, which have SHA-1 only, are off"
            fix = "set [srmp] xml_signatures = true, or send the message unsigned over HTTPS"
            raise UnsupportedFormatNameOperationError(str(name), problem=problem, fix=fix)

    def _check_size(self, message: Message) -> None:
        """Receivers keep the whole request in a packet, which is larger than ours (SRMP-023)."""
        if len(message.body) + len(message.extension) <= _ALWAYS_FITS:
            return
        size = self._writer.stored_size(message)
        if size > MAX_PACKET_SIZE:
            raise MessageTooLargeError("message with its SOAP envelope", limit=MAX_PACKET_SIZE, present=size)

    def paused(self, queue: QueueState) -> None:
        self._sender(queue).pause()

    def resumed(self, queue: QueueState) -> None:
        self._sender(queue).resume()

    def message_failed(self, queue: QueueState, reason: MessageClass) -> None:
        """A message that asks for encryption cannot leave: SRMP has none but TLS."""
        self._context.tell("failed", "", queue, reason.meaning)
