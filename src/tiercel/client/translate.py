"""Between what users write and get, and what the engine takes and gives."""

from tiercel.engine.handles import Found
from tiercel.model.errors import QueueNotFoundError
from tiercel.model.format_name import FormatName
from tiercel.model.message import Message
from tiercel.model.path_name import PathName
from tiercel.server.driver import Driver
from tiercel.wire.message import read_message
from tiercel.wire.user_message import UserMessage


def check_exists(driver: Driver, name: FormatName) -> None:
    """A queue of this computer must be there when it is asked for; what others have, only sending tells."""
    if driver.engine.is_local(name) and driver.engine.find(name) is None:
        raise QueueNotFoundError(str(name))


def message_of(found: Found) -> Message:
    """The message that a read found."""
    record = found.record
    message = read_message(found.packet or UserMessage(record.packet))
    message.lookup_id = found.lookup_id
    message.arrival_time = record.arrival_time
    message.abort_count = record.abort_count
    message.move_count = record.move_count
    message.last_move_time = record.last_move_time
    if record.dead_letter_queue:
        message.dead_letter_queue = PathName.parse(record.dead_letter_queue)
    return message
