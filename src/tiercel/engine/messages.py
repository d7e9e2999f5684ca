"""What the queue manager knows of a message beside its packet."""

from tiercel.engine.records import Record
from tiercel.model.message import Message
from tiercel.model.path_name import PathName


def set_record(message: Message, lookup_id: int, record: Record) -> None:
    """Has the message say where it stands in its queue, and what has become of it there."""
    message.lookup_id = lookup_id
    message.arrival_time = record.arrival_time
    message.abort_count = record.abort_count
    message.move_count = record.move_count
    message.last_move_time = record.last_move_time
    if record.dead_letter_queue:
        message.dead_letter_queue = PathName.parse(record.dead_letter_queue)
