"""A message of another queue manager, and the names of its queues."""

from ipaddress import ip_address

from tiercel.client.translate import format_name_of
from tiercel.model.format_name import DirectFormatName, DirectProtocol, FormatName
from tiercel.model.message import ReceivedMessage
from tiercel.model.path_name import PathName
from tiercel.remote_read import packet
from tiercel.remote_read.calls import Received
from tiercel.remote_read.reader import lookup_id_of
from tiercel.wire import user_header
from tiercel.wire.message import reader_of


class RemoteMessage(ReceivedMessage):
    """A message of a remote queue; a peek with `max_body_size` has only the first bytes of the body."""

    __slots__ = ("body_size", "is_complete", "sender_address")
    body_size: int
    is_complete: bool
    sender_address: str

    @classmethod
    def of(cls, found: packet.RemoteMessage, answer: Received) -> "RemoteMessage":
        message = cls.unread(reader_of(found.packet))
        message.body_size = found.body_size
        message.is_complete = found.is_complete
        message.sender_address = found.sender_address
        message.lookup_id = lookup_id_of(found, answer)
        message.arrival_time = answer.arrival_time
        message.abort_count = found.subqueue.abort_counter
        message.move_count = found.subqueue.move_counter
        message.last_move_time = found.subqueue.last_move_time
        if found.dead_letter_queue:
            message.dead_letter_queue = PathName.parse(found.dead_letter_queue)
        if not found.is_complete:
            is_srmp = found.packet.flags & user_header.ARRIVED_OVER_HTTP
            cut = "soap_compound_message" if is_srmp else "body"
            setattr(message, cut, getattr(message, cut)[: found.body_received])
        return message


def queue_name(host: str, name: str | FormatName) -> FormatName:
    """The queue that a user names; a path name without a computer, or with ".", is on `host`."""
    parsed = format_name_of(name)
    if isinstance(parsed, DirectFormatName) and parsed.path.computer == ".":
        return on_host(host, parsed.path)
    return parsed


def on_host(host: str, path: PathName) -> DirectFormatName:
    """The same path on the computer that we are connected to, by the name that we use for it."""
    try:
        ip_address(host)
    except ValueError:
        return DirectFormatName(DirectProtocol.OS, path.with_computer(host))
    return DirectFormatName(DirectProtocol.TCP, path.with_computer(host))
