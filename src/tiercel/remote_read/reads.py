"""The nine actions of a read: which arguments each allows, and its engine call. [MS-MQRR] 3.1.4.7."""

from tiercel.engine.cursor import Cursor
from tiercel.engine.handles import Found, OpenQueue, Waiter
from tiercel.engine.reading import Reading
from tiercel.engine.records import LAST_LOOKUP_ID
from tiercel.engine.transaction import Transaction
from tiercel.model.codes import LookupAction, MessageSeekAction, ReceiveAction
from tiercel.model.errors import InvalidParameterError
from tiercel.model.limits import INFINITE
from tiercel.remote_read.calls import StartReceive

_MS = 1000
_RECEIVE = ReceiveAction.RECEIVE  # cached: enum lookup is slow here

_SEEKS = {
    LookupAction.PEEK_CURRENT: MessageSeekAction.SEEK_CURRENT,
    LookupAction.PEEK_NEXT: MessageSeekAction.SEEK_NEXT,
    LookupAction.PEEK_PREV: MessageSeekAction.SEEK_PREVIOUS,
    LookupAction.RECEIVE_CURRENT: MessageSeekAction.SEEK_CURRENT,
    LookupAction.RECEIVE_NEXT: MessageSeekAction.SEEK_NEXT,
    LookupAction.RECEIVE_PREV: MessageSeekAction.SEEK_PREVIOUS,
}
# Lookup ids with a special meaning in [MS-MQQP]; no message has them (MQRR trap 16).
_SENTINELS = {
    (MessageSeekAction.SEEK_NEXT, 0): MessageSeekAction.SEEK_FIRST,
    (MessageSeekAction.SEEK_PREVIOUS, LAST_LOOKUP_ID): MessageSeekAction.SEEK_LAST,
}
_RECEIVES = {
    ReceiveAction.RECEIVE,
    LookupAction.RECEIVE_CURRENT,
    LookupAction.RECEIVE_NEXT,
    LookupAction.RECEIVE_PREV,
}


def is_receive(arguments: StartReceive) -> bool:
    """Whether the message leaves the queue, so that its reader must end the read (MQRR trap 4)."""
    return arguments.action in _RECEIVES


def check_arguments(arguments: StartReceive) -> None:
    """Refuse invalid combinations, before any other check (MQRR trap 32)."""
    action, lookup_id = arguments.action, arguments.lookup_id
    if action == _RECEIVE and not lookup_id:  # the usual case
        return
    match action:
        case ReceiveAction.RECEIVE | ReceiveAction.PEEK_CURRENT:
            is_valid = not lookup_id
        case ReceiveAction.PEEK_NEXT:
            is_valid = not lookup_id and arguments.cursor != 0
        case _ if action in _SEEKS:
            names_message = lookup_id != 0 or (_seek(arguments) is MessageSeekAction.SEEK_FIRST)
            is_valid = names_message and not arguments.cursor and not arguments.timeout_ms
        case _:
            is_valid = False
    if not is_valid:
        given = f"lookup id {lookup_id}, cursor {arguments.cursor} and timeout {arguments.timeout_ms} ms"
        raise InvalidParameterError("R_StartReceive", problem=f"action {action:#010x} cannot have {given}")


def read(
    reading: Reading,
    opened: OpenQueue,
    arguments: StartReceive,
    cursor: Cursor | None,
    transaction: Transaction | None,
) -> Found | Waiter:
    """Read as the checked arguments say; a received message is only locked until the read is ended."""
    # The protocol counts milliseconds, the engine seconds (MQRR trap 9).
    timeout = None if arguments.timeout_ms == INFINITE else arguments.timeout_ms / _MS
    if arguments.action == _RECEIVE:
        return reading.receive(opened, timeout, cursor=cursor, transaction=transaction, two_phase=True)
    match arguments.action:
        case ReceiveAction.PEEK_CURRENT:
            return reading.peek(opened, timeout, cursor=cursor)
        case ReceiveAction.PEEK_NEXT:
            assert cursor is not None
            return reading.peek_next(opened, timeout, cursor)
    return reading.read_by_lookup_id(
        opened,
        arguments.lookup_id,
        _seek(arguments),
        peek=not is_receive(arguments),
        transaction=transaction,
        two_phase=True,
    )


def _seek(arguments: StartReceive) -> MessageSeekAction:
    seek = _SEEKS[LookupAction(arguments.action)]
    return _SENTINELS.get((seek, arguments.lookup_id), seek)
