"""Reports of traced messages, incoming and outgoing: [MS-MQQB] 3.1.5.8.9, 3.1.7.1.7."""

from datetime import UTC, datetime

from tiercel.engine.engine import Engine
from tiercel.model.codes import DeliveryGuarantee, MessageClass
from tiercel.model.format_name import PublicFormatName
from tiercel.model.message import Message
from tiercel.wire.base_header import TRACING
from tiercel.wire.debug_header import DebugHeader
from tiercel.wire.message import decode_message, encode_message
from tiercel.wire.user_message import UserMessage


def report_trace(engine: Engine, packet: UserMessage, next_hop: str | None = None) -> None:
    """Sending a Trace Message: [MS-MQQB] 3.1.5.8.9, 3.1.7.1.7.

    Send a report if the message is traced; one that cannot be put into its queue has a line in the ledger.
    """
    if not packet.base_flags & TRACING:
        return
    debug = packet.other(DebugHeader)
    if debug is None or debug.queue_identifier is None:
        return
    queue = PublicFormatName(debug.queue_identifier)
    message = Message(
        _body(packet, next_hop),
        label=_label(packet, engine.seconds),
        message_class=MessageClass.REPORT,
        delivery=DeliveryGuarantee.EXPRESS,
        destination_queue=queue,
    )
    message.id = engine.numbering.new_message_id()
    message.sent_time = engine.seconds
    report = UserMessage(encode_message(message))
    engine.delivery.post(report, queue, packet)


def _label(packet: UserMessage, seconds: int) -> str:
    # "received by" even for sent messages: both sections print the same rule.
    moment = datetime.fromtimestamp(seconds, UTC).strftime("%I:%M:%S %p %a,%b %d %y")
    source = str(packet.source_queue_manager).upper()
    number, hops = packet.id.uniquifier, packet.hop_count
    return f"{source[:4]}:{number:08X}:{hops:02X} received by {source} at {moment}"


def _body(packet: UserMessage, next_hop: str | None) -> bytes:
    target = decode_message(packet).destination_queue
    number = packet.id.uniquifier
    lines = [f"<MESSAGE ID>{number:08X}</MESSAGE ID>", f"<TARGET QUEUE>{target}</TARGET QUEUE>"]
    if next_hop is not None:
        lines += [f"<NEXT HOP>{next_hop}</NEXT HOP>", f"<HOP COUNT>{packet.hop_count:02X} </HOP COUNT>"]
    return "".join(f"{line}\r\n" for line in lines).encode("utf-16-le")
