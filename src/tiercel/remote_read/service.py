"""The server of the RemoteRead interface: [MS-MQRR] 3.1.

All input arrives inside a batch of the engine, between `begin` and the commit. Afterwards `finish` takes the
effects of the commit, and `take_actions` returns the answers that may leave:

    engine.begin(time_of_day); service.begin(now); service.call(...); ...
    others = service.finish(engine.commit()); perform(service.take_actions())

A delivered message stays locked until its reader acknowledges it. A lost answer therefore loses no message:
a timeout, a lost connection or an orderly close unlocks it.
"""

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from secrets import token_bytes
from typing import Any
from uuid import UUID

from tiercel.engine.core import Answered, Completed, Effect, earliest
from tiercel.engine.cursor import Cursor
from tiercel.engine.engine import Engine
from tiercel.engine.handles import Found, Waiter
from tiercel.engine.transaction import Transaction
from tiercel.model.codes import (
    CoordinatorAnswer,
    MessageClass,
    QueueAccess,
    ReceiveAction,
    RemoteReadState,
    ShareMode,
    Status,
)
from tiercel.model.errors import (
    DtcConnectError,
    InvalidHandleError,
    InvalidParameterError,
    MessageLockedUnderTransactionError,
    MqError,
    OperationCancelledError,
    QueueNotAvailableError,
    TransactionEnlistError,
    TransactionSequenceError,
    TransactionUsageError,
    error_for_code,
)
from tiercel.model.identifiers import NULL_GUID, lookup_id_sequence
from tiercel.model.limits import MAX_PACKET_SIZE
from tiercel.remote_read import calls
from tiercel.remote_read.actions import Action, CallId, Enlist, Fault, Reply
from tiercel.remote_read.calls import RR_ACK, Received, Request, Response
from tiercel.remote_read.handles import Caller, Handles, QueueHandle
from tiercel.remote_read.packet import serve, split
from tiercel.remote_read.pending_requests import PendingRequest, PendingRequests
from tiercel.remote_read.reads import check_arguments, is_receive, read
from tiercel.remote_read.settings import Settings
from tiercel.rpc.security import AuthenticationLevel
from tiercel.rpc.status import ERROR_ACCESS_DENIED, NCA_S_FAULT_CANCEL, RpcFault
from tiercel.security.access import ANONYMOUS, Token
from tiercel.wire.user_message import UserMessage

_READ_ACCESSES = {int(QueueAccess.RECEIVE), int(QueueAccess.PEEK)}
_OUTCOMES = {CoordinatorAnswer.COMMITTED, CoordinatorAnswer.ABORTED}
_NO_CLASS = 0
_NO_LEVEL = AuthenticationLevel.NONE  # cached: enum lookup is slow here
_RECEIVE = ReceiveAction.RECEIVE
# The longest delay, and the largest number, of acknowledgements that share one commit.
_POSTPONED_S = 0.008
_POSTPONED_MAX = 128
# In one batch, and one more message: an answer takes several times its size until it has left.
_ANSWERS_MAX = MAX_PACKET_SIZE

Method = Callable[[CallId, Caller, Any], Response | None]


class RemoteReadService:
    def __init__(
        self, engine: Engine, settings: Settings, *, random_bytes: Callable[[int], bytes] = token_bytes
    ) -> None:
        self._engine = engine
        self._settings = settings
        self.port = settings.port  # the daemon sets it once it listens
        self._now = 0.0
        self._actions: list[Action] = []
        self._handles = Handles(random_bytes)
        self._requests = PendingRequests(settings.cleanup_s)
        self._dropped: set[Waiter] = set()  # waits of this batch that are answered already, or need no answer
        self._enlisted: set[UUID] = set()  # transactions that remote readers may use
        self._postponed: list[tuple[CallId, calls.EndReceive, PendingRequest]] = []
        self._postponed_until: float | None = None
        self._has_answered = False  # the answers of this batch have left
        self._done: deque[Waiter] = deque()  # waits that have ended, and are not answered yet
        self._blocked: list[Waiter] = []  # the same, of clients that read no answers
        self._answer_bytes = 0  # of the messages in `_actions`
        self.is_blocked: Callable[[CallId], bool] = lambda _call: False
        # A method returns its response, or None if the answer comes later.
        self._methods: dict[type[Request], Method] = {
            calls.GetServerPort: self._get_server_port,
            calls.OpenQueue: self._open_queue,
            calls.CloseQueue: self._close_queue,
            calls.CreateCursor: self._create_cursor,
            calls.CloseCursor: self._close_cursor,
            calls.PurgeQueue: self._purge_queue,
            calls.StartReceive: self._start_receive,
            calls.CancelReceive: self._cancel_receive,
            calls.EndReceive: self._end_receive,
            calls.MoveMessage: self._move_message,
            calls.OpenQueueForMove: self._open_queue_for_move,
            calls.EnlistRemoteTransaction: self._enlist,
            calls.StartTransactionalReceive: self._start_receive,
            calls.SetUserAcknowledgementClass: self._set_acknowledgement_class,
            calls.EndTransactionalReceive: self._end_receive,
        }

    # The batch.

    def begin(self, now: float) -> None:
        """Start a batch; `now` is monotonic, in seconds. Unlock overdue messages: [MS-MQRR] 3.1.5.1."""
        self._now = max(now, self._now)
        self._has_answered = False
        while (request := self._requests.overdue(self._now)) is not None:
            self._requests.forget(request)
            self._give_back(request)

    def flush(self) -> None:
        """Before the commit: end postponed receives, if the batch is written anyway or they are due.

        Those that are due get a commit of their own, after the answers of this batch have left: the clients
        process their messages while it is made durable.
        """
        if self._postponed_until is None:
            return
        is_due = self._has_answered and self._postponed_until <= self._now
        if is_due or self._engine.has_changes:
            self._end_postponed()

    def finish(self, effects: list[Effect]) -> list[Effect]:
        """After the commit: answer calls whose wait has ended; the effects that are for others."""
        others: list[Effect] = []
        for effect in effects:
            if isinstance(effect, Completed):
                if self._requests.of_waiter(effect.waiter) is not None:
                    self._done.append(effect.waiter)
                    continue
                if effect.waiter in self._dropped:
                    continue
            elif isinstance(effect, Answered) and effect.answer in _OUTCOMES:
                self._enlisted.discard(effect.transaction)
            others.append(effect)
        self._dropped.clear()
        self._answer_waits()
        return others

    def _answer_waits(self) -> None:
        """One message may answer hundreds of waits: the others follow when their clients have read some."""
        while self._done and not self.is_full:
            waiter = self._done.popleft()
            request = self._requests.of_waiter(waiter)
            if request is not None and self.is_blocked(request.call):
                self._blocked.append(waiter)
            elif request is not None:  # else its call was abandoned meanwhile
                self._complete(request, waiter)

    def unblock(self) -> None:
        """A client reads its answers again."""
        self._done.extendleft(reversed(self._blocked))
        self._blocked.clear()

    @property
    def is_full(self) -> bool:
        """Whether the answers of this batch are as large as they may be: no more calls are taken then."""
        return self._answer_bytes >= _ANSWERS_MAX

    def take_actions(self) -> list[Action]:
        self._has_answered = True
        actions, self._actions = self._actions, []
        self._answer_bytes = 0
        return actions

    @property
    def next_deadline(self) -> float | None:
        """The next time limit of a delivered or postponed message, on the clock of `begin`."""
        now = self._now if self._done else None
        return earliest(self._requests.next_deadline, self._postponed_until, now)

    @property
    def handle_count(self) -> int:
        return len(self._handles)

    @property
    def pending_count(self) -> int:
        """Waiting reads, and delivered messages that are not acknowledged."""
        return len(self._requests)

    # Inputs.

    def call(self, call: CallId, caller: Caller, request: Request) -> None:
        """Take a call; it is answered by a reply or a fault with the same id, now or later."""
        if self._postponed and not _leaves_alone(request):
            self._end_postponed()
        try:
            response = self._methods[type(request)](call, caller, request)
        except (RpcFault, MqError) as error:
            self._refuse(call, request, error)
        else:
            if response is not None:
                self._actions.append(Reply(call, response))

    def postpone(self, call: CallId, caller: Caller, request: calls.EndReceive) -> None:
        """Take an acknowledgement whose reader has already asked for its next message.

        It may be delayed, so that one commit serves several. Until then the message stays locked; after a
        crash it is delivered again, as if the acknowledgement had been lost on the way.
        """
        try:
            pending = self._find_delivered(caller, request)
        except (RpcFault, MqError) as error:
            self._refuse(call, request, error)
            return
        if pending.is_express:  # needs no commit
            self._end_unawaited(call, request, pending)
            return
        self._postponed.append((call, request, pending))
        if len(self._postponed) >= _POSTPONED_MAX:
            self._postponed_until = self._now
        elif self._postponed_until is None:
            self._postponed_until = self._now + _POSTPONED_S

    def _end_postponed(self) -> None:
        postponed, self._postponed, self._postponed_until = self._postponed, [], None
        kept = {
            pending: (pending.handle.opened, pending.lookup_id)
            for _, request, pending in postponed
            if request.ack == RR_ACK and pending.lookup_id is not None
        }
        ended = self._engine.reading.end_received(kept.values())
        for call, request, pending in postponed:
            if kept.pop(pending, None) in ended:  # not if the reader says it twice
                self._received(call, pending)
            else:
                self._end_unawaited(call, request, pending)

    def _received(self, call: CallId, pending: PendingRequest) -> None:
        """The message has ended together with others."""
        self._requests.forget(pending)
        self._actions.append(Reply(call, calls.Done(), False))

    def _end_unawaited(self, call: CallId, request: calls.EndReceive, pending: PendingRequest) -> None:
        try:
            response = self._end(request, pending)
        except MqError as error:
            self._refuse(call, request, error)
        else:
            self._actions.append(Reply(call, response, False))

    def _refuse(self, call: CallId, request: Request, error: RpcFault | MqError) -> None:
        """Answer with the error: in a response, or in a fault if the response cannot carry it."""
        response = None if isinstance(error, RpcFault) else request.RESPONSE.failed(error.code)
        if response is not None:
            self._actions.append(Reply(call, response))
        else:
            self._actions.append(Fault(call, error.status if isinstance(error, RpcFault) else error.code))

    def abandon(self, call: CallId) -> None:
        """Stop waiting: the call was orphaned or its connection lost."""
        request = self._requests.of_call(call)
        if request is not None:
            self._end_wait(request)

    def cancel(self, call: CallId) -> None:
        """End the call early: a co_cancel PDU arrived."""
        request = self._requests.of_call(call)
        if request is not None and request.is_waiting:
            self._end_wait(request)
            self._actions.append(Fault(call, NCA_S_FAULT_CANCEL))

    def run_down(self, handle: QueueHandle) -> None:
        """Close a handle whose group has lost its last connection: [MS-MQRR] 3.1.6.1, 3.1.6.2."""
        self._end_postponed()
        self._close(handle)

    def enlisted(self, call: CallId, transaction: UUID, error: MqError | None = None) -> None:
        """The result of an `Enlist` action."""
        if error is None and transaction not in self._enlisted:
            try:
                self._engine.transactions.begin(transaction).single_phase = False
            except TransactionSequenceError as problem:  # it exists already, begun by another party
                error = problem
            else:
                self._enlisted.add(transaction)
        self._actions.append(Reply(call, calls.Done(calls.MQ_OK if error is None else error.code)))

    # Opening and closing.

    def _get_server_port(self, _call: CallId, _caller: Caller, _: calls.GetServerPort) -> Response:
        """R_GetServerPort: [MS-MQRR] 3.1.4.1."""
        return calls.ServerPort(self.port)

    def _open_queue(self, _call: CallId, caller: Caller, request: calls.OpenQueue) -> Response:
        """R_OpenQueue: [MS-MQRR] 3.1.4.2."""
        return calls.QueueOpened(self._open(caller, request, _READ_ACCESSES, set(ShareMode)).context)

    def _open_queue_for_move(self, _call: CallId, caller: Caller, request: calls.OpenQueue) -> Response:
        """R_OpenQueueForMove: [MS-MQRR] 3.1.4.11."""
        handle = self._open(caller, request, {int(QueueAccess.MOVE)}, {ShareMode.DENY_NONE})
        self._handles.open_for_move(handle)
        return calls.QueueOpenedForMove(handle.move_context, handle.context)

    def _open(
        self, caller: Caller, request: calls.OpenQueue, accesses: set[int], shares: set[ShareMode]
    ) -> QueueHandle:
        is_workgroup = bool(request.is_workgroup)
        token = self._identify(caller, is_workgroup=is_workgroup)
        if request.access not in accesses or request.share_mode not in shares:
            problem = f"access {request.access:#x} with share mode {request.share_mode} is not allowed here"
            raise InvalidParameterError("R_OpenQueue", problem=problem)
        opened = self._engine.opening.open(
            request.queue.format_name(),
            QueueAccess(request.access),
            ShareMode(request.share_mode),
            token=token,
        )
        opened.remote_read_state = RemoteReadState.OPENED
        handle = QueueHandle(caller, token.user, opened, is_workgroup)
        try:
            self._handles.add(handle)
        except RpcFault:
            self._engine.opening.close(opened)
            raise
        opened.remote_read_state = RemoteReadState.READY_FOR_READ  # the answer carries the handle
        return handle

    def _close_queue(self, _call: CallId, caller: Caller, request: calls.CloseQueue) -> Response:
        """R_CloseQueue: [MS-MQRR] 3.1.4.3."""
        handle = self._handle(caller, request)
        caller.association.close_handle(calls.REMOTE_READ, request.handle)
        self._close(handle)
        return calls.QueueClosed()

    def _close(self, handle: QueueHandle) -> None:
        """End everything that the handle began, whether closed or run down (MQRR traps 5, 6)."""
        requests = self._requests.of(handle)
        for request in requests:  # first, so that an unlocked message does not go to one of them
            if request.waiter is not None:
                self._end_wait(request, OperationCancelledError(str(handle.opened.format_name)))
        for request in requests:
            if request.lookup_id is not None:
                self._requests.forget(request)
                self._give_back(request)
        self._engine.opening.close(handle.opened)
        handle.cursors.clear()
        self._handles.remove(handle)

    # Cursors and purging.

    def _create_cursor(self, _call: CallId, caller: Caller, request: calls.CreateCursor) -> Response:
        """R_CreateCursor: [MS-MQRR] 3.1.4.4."""
        handle = self._handle(caller, request)
        return calls.CursorCreated(
            self._handles.add_cursor(handle, self._engine.opening.open_cursor(handle.opened))
        )

    def _close_cursor(self, _call: CallId, caller: Caller, request: calls.CloseCursor) -> Response:
        """R_CloseCursor: [MS-MQRR] 3.1.4.5."""
        handle = self._handle(caller, request)
        self._engine.opening.close_cursor(handle.opened, self._cursor(handle, request.cursor))
        del handle.cursors[request.cursor]
        return calls.Done()

    def _purge_queue(self, _call: CallId, caller: Caller, request: calls.PurgeQueue) -> Response:
        """R_PurgeQueue: [MS-MQRR] 3.1.4.6."""
        handle = self._handle(caller, request)
        if handle.opened.access != QueueAccess.RECEIVE:
            raise _status(Status.ACCESS_DENIED, "the handle was not opened to receive")
        self._engine.purging.purge(handle.opened)
        return calls.Done()

    # Reading.

    def _start_receive(self, call: CallId, caller: Caller, arguments: calls.StartReceive) -> Response | None:
        """R_StartReceive, R_StartTransactionalReceive: [MS-MQRR] 3.1.4.7, 3.1.4.13."""
        handle = self._handle(caller, arguments)
        check_arguments(arguments)
        cursor = self._cursor(handle, arguments.cursor) if arguments.cursor else None
        transaction = None
        if isinstance(arguments, calls.StartTransactionalReceive):
            transaction = self._transaction_to_read(handle, arguments)
        if self._requests.find(handle, arguments.request_id) is not None:
            problem = f"request {arguments.request_id} of this handle is still open"
            raise InvalidParameterError("R_StartReceive", problem=problem)
        found = read(self._engine.reading, handle.opened, arguments, cursor, transaction)
        request = PendingRequest(call, handle, arguments, is_receive(arguments), transaction)
        if isinstance(found, Waiter):
            self._requests.wait(request, found)
            return None
        return self._deliver(request, found)

    def _transaction_to_read(
        self, handle: QueueHandle, arguments: calls.StartTransactionalReceive
    ) -> Transaction | None:
        """The transaction of R_StartTransactionalReceive: [MS-MQRR] 3.1.4.13."""
        if arguments.transaction == NULL_GUID:  # same as R_StartReceive
            return None
        queue = handle.opened.queue_for(QueueAccess.RECEIVE)
        if not queue.queue.transactional or not is_receive(arguments):
            problem = "only a receive from a transactional queue can be in a transaction"
            raise TransactionUsageError(str(queue), problem=problem)
        return self._find_transaction(arguments.transaction)

    def _complete(self, request: PendingRequest, waiter: Waiter) -> None:
        """Answer a read whose wait has ended."""
        if waiter.found is not None:
            response = self._deliver(request, waiter.found)
        else:
            self._requests.forget(request)
            assert waiter.error is not None
            response = Received.failed(waiter.error.code)
        self._actions.append(Reply(request.call, response))

    def _deliver(self, request: PendingRequest, found: Found) -> Received:
        """The answer to a read that found a message: [MS-MQRR] 3.1.4.7, return values."""
        if request.is_receive:
            self._requests.deliver(request, found.lookup_id, self._now)
        elif request.waiter is not None:
            self._requests.forget(request)
        packet = found.packet or UserMessage(found.record.packet)
        path = found.queue.queue.pathname
        subqueue = (path.subqueue if path is not None else None) or ""
        address = self._engine.peers.seen(packet.source_queue_manager) or ""
        data = serve(packet, found.record, subqueue=subqueue, address=address)
        self._answer_bytes += len(data)
        limits = request.arguments.max_body_size, request.arguments.max_compound_message_size
        # The sequence id is the lookup id without its priority, which the packet has (MQRR trap 15).
        sequence = lookup_id_sequence(found.lookup_id)
        return Received(found.record.arrival_time, sequence, split(data, *limits))

    def _cancel_receive(self, _call: CallId, caller: Caller, request: calls.CancelReceive) -> Response:
        """R_CancelReceive: [MS-MQRR] 3.1.4.8."""
        handle = self._handle(caller, request)
        waiting = self._requests.find(handle, request.request_id)
        if waiting is None or not waiting.is_waiting:
            raise _status(Status.NOT_FOUND, f"no waiting request {request.request_id}")
        self._end_wait(waiting, OperationCancelledError(str(handle.opened.format_name)))
        return calls.Done()

    def _end_wait(self, request: PendingRequest, error: MqError | None = None) -> None:
        """End a wait in the engine, and answer its call with `error`, if given."""
        waiter = request.waiter
        assert waiter is not None
        self._requests.forget(request)
        self._dropped.add(waiter)
        self._engine.waiting.stop(waiter, OperationCancelledError(str(request.handle.opened.state)))
        if waiter.found is not None and request.is_receive:  # a message arrived in this batch
            request.lookup_id = waiter.found.lookup_id
            self._give_back(request)
        if error is not None:
            self._actions.append(Reply(request.call, Received.failed(error.code)))

    def _end_receive(self, _call: CallId, caller: Caller, request: calls.EndReceive) -> Response:
        """R_EndReceive, R_EndTransactionalReceive: [MS-MQRR] 3.1.4.9, 3.1.4.15."""
        return self._end(request, self._find_delivered(caller, request))

    def _find_delivered(self, caller: Caller, request: calls.EndReceive) -> PendingRequest:
        handle = self._handle(caller, request)
        pending = self._requests.find(handle, request.request_id)
        if pending is None or pending.lookup_id is None or not _can_end(request, pending):
            if not any(each.is_receive for each in self._requests.of(handle)):
                raise InvalidHandleError(
                    str(handle.opened.format_name), problem="the handle has no open receive"
                )
            problem = f"request {request.request_id} has no message that this call could end"
            raise InvalidParameterError(str(handle.opened.format_name), problem=problem)
        return pending

    def _end(self, request: calls.EndReceive, pending: PendingRequest) -> Response:
        assert pending.lookup_id is not None
        self._requests.forget(pending)
        reading, opened = self._engine.reading, pending.handle.opened
        try:
            reading.end_receive(opened, pending.lookup_id, delete=request.ack == RR_ACK)
        except TransactionSequenceError:
            reading.lock_on(opened, pending.lookup_id)  # reports that the message is gone, if so
            raise
        return calls.Done()

    def _give_back(self, request: PendingRequest) -> None:
        """Unlock the message, even in a transaction (MQRR trap 12); nothing if the read has ended."""
        assert request.lookup_id is not None
        with suppress(TransactionSequenceError, QueueNotAvailableError):
            self._engine.reading.end_receive(request.handle.opened, request.lookup_id, delete=False)

    # Moving.

    def _move_message(self, _call: CallId, caller: Caller, request: calls.MoveMessage) -> Response:
        """R_MoveMessage: [MS-MQRR] 3.1.4.10."""
        source = self._handle(caller, request)
        target = self._handles.find_target(caller.association, request.move_context)
        if target is None:
            raise InvalidHandleError("ullContextTo", problem="no queue is open for moving under this context")
        queue = source.opened.queue_for(QueueAccess.RECEIVE)
        goal = target.opened.queue_for(QueueAccess.MOVE)
        if not queue.can_move_to(goal):
            raise _status(Status.INVALID_PARAMETER, f"messages of {queue} cannot move to {goal}")
        is_transactional = request.transaction != NULL_GUID
        if is_transactional and not goal.queue.transactional:
            raise TransactionUsageError(str(goal), problem="the queue is not transactional")
        lock = self._engine.reading.lock_on(source.opened, request.lookup_id)
        if lock is not None and isinstance(lock.owner, Transaction):
            raise MessageLockedUnderTransactionError(f"message {request.lookup_id} of {queue}")
        transaction = self._find_transaction(request.transaction) if is_transactional else None
        self._engine.moving.move(source.opened, request.lookup_id, target.opened, transaction)
        return calls.Done()

    # Transactions.

    def _enlist(
        self, call: CallId, caller: Caller, request: calls.EnlistRemoteTransaction
    ) -> Response | None:
        """R_QMEnlistRemoteTransaction: [MS-MQRR] 3.1.4.12."""
        self._identify(caller, is_workgroup=self._handles.has_workgroup(caller.association))
        subject = f"transaction {request.transaction}"
        if request.transaction == NULL_GUID:
            raise TransactionEnlistError(subject, problem="the identifier is null")
        if not self._settings.has_coordinator:
            raise DtcConnectError(subject, problem="this queue manager has no transaction coordinator")
        if request.transaction in self._enlisted:  # by another reader
            return calls.Done()
        self._actions.append(Enlist(call, request.transaction, request.token))
        return None

    def _find_transaction(self, identifier: UUID) -> Transaction:
        """An enlisted transaction; an unknown one is never created (MQRR trap 11)."""
        if identifier not in self._enlisted:
            problem = "not enlisted by a reader, or already ended"
            raise TransactionSequenceError(f"transaction {identifier}", problem=problem)
        return self._engine.transactions.find(identifier)

    def _set_acknowledgement_class(
        self, _call: CallId, caller: Caller, request: calls.SetUserAcknowledgementClass
    ) -> Response:
        """R_SetUserAcknowledgementClass: [MS-MQRR] 3.1.4.14."""
        handle = self._handle(caller, request)
        lock = self._engine.reading.lock_on(handle.opened, request.lookup_id)
        pending = (each.lookup_id for each in self._requests.of(handle))
        is_ended = lock is not None and lock.opened is handle.opened and request.lookup_id not in pending
        if not is_ended or lock is None or not isinstance(lock.owner, Transaction):
            problem = "not received in a transaction, or that receive has not been ended"
            raise TransactionUsageError(f"message {request.lookup_id}", problem=problem)
        if request.message_class == MessageClass.NACK_RECEIVE_REJECTED:
            self._engine.reading.reject_at_commit(handle.opened, request.lookup_id)
        elif request.message_class != _NO_CLASS:
            problem = f"class {request.message_class:#06x} cannot be set"
            raise InvalidParameterError(f"message {request.lookup_id}", problem=problem)
        return calls.Done()

    # Callers and handles.

    def _identify(self, caller: Caller, *, is_workgroup: bool) -> Token:
        """The caller's access token; an RpcFault if its authentication level is too low."""
        settings = self._settings
        least = settings.least_level_for(is_workgroup=is_workgroup, is_local=caller.is_local)
        if caller.level.effective >= least.effective:
            return ANONYMOUS if caller.level is _NO_LEVEL else caller.token
        if settings.allow_anonymous:  # it gets the rights of anonymous users
            return ANONYMOUS
        raise RpcFault(ERROR_ACCESS_DENIED, f"level {caller.level.name} is below {least.name}")

    def _handle(self, caller: Caller, request: calls.HandleRequest) -> QueueHandle:
        handle = caller.association.find_handle(calls.REMOTE_READ, request.handle)
        assert isinstance(handle, QueueHandle)
        opener = handle.opener
        if (
            caller.token is opener.token and caller.level is opener.level
        ):  # the usual case: same rights as at the opening
            return handle
        if self._identify(caller, is_workgroup=handle.is_workgroup).user != handle.user:
            raise RpcFault(ERROR_ACCESS_DENIED, "the queue was opened by another user")
        return handle

    @staticmethod
    def _cursor(handle: QueueHandle, number: int) -> Cursor:
        cursor = handle.cursors.get(number)
        if cursor is None:
            raise _status(Status.INVALID_HANDLE, f"the handle has no cursor {number}")
        return cursor


def _leaves_alone(request: Request) -> bool:
    """Whether a call is unaffected by postponed acknowledgements: their messages are locked anyway."""
    return type(request) is calls.StartReceive and request.action == _RECEIVE


def _can_end(request: calls.EndReceive, pending: PendingRequest) -> bool:
    """Each kind of read has its own end; outside a transaction both are accepted (MQRR-118, -126)."""
    if isinstance(request, calls.EndTransactionalReceive):
        return isinstance(pending.arguments, calls.StartTransactionalReceive)
    return pending.transaction is None


def _status(status: Status, problem: str) -> MqError:
    """An NTSTATUS instead of an HRESULT, as readers expect (MQRR trap 24)."""
    return error_for_code(status)("remote read", problem=problem)
