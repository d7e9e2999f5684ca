"""A request that arrived: [MC-MQSRM] 3.1.5.1, in an order that loses nothing.

    1. malformed: 400; not from the address that the sender is pinned to: 403
    2. to another computer: passed on, or 400
    3. no such queue, or not of the kind that the message needs: 400
    4. a receipt for our streams: the messages that it confirms are complete
    5. of an unknown kind, or with a bad signature: dropped, 200
    6. a user message, or a receipt for an application: `engine.arrivals` drops duplicates, and refuses or
       takes the rest; 200, or 500 if there is no room or the clocks differ too much

A sender deletes its message on 400 as on 200, so 400 is for what can never be delivered (trap 13).
"""

from collections.abc import Callable
from http import HTTPStatus
from uuid import UUID

from tiercel.engine.arrivals import Fate, Place, Posted
from tiercel.engine.engine import Engine
from tiercel.engine.incoming_streams import DamagedStreamError
from tiercel.engine.queue_state import QueueState
from tiercel.message_security.refusal import MessageRefusedError
from tiercel.message_security.verdict import NOTHING, Verdict
from tiercel.message_security.xml_signature import SignedPart
from tiercel.model.codes import NEGATIVE
from tiercel.model.errors import DecodeError, InsufficientResourcesError, MqError, StoreFullError
from tiercel.srmp.context import Context
from tiercel.srmp.destinations import Destination, Destinations
from tiercel.srmp.envelope import FOREIGN_ID, Envelope
from tiercel.srmp.forwarding import forwarded, was_passed_on_by
from tiercel.srmp.http_request import HttpRequest
from tiercel.srmp.incoming_connection import Answer
from tiercel.srmp.kinds import Kind, kind_of
from tiercel.srmp.message import read_message
from tiercel.srmp.queue_urls import read_url
from tiercel.srmp.receipt_reader import ReceiptReader
from tiercel.srmp.request import SrmpRequest, read_srmp
from tiercel.srmp.stream_receipts import StreamReceipts
from tiercel.srmp.usual_message import Cut, UsualMessages, cut, senders_of
from tiercel.srmp.values import U32_MAX
from tiercel.wire.message import encode_message
from tiercel.wire.user_message import UserMessage

Refusal = Callable[[set[UUID], str], str]
_ACCEPTED = Answer(HTTPStatus.OK)
# After 200 the sender would go on with its stream, whose first message may expire in the meantime.
_TEMPORARY = (Fate.NO_ROOM, Fate.DOUBTED)  # tuples: members of enumerations are slow to hash
_RECEIPTS = (Kind.STREAM_RECEIPT, Kind.FINAL_STREAM_RECEIPT)


class Receiver:
    def __init__(
        self,
        context: Context,
        engine: Engine,
        receipts: ReceiptReader,
        stream_receipts: StreamReceipts,
        refusal: Refusal,
    ) -> None:
        self._context = context
        self._engine = engine
        self._destinations = Destinations(context, engine)
        self._usual = UsualMessages()
        self._receipts = receipts
        self._stream_receipts = stream_receipts
        self._refusal = refusal

    def receive(self, http: HttpRequest, address: str) -> Answer:
        """The answer to a request, which may leave after the commit."""
        if not self._engine.queue_manager.connection_active:
            return Answer(HTTPStatus.SERVICE_UNAVAILABLE, "the queue manager is offline")
        try:
            usual = _cut(http)
            if usual is not None and (answer := self._take_usual(usual, address)) is not None:
                return answer
            request = read_srmp(http)
            if reason := self._refusal(senders_of(request.envelope), address):
                return Answer(HTTPStatus.FORBIDDEN, reason)
            destination = self._destinations.find(request.envelope.path.to)
            if destination.problem:
                return Answer(HTTPStatus.BAD_REQUEST, destination.problem)
            if destination.is_foreign:
                return self._pass_on(request, destination)
            return self._take(request, destination, address, usual)
        except (InsufficientResourcesError, StoreFullError, DamagedStreamError) as problem:
            return Answer(HTTPStatus.INTERNAL_SERVER_ERROR, str(problem))
        except (DecodeError, MqError) as problem:
            return Answer(HTTPStatus.BAD_REQUEST, str(problem))

    def _take_usual(self, message: Cut, address: str) -> Answer | None:
        """The answer to a message of a known shape that nothing is wrong with; all else is for `receive`."""
        shape = self._usual.shape_of(message)
        if shape is None or self._is_expired(shape.envelope):
            return None
        destination, envelope = self._destinations.find(shape.envelope.path.to), shape.envelope
        queue = destination.queue
        if queue is None or queue.queue.transactional != (envelope.stream is not None):
            return None
        if self._refusal(shape.senders, address):
            return None
        place = self._place(envelope, destination, queue)
        return self._arrive(UserMessage(shape.packet(message)), queue, place, address)

    def _take(
        self, request: SrmpRequest, destination: Destination, address: str, usual: Cut | None
    ) -> Answer:
        envelope, queue = request.envelope, destination.queue
        if queue is not None and queue.queue.transactional != (envelope.stream is not None):
            wanted = "messages of streams" if queue.queue.transactional else "messages outside of streams"
            return Answer(HTTPStatus.BAD_REQUEST, f"{destination.name.path.local_name} takes only {wanted}")
        kind = kind_of(envelope)
        if kind in _RECEIPTS:
            self._receipts.read(envelope, kind, address)
            return _ACCEPTED
        if kind is Kind.UNKNOWN:
            self._drop(request, address, str(queue or destination.name), "its kind is unknown")
            return _ACCEPTED
        if queue is None:
            return Answer(HTTPStatus.BAD_REQUEST, "the order queue takes stream receipts only")
        if self._is_expired(envelope):
            self._drop(request, address, str(queue), "it arrived after its time")
            return _ACCEPTED
        return self._deliver(request, destination, queue, address, usual)

    def _deliver(
        self,
        request: SrmpRequest,
        destination: Destination,
        queue: QueueState,
        address: str,
        usual: Cut | None,
    ) -> Answer:
        envelope = request.envelope
        try:
            verdict = self._verdict(request)
        except MessageRefusedError as refusal:
            self._drop(request, address, str(queue), refusal.reason.meaning, refusal.why)
            return _ACCEPTED
        place = self._place(envelope, destination, queue)
        packet = self._packet(request, place)
        if usual is not None:
            self._usual.learn(usual, request, packet)
        has_id = envelope.path.id != FOREIGN_ID
        return self._arrive(packet, queue, place, address, has_id=has_id, verdict=verdict)

    def _arrive(
        self,
        packet: UserMessage,
        queue: QueueState,
        place: Place | None,
        address: str,
        *,
        has_id: bool = True,
        verdict: Verdict = NOTHING,
    ) -> Answer:
        posted = self._engine.arrivals.arrive_over_http(
            packet, queue, has_id=has_id, stream=place, verdict=verdict
        )
        self._note(posted, packet, queue, address)
        if place is not None and _is_stored(posted, packet, place):
            self._stream_receipts.arrived(place.stream)
        if posted.fate in _TEMPORARY:
            return Answer(HTTPStatus.INTERNAL_SERVER_ERROR, posted.reason)
        return _ACCEPTED

    def _verdict(self, request: SrmpRequest) -> Verdict:
        """Checking Message Signature: [MC-MQSRM] 3.1.5.1.6.1. That it is missing, the queue may refuse."""
        signature, msmq = request.envelope.signature, request.envelope.msmq
        settings = self._context.settings
        if signature is None or not settings.xml_signatures:
            return NOTHING
        signers = () if msmq is None else settings.signers.get(msmq.source_qm_guid, ())
        return self._engine.verifier.verify_xml(signature, _signed_parts(request), signers)

    def _packet(self, request: SrmpRequest, place: Place | None) -> UserMessage:
        receipts_to = "" if place is None else place.receipts_to or place.stream.answers_to
        message = read_message(request, self._engine.seconds)
        if receipts_to and message.negative_journaling:
            message.administration_queue = read_url(receipts_to)  # for its final receipt (SRMP-167)
        return UserMessage(encode_message(message, over_http=True))

    def _place(self, envelope: Envelope, destination: Destination, queue: QueueState) -> Place | None:
        """[MC-MQSRM] 3.1.5.1.6.3: only a first message with `start` begins a stream (SRMP-066, SRMP-126)."""
        stream = envelope.stream
        if stream is None:
            return None
        known = self._engine.arrivals.streams.of_sender(stream.stream_id.sender, queue, destination.name)
        begins = stream.current == 1 and stream.start is not None
        return Place(known, begins, stream.start if begins and stream.start is not None else "")

    def _note(self, posted: Posted, packet: UserMessage, queue: QueueState, address: str) -> None:
        """What is answered with 200 and not kept is told; a duplicate is kept."""
        if posted.fate is Fate.TAKEN and packet.message_class & NEGATIVE:
            self._engine.delivery.refused_elsewhere(packet)
        if posted.fate is Fate.REFUSED:
            self._context.dropped[posted.fate.value] += 1
            self._context.tell("dropped", address, queue, posted.reason)

    def _drop(self, request: SrmpRequest, address: str, queue: str, reason: str, detail: str = "") -> None:
        why = f"{reason}: {detail}" if detail else reason
        self._engine.ledger.add_sentence(queue, len(request.http.body), f"dropped: {why}")
        self._context.dropped[reason] += 1
        self._context.tell("dropped", address, queue, why)

    def _is_expired(self, envelope: Envelope) -> bool:
        """2.2.5.1.1 has receivers drop late messages, 3.1.5.1.4 does not: a switch decides (SRMP-053)."""
        if not self._context.settings.drop_expired:
            return False
        msmq = envelope.msmq
        return min(envelope.properties.expires_at, U32_MAX if msmq is None else msmq.ttrq) < (
            self._engine.seconds
        )

    def _pass_on(self, request: SrmpRequest, destination: Destination) -> Answer:
        """Store and forward: [MC-MQSRM] 3.1.5.1.3. The message stays as it is (SRMP-170)."""
        own = self._engine.queue_manager.identifier
        if was_passed_on_by(request.http, own):
            return Answer(HTTPStatus.BAD_REQUEST, "the message goes in a circle: see the Via header")
        packet = forwarded(request, destination.name, own, self._engine.seconds)
        queue = self._engine.queues.destination(destination.name)
        reason = self._engine.delivery.refusal(packet, queue)
        if reason is not None:  # late, or no room: its sender keeps it, until its time is over there, too
            return Answer(HTTPStatus.INTERNAL_SERVER_ERROR, reason.meaning)
        self._engine.delivery.arrive(packet, queue)
        return _ACCEPTED


def _signed_parts(request: SrmpRequest) -> list[SignedPart]:
    """The very parts that become the body and the extension of the message."""
    parts = (request.body, request.extension)
    return [SignedPart(part.content_id, part.content) for part in parts if part is not None]


def _cut(http: HttpRequest) -> Cut | None:
    content_type = http.head.header("Content-Type")
    if content_type is None:
        return None
    raw = http.encode()
    return cut(raw, len(raw) - len(http.body), content_type.encode("latin-1"))


def _is_stored(posted: Posted, packet: UserMessage, place: Place) -> bool:
    """Whether the message is stored, now or from an earlier request (SRMP-130)."""
    sequence, number = packet.sequence
    is_repeated = sequence == place.stream.sequence and number <= place.stream.number
    return posted.fate is Fate.TAKEN or (posted.fate is Fate.OUT_OF_ORDER and is_repeated)
