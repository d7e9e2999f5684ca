"""What must hold for any bytes of a remote reader, or of the server that it reads from: see `promises`."""

from uuid import UUID

from basics import Target, read_properties

from tiercel.engine.records import Record
from tiercel.model.errors import DecodeError, MqError
from tiercel.model.format_name import FormatName
from tiercel.model.identifiers import MessageId
from tiercel.model.message import Message
from tiercel.remote_read.calls import (
    REQUESTS,
    CursorCreated,
    EnlistRemoteTransaction,
    MoveMessage,
    OpenQueue,
    Received,
    Request,
    StartTransactionalReceive,
    decode_request,
)
from tiercel.remote_read.packet import rebuild, serve, split
from tiercel.remote_read.queue_format import QueueFormat
from tiercel.rpc.ndr import ContextHandle, NdrError
from tiercel.rpc.status import RpcFault
from tiercel.wire.message import encode_message
from tiercel.wire.user_message import UserMessage

_GUID = UUID("00112233-4455-6677-8899-aabbccddeeff")
_HANDLE = ContextHandle(0, _GUID)


def check_request(data: bytes) -> None:
    """The first byte is the number of the method."""
    try:
        request = decode_request(data[0] if data else 0, data[1:])
    except (NdrError, RpcFault) as error:
        str(error)
        return
    if decode_request(request.OPNUM, request.encode()) != request:
        raise AssertionError(f"{request} is another one when it is encoded again")
    queue = getattr(request, "queue", None)
    if isinstance(queue, QueueFormat):
        try:
            queue.format_name()
        except MqError as error:
            str(error)


def check_received(data: bytes) -> None:
    """What a server gives as a message is a message, or is refused with a word about it."""
    try:
        received = Received.decode(data)
        message = rebuild(received.sections)
    except DecodeError as error:
        str(error)
        return
    if Received.decode(received.encode()) != received:
        raise AssertionError(f"{received} is another one when it is encoded again")
    read_properties(message)
    read_properties(message.subqueue)
    for header in message.packet.headers():
        header.encode()


def _requests() -> list[bytes]:
    names = (r"OS:h\private$\q", r"TCP:10.0.0.1\q;JOURNAL", r"OS:h\private$\q;sub")
    queues = [QueueFormat.of(FormatName.parse(f"DIRECT={name}")) for name in names]
    queues += [QueueFormat(kind, 0x81, _GUID, text="text") for kind in range(9)]
    requests: list[Request] = [OpenQueue(queue, 1) for queue in queues]
    requests += [
        StartTransactionalReceive(_HANDLE, transaction=_GUID),
        MoveMessage(_HANDLE, 1, 2),
        EnlistRemoteTransaction(_GUID, b"token", queues[0]),
    ]
    seeds = [bytes([request.OPNUM]) + request.encode() for request in requests]
    return seeds + [bytes([opnum]) + _HANDLE.uuid.bytes * 3 for opnum in REQUESTS]


def _received() -> list[bytes]:
    name = FormatName.parse(r"DIRECT=OS:h\private$\q")
    message = Message(b"body" * 9, label="label", destination_queue=name, id=MessageId(_GUID, 1))
    record = Record(b"", 0, 1, 2, 3, r"h\private$\dead")
    served = serve(UserMessage(encode_message(message)), record, subqueue="sub", address="fe80::1%3")
    answers = [Received(1, 2, split(served, limit, limit)) for limit in (0, 5, 36)]
    return [answer.encode() for answer in (*answers, Received.failed(0xC00E001B), CursorCreated(1))]


TARGETS: dict[str, Target] = {
    "remote_read_received": Target(check_received, _received),
    "remote_read_request": Target(check_request, _requests),
}
