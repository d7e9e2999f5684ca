"""Receipts to the senders of messages that came over HTTP: [MC-MQSRM] 3.1.1.3, 3.1.7.3.

A receipt is a message in an outgoing queue. What it says is in its envelope, so the message contains the
request that is to be sent.
"""

from tiercel.engine.engine import Engine
from tiercel.engine.incoming_streams import IncomingStream
from tiercel.model.codes import DeliveryGuarantee, MessageClass
from tiercel.model.errors import DecodeError
from tiercel.model.format_name import DirectFormatName, MulticastFormatName
from tiercel.srmp.envelope import Envelope
from tiercel.srmp.envelope_reader import read_envelope
from tiercel.srmp.kinds import DECISIONS
from tiercel.srmp.message import read_message
from tiercel.srmp.queue_urls import read_url, write_url
from tiercel.srmp.receipts import (
    Stamp,
    commitment_receipt,
    delivery_receipt,
    final_stream_receipt,
    stream_receipt,
)
from tiercel.srmp.request import read_srmp, write_srmp
from tiercel.srmp.values import StreamId
from tiercel.wire.message import decode_message, encode_message
from tiercel.wire.soap_header import SRMPEnvelopeHeader
from tiercel.wire.structure import decode_tx_sequence_id
from tiercel.wire.user_header import NEGATIVE_JOURNALING
from tiercel.wire.user_message import UserMessage


class ReceiptSender:
    """Implements `tiercel.engine.receipts.Receipts`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def acknowledge(self, packet: UserMessage, reason: MessageClass) -> None:
        """Delivery and commitment receipts, each to its own address (SRMP-060)."""
        original, now = _envelope(packet), self._engine.seconds
        if original is None or (services := original.services) is None:
            return
        if reason == MessageClass.ACK_REACH_QUEUE:
            if (to := services.delivery_receipt_request) is not None:
                receipt = delivery_receipt(original, to, now, self._stamp())
                self._post(receipt, to, recoverable=packet.is_recoverable)
        elif (request := services.commitment_receipt_request) is not None and reason in DECISIONS:
            receipt = commitment_receipt(original, request.send_to, reason, now, self._stamp())
            self._post(receipt, request.send_to, recoverable=packet.is_recoverable)

    def ended(self, packet: UserMessage, reason: MessageClass) -> None:
        """The final stream receipt of a message with DeadLetter: [MC-MQSRM] 3.1.7.3.3.

        Its address came with the first message of the stream; the message keeps it as its administration
        queue. It is recoverable, because nothing would make the other side ask for it again.
        """
        if not packet.flags & NEGATIVE_JOURNALING or reason not in DECISIONS:
            return
        to = decode_message(packet).administration_queue
        original = _envelope(packet)
        if not isinstance(to, DirectFormatName) or not to.is_http:
            return
        if original is not None and original.stream is not None:
            url = write_url(to)
            receipt = final_stream_receipt(original, url, reason, self._engine.seconds, self._stamp())
            self._engine.delivery.final_acks.post(self._packet(receipt, recoverable=True), to)

    def confirm(self, stream: IncomingStream) -> None:
        """A stream receipt: everything of the stream so far is stored.

        It may be lost, because the messages then come again and are confirmed again.
        """
        stream_id = StreamId(stream.sender, decode_tx_sequence_id(stream.sequence))
        via = write_url(DirectFormatName.from_wire(stream.name.removeprefix("DIRECT=")))
        receipt = stream_receipt(stream_id, stream.number, stream.answers_to, via, self._stamp())
        self._post(receipt, stream.answers_to, recoverable=False)

    def _stamp(self) -> Stamp:
        return Stamp(self._engine.numbering.new_message_id(), self._engine.seconds)

    def _post(self, receipt: Envelope, to: str, *, recoverable: bool) -> None:
        name = read_url(to)
        if not name.is_read_only:  # else no packet can name it; messages of 0.2 may still ask for that
            self._engine.delivery.post(self._packet(receipt, recoverable=recoverable), name)

    def _packet(self, receipt: Envelope, *, recoverable: bool) -> UserMessage:
        """The message that contains the request of a receipt."""
        message = read_message(read_srmp(write_srmp(receipt)), self._engine.seconds)
        if isinstance(message.response_queue, MulticastFormatName):  # the request names it, a packet cannot
            message.response_queue = None
        if recoverable:
            message.delivery = DeliveryGuarantee.RECOVERABLE
        return UserMessage(encode_message(message, over_http=True))


def _envelope(packet: UserMessage) -> Envelope | None:
    """None if it cannot be read: messages are also imported from files."""
    header = packet.other(SRMPEnvelopeHeader)
    assert header is not None
    try:
        return read_envelope(header.data.encode(errors="replace")).envelope
    except DecodeError:
        return None
