"""The properties of a message that come from its record, not from its packet."""

from tiercel.engine.records import Record
from tiercel.message_security.verdict import NOTHING, decode_verdict
from tiercel.model.message import Message
from tiercel.model.path_name import PathName


def set_record(message: Message, lookup_id: int, record: Record) -> None:
    """Sets the properties of a message that the queue manager keeps: its place, times and counters."""
    message.lookup_id = lookup_id
    # Whatever the packet claims: what was verified counts.
    verdict = decode_verdict(record.verdict) if record.verdict else NOTHING
    message.authentication_level, message.verified_sender = verdict.level, verdict.sender
    message.verified_name = verdict.name
    message.arrival_time = record.arrival_time
    message.abort_count = record.abort_count
    message.move_count = record.move_count
    message.last_move_time = record.last_move_time
    if record.dead_letter_queue:
        message.dead_letter_queue = PathName.parse(record.dead_letter_queue)
