"""One outgoing queue: its connection, the request that is under way, and what follows from the answer.

[MC-MQSRM] 3.1.7. A request at a time: the next one leaves when the last has its answer (SRMP-021).

    answer             the message                                     the connection
    2xx                delivered; one of a stream awaits its receipt   stays, until it was idle too long
    400                ends, as a dead letter if it asks for that      stays
    anything else      is sent again when the retransmission timer     is closed
    or none            fires
"""

from collections.abc import Callable
from http import HTTPStatus

from tiercel.engine.carriers import CarrierQueues, is_held
from tiercel.engine.engine import Engine
from tiercel.engine.queue_state import QueueState
from tiercel.engine.taken import Taken
from tiercel.model.codes import ConnectionStatus, MessageClass, OutgoingQueueState
from tiercel.model.errors import DecodeError, StoreFullError
from tiercel.model.format_name import DirectFormatName
from tiercel.model.queue import OutgoingQueue
from tiercel.srmp.actions import Dial
from tiercel.srmp.connection_info import ConnectionInfo
from tiercel.srmp.context import Context
from tiercel.srmp.http_response import Response, ResponseParser
from tiercel.srmp.outgoing_stream import OutgoingStream
from tiercel.srmp.queue_urls import endpoint_of, host_of, write_url
from tiercel.srmp.request_writer import RequestWriter, no_listener

_SUCCESS = range(200, 300)
_POST = b"POST "
_State = OutgoingQueueState


class QueueSender:
    def __init__(
        self,
        context: Context,
        engine: Engine,
        carried: CarrierQueues,
        writer: RequestWriter,
        queue: QueueState,
        dialled: dict[int, "QueueSender"],
        rested: Callable[["QueueSender"], None],
    ) -> None:
        self.queue = queue
        self.connection: int | None = None
        self.stream = OutgoingStream(context, engine.outgoing, queue, self.serve)
        self._context = context
        self._engine = engine
        self._outgoing = engine.outgoing
        self._carried = carried
        self._writer = writer
        self._dialled = dialled
        self._rested = rested  # called when there may be nothing left to do
        self._is_connected = False
        self._parser = ResponseParser()
        self._request: Taken | None = None  # under way
        self._answers = 0  # on this connection
        self._address = ""
        self._prefix = b""  # of the target, for a proxy

    @property
    def _queue(self) -> OutgoingQueue:
        assert isinstance(self.queue.queue, OutgoingQueue)
        return self.queue.queue

    @property
    def _name(self) -> DirectFormatName:
        assert isinstance(self._queue.destination_format_name, DirectFormatName)
        return self._queue.destination_format_name

    @property
    def info(self) -> ConnectionInfo:
        """Of its connection, open or being opened."""
        assert self.connection is not None
        address = self._address if self._is_connected else endpoint_of(write_url(self._name)).host
        in_flight = 0 if self._request is None else 1
        return ConnectionInfo(self.connection, address, True, self._is_connected, in_flight)

    # Sending.

    def serve(self) -> None:
        """Message Position Available Event: [MC-MQSRM] 3.1.7.7. Connect on demand, send if idle."""
        is_waiting = self._context.timers.is_set(self.retry)
        if is_held(self.queue) or self._request is not None or is_waiting or self.queue.is_deleted:
            return
        if self.connection is None:
            if self.queue.count > len(self.queue.locks):
                self._connect()
        elif self._is_connected:
            self._send_next()

    def _connect(self) -> None:
        """Connecting to the Host: [MC-MQSRM] 3.1.7.9; the URL of an outbound redirection has the host."""
        url = self._context.redirections.current.outbound_of(write_url(self._name))
        try:
            host, port, is_tls = endpoint_of(url)
        except ValueError as problem:  # a name from a stranger must not end the queue manager
            self._failed(ConnectionStatus.DNS_FAILURE, str(problem))
            return
        proxy, self._prefix = self._context.settings.proxy, b""
        self.connection = self._context.new_connection()
        self._dialled[self.connection] = self
        self._set_state(_State.WAITING)
        if proxy is not None and not is_tls:  # it takes requests in absolute form: RFC 9112, 3.2.2
            self._prefix = f"http://{host_of(url)}".encode()
            host, port = proxy
        tunnel = proxy if is_tls else None
        is_for_receipts = proxy is None and self.queue.is_for_acknowledgements
        self._context.do(Dial(self.connection, host, port, is_tls, tunnel, is_for_receipts))

    def connected(self, address: str) -> None:
        self._is_connected, self._address = True, address
        self._parser, self._answers = ResponseParser(), 0
        self._queue.next_hops = [address]
        self._queue.reason, self._queue.next_try = "", 0
        self._set_state(_State.CONNECTED)
        self._carried.note(self._queue, ConnectionStatus.ESTABLISHED, 0, address)
        self.stream.resume()
        self._send_next()

    def _send_next(self) -> None:
        assert self.connection is not None
        try:
            taken = self.stream.take()
        except StoreFullError as problem:
            self._failed(ConnectionStatus.UNKNOWN_FAILURE, str(problem))
            return
        if taken is None:
            self._context.after(self.clean_up, self._context.settings.cleanup_ms)
            return
        self._request = taken
        if taken.number and not self._writer.receipts_base(self._name):
            self._failed(ConnectionStatus.CONNECTION_NOT_READY, no_listener(self._name))
            return
        previous = self.stream.previous(taken) if taken.number else 0
        request = self._writer.write(taken, previous)
        if self._prefix:
            request = _POST + self._prefix + request.removeprefix(_POST)
        self._context.write(self.connection, request)
        self._context.timers.cancel(self.clean_up)
        self._context.after(self.no_answer_came, self._context.settings.answer_timeout_ms)

    # Answers: [MC-MQSRM] 3.1.7.2.5.

    def receive(self, data: bytes) -> None:
        try:
            responses = self._parser.receive(data)
        except DecodeError as problem:
            self._failed(ConnectionStatus.UNKNOWN_FAILURE, f"the answer is not HTTP: {problem}")
            return
        for response in responses[:1]:
            self._answered(response)
        if responses[1:]:  # not for the next request, which has not even left
            self._failed(ConnectionStatus.UNKNOWN_FAILURE, "the server sent two answers to one request")

    def _answered(self, response: Response) -> None:
        taken, self._request = self._request, None
        if taken is None:  # nothing was asked
            self._disconnect(_State.DISCONNECTED)
            return
        self._context.timers.cancel(self.no_answer_came)
        self._answers += 1
        self._context.answers[response.status] += 1
        if not self._settle(taken, response.status):
            self._request = taken
            phrase = f"the server answered {response.status} {_phrase(response.status)}".rstrip()
            self._failed(ConnectionStatus.UNKNOWN_FAILURE, phrase)
            return
        if not response.keeps_alive:
            self._disconnect(_State.DISCONNECTED)
        self._outgoing.wake(self.queue)
        self.serve()

    def _settle(self, taken: Taken, status: int) -> bool:
        """Whether the answer is final for the request (SRMP-017, SRMP-018, SRMP-020)."""
        if status in _SUCCESS:
            if taken.number:
                self.stream.accepted(taken)
            else:
                self._outgoing.delivered((taken,))
        elif status == HTTPStatus.BAD_REQUEST:
            # Of the reasons for a 400 this is the most frequent; the class has to be one of them.
            reason = (
                "the server answered 400 Bad Request: it has no such queue, or will never take the message"
            )
            self._outgoing.refused(taken, MessageClass.NACK_BAD_DST_Q, reason)
            self._context.tell("failed", self._address, self._name, reason)
        else:
            return False
        return True

    def no_answer_came(self) -> None:
        self._failed(ConnectionStatus.SOCKET_SEND_FAILURE, "the server did not answer in time")

    def disconnected(self, error: int = 0, reason: str = "") -> None:
        """The other side closed the connection, perhaps while a request was under way."""
        if self._request is not None and (response := self._parser.end()) is not None:
            self.connection, self._is_connected = None, False
            self._answered(response)
            return
        was_reused = self._answers > 0 and not self._parser.has_begun
        self.connection, self._is_connected = None, False
        if self._request is None:
            self._context.timers.cancel(self.clean_up)
            self._set_state(_State.DISCONNECTED)
            self.serve()
        elif was_reused:  # it was closed as idle while the request was on its way
            self._give_back()
            self._set_state(_State.DISCONNECTED)
            self._connect()
        else:
            reason = f"the connection was closed: {reason}" if reason else "the connection was closed"
            self._failed(ConnectionStatus.SOCKET_SEND_FAILURE, reason, error)

    def connect_failed(self, status: ConnectionStatus, error: int = 0, reason: str = "") -> None:
        self.connection = None
        self._failed(status, reason or "the host cannot be reached", error)

    def _failed(self, status: ConnectionStatus, reason: str, error: int = 0) -> None:
        """Keep the message, stop the timers, and try again later (SRMP-019)."""
        self._give_back()
        self.stream.stop_timer()
        self._disconnect(_State.INACTIVE)
        self._queue.reason = reason
        self._carried.note(self._queue, status, error, self._address)
        self._context.tell("failed", self._address, self._name, reason)
        self._context.after(self.retry, self._context.settings.retry_ms)
        self._queue.next_try = self._engine.seconds + self._context.settings.retry_ms // 1000

    def _give_back(self) -> None:
        taken, self._request = self._request, None
        self._context.timers.cancel(self.no_answer_came)
        if taken is not None:
            self._outgoing.give_back((taken,))

    def retry(self) -> None:
        """Retransmission Timer Event: [MC-MQSRM] 3.1.6.1. Only what has no answer is sent (SRMP-104)."""
        self.stream.resume()
        self.serve()
        self._rested(self)

    # The end of a connection.

    def clean_up(self) -> None:
        """Session Cleanup Timer Event: [MC-MQSRM] 3.1.6.4."""
        self._disconnect(_State.DISCONNECTED)

    def _disconnect(self, state: OutgoingQueueState) -> None:
        connection, self.connection = self.connection, None
        self._is_connected = False
        self._context.timers.cancel(self.clean_up)
        if connection is not None and self._dialled.pop(connection, None) is not None:
            self._context.close(connection)
        self._set_state(state)
        self._rested(self)

    def pause(self) -> None:
        """Pause Queue Event: [MC-MQSRM] 3.1.7.4. A request under way ends without an answer."""
        self._give_back()
        self.stream.stop_timer()
        self._context.timers.cancel(self.retry)
        self._queue.next_try = 0
        self._disconnect(_State.ON_HOLD)

    def resume(self) -> None:
        """Resume Queue Event: [MC-MQSRM] 3.1.7.5, with the timers that Pause stopped (SRMP-159)."""
        self.stream.resume()

    def stop(self) -> None:
        self._give_back()
        self.stream.stop_timer()
        self._context.timers.cancel(self.retry)
        self._disconnect(_State.DISCONNECTED)

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing is left to do, so that the queue may be retired."""
        is_waiting = self._context.timers.is_set(self.retry)
        return self.connection is None and not self.stream and not is_waiting

    def _set_state(self, state: OutgoingQueueState) -> None:
        if not is_held(self.queue):
            self._queue.state = state


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
