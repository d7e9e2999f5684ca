"""The requests that carry our messages away: [MC-MQSRM] 3.1.7.2.4."""

from copy import copy
from dataclasses import replace

from tiercel.engine.engine import Engine
from tiercel.engine.taken import Taken
from tiercel.message_security.xml_signature import XmlSignature, make_signature, parts_of
from tiercel.model.format_name import DirectFormatName, DirectProtocol
from tiercel.model.identifiers import NULL_GUID
from tiercel.model.message import Message
from tiercel.srmp.context import Context
from tiercel.srmp.http_request import HttpRequest
from tiercel.srmp.message import envelope_of, read_message
from tiercel.srmp.queue_urls import write_url
from tiercel.srmp.receipt_tokens import ReceiptTokens
from tiercel.srmp.request import read_srmp, write_srmp
from tiercel.srmp.usual_request import UsualRequests
from tiercel.wire.message import decode_message, encode_message
from tiercel.wire.soap_header import CompoundMessageHeader

_RECEIPTS_PATH = "/MSMQ/PRIVATE$/order_queue$"
# The id, the place in a stream, the token of its receipts, the parts of the body and the extension.
_NOT_YET_KNOWN_BYTES = 4096


def no_listener(name: DirectFormatName) -> str:
    """Why messages of a stream cannot go to `name` (SRMP-022)."""
    scheme = name.protocol.lower()
    return f"the receipts of a stream come over {scheme}, and there is no {scheme} listener here"


class RequestWriter:
    def __init__(self, context: Context, engine: Engine, tokens: ReceiptTokens) -> None:
        self._context = context
        self._identifier = engine.queue_manager.identifier
        self._tokens = tokens
        self._usual = UsualRequests(self._write)

    def write(self, taken: Taken, previous: int) -> bytes:
        """The request of a message; `previous` is the number before it in its stream.

        The same at every attempt but for `previous`: id, sentAt and number stay (SRMP-044, SRMP-154).
        """
        if (stored := taken.packet.other(CompoundMessageHeader)) is not None:
            return stored.data  # a receipt, or a message that is passed on
        place = (taken.number, previous) if taken.number else None
        if (usual := self._usual.write(taken.packet, place)) is not None:
            return usual
        message = decode_message(taken.packet)
        name, receipts_url = message.destination_queue, ""
        assert isinstance(name, DirectFormatName)
        if taken.number:
            message.previous_tx_sequence_number = previous
            if taken.number == 1:
                receipts_url = self.receipts_url(name, taken.sequence)
        signature = None
        if message.signature and message.connector_type == NULL_GUID:  # a connector's is not XML
            signature = make_signature(parts_of(taken.packet), message.signature)
        return self._write(message, receipts_url, signature)

    def stored_size(self, message: Message) -> int:
        """At most the size of the packet in which a receiver keeps a message that is about to be sent."""
        name, bare = message.destination_queue, copy(message)
        assert isinstance(name, DirectFormatName)
        bare.body = bare.extension = b""
        request = self._request(bare, self.receipts_base(name) if message.is_transactional else "")
        received = encode_message(read_message(read_srmp(request), 0), over_http=True)
        return len(received) + _NOT_YET_KNOWN_BYTES + len(message.body) + 2 * len(message.extension)

    def _write(
        self, message: Message, receipts_url: str = "", signature: XmlSignature | None = None
    ) -> bytes:
        return self._request(message, receipts_url, signature).encode()

    def _request(
        self, message: Message, receipts_url: str = "", signature: XmlSignature | None = None
    ) -> HttpRequest:
        envelope = envelope_of(message, stream_sender=self._identifier, receipts_url=receipts_url)
        return write_srmp(
            envelope if signature is None else replace(envelope, signature=signature),
            message.body or None,
            message.extension or None,
            content_guid=self._identifier,
            boundary=message.id.uniquifier,
        )

    def receipts_url(self, name: DirectFormatName, sequence: int) -> str:
        """`sendReceiptsTo` for a stream to `name`, with its token."""
        return self._tokens.added_to(self.receipts_base(name), sequence)

    def receipts_base(self, name: DirectFormatName) -> str:
        """Where receipts for `name` come: the replacement for its URL (SRMP-070), or our order queue.

        The scheme is that of the destination; empty if there is no listener for it (SRMP-022, SRMP-069).
        """
        settings = self._context.settings
        base = settings.https_url if name.protocol is DirectProtocol.HTTPS else settings.http_url
        own = base and base.rstrip("/") + _RECEIPTS_PATH
        return self._context.redirections.current.receipts_url(write_url(name), own)
