"""Translates between what users pass and get, and what the engine takes and returns."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from tiercel.engine.handles import Found
from tiercel.engine.messages import set_record
from tiercel.model.codes import MessageSeekAction
from tiercel.model.errors import (
    IllegalPropertyVariantTypeError,
    InvalidParameterError,
    IoTimeoutError,
    MessageNotFoundError,
    QueueNotFoundError,
)
from tiercel.model.format_name import FormatName
from tiercel.model.message import Message
from tiercel.model.properties import Properties
from tiercel.model.queue_name import parse_queue_name
from tiercel.server.driver import Driver
from tiercel.wire.message import read_message
from tiercel.wire.user_message import UserMessage

M = TypeVar("M", bound=Message)

_CURRENT = MessageSeekAction.SEEK_CURRENT  # a module constant: looking up a member of an enum is slow
_NUMBER = (int, float)
_LIFETIME_S = 1e10  # three hundred years


def check_exists(driver: Driver, name: FormatName) -> None:
    """Raises if a queue of this computer does not exist; of other computers, only sending tells."""
    if driver.engine.queues.is_local(name) and driver.engine.queues.find(name) is None:
        raise QueueNotFoundError(str(name))


def check_message(message: object, properties: Properties) -> Message:
    """What a user sends: a message, or the body of one with its properties."""
    if isinstance(message, bytes | str):
        return Message(message, **properties)
    if not isinstance(message, Message):
        kind = type(message).__name__
        raise IllegalPropertyVariantTypeError("message", present=kind, limit="Message, bytes or str")
    if properties:
        names = ", ".join(properties)
        problem = f"a Message has its own {names}; only a text or bytes takes them in the call"
        raise InvalidParameterError("message", problem=problem, fix="set them on the Message")
    return message


def message_of(found: Found) -> Message:
    """The message that a read found."""
    message = read_message(found.packet or UserMessage(found.record.packet))
    set_record(message, found.lookup_id, found.record)
    return message


def format_name_of(name: object) -> FormatName:
    """The queue that a user names, by any of its names."""
    return name if isinstance(name, FormatName) else parse_queue_name(check_text("name of the queue", name))


def check_text(what: str, value: object) -> str:
    if not isinstance(value, str):
        raise IllegalPropertyVariantTypeError(
            what, present=type(value).__name__, limit="str", fix="pass a str"
        )
    return value


def check_number(what: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        kind = type(value).__name__
        raise IllegalPropertyVariantTypeError(what, present=kind, limit="int", fix="pass an int")
    return value


def check_timeout(timeout: object) -> float | None:
    """The seconds to wait; None, and more than a lifetime, mean for ever."""
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, _NUMBER):
        kind = type(timeout).__name__
        raise IllegalPropertyVariantTypeError("timeout", present=kind, limit="seconds or None")
    if not timeout >= 0:
        raise InvalidParameterError(
            "timeout", present=timeout, limit="0 or more", fix="pass seconds, or None"
        )
    return float(timeout) if timeout < _LIFETIME_S else None


def seeks(lookup_id: int | None, seek: MessageSeekAction) -> bool:
    """Whether a read goes by lookup id; first and last need none."""
    if lookup_id is None and seek is _CURRENT:
        return False
    if not isinstance(seek, MessageSeekAction):
        kind = type(seek).__name__
        raise IllegalPropertyVariantTypeError("seek", present=kind, limit="MessageSeekAction")
    if lookup_id is not None or seek in {MessageSeekAction.SEEK_FIRST, MessageSeekAction.SEEK_LAST}:
        return True
    raise InvalidParameterError("seek", problem="it starts from a message", fix="pass its lookup_id")


def peek_each(first: Callable[[float], M], following: Callable[[float], M]) -> Iterator[M]:
    """The messages from a cursor on, with its `peek` and `peek_next`."""
    peek = first
    while True:
        try:
            message = peek(0)
        except (IoTimeoutError, MessageNotFoundError):
            return
        yield message
        peek = following
