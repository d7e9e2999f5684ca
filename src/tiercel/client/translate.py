"""Between what users write and get, and what the engine takes and gives."""

from tiercel.engine.handles import Found
from tiercel.engine.messages import set_record
from tiercel.model.errors import IllegalPropertyVariantTypeError, QueueNotFoundError
from tiercel.model.format_name import FormatName
from tiercel.model.message import Message
from tiercel.model.queue_name import parse_queue_name
from tiercel.server.driver import Driver
from tiercel.wire.message import read_message
from tiercel.wire.user_message import UserMessage


def check_exists(driver: Driver, name: FormatName) -> None:
    """A queue of this computer must be there when it is asked for; what others have, only sending tells."""
    if driver.engine.queues.is_local(name) and driver.engine.queues.find(name) is None:
        raise QueueNotFoundError(str(name))


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
