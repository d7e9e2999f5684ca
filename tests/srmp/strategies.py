"""Random messages and envelopes that SRMP can carry whole."""

from dataclasses import replace
from uuid import UUID

from hypothesis import strategies as st

from tiercel.message_security.xml_signature import SignedPart, make_signature
from tiercel.model.format_name import FormatName
from tiercel.model.identifiers import MessageId, TxSequenceId
from tiercel.model.limits import INFINITE
from tiercel.model.message import Message
from tiercel.srmp.envelope import (
    CommitmentReceipt,
    CommitmentReceiptRequest,
    Decision,
    DeliveryReceipt,
    Envelope,
    Eod,
    Msmq,
    Path,
    Properties,
    Provider,
    Services,
    Stream,
    StreamReceipt,
)
from tiercel.srmp.values import NO_LIMIT, StreamId

u32 = st.integers(0, 0xFFFF_FFFF)
ids = st.builds(MessageId, st.uuids(), u32)
dates = st.integers(0, NO_LIMIT - 1)
# Everything that XML 1.0 can have; the parser turns a bare CR into LF, so that one is written as a reference.
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\ufffe\uffff")).map(
    lambda text: "".join(each for each in text if each >= " " or each in "\t\n\r")
)
labels = texts.filter(lambda text: len(text.encode("utf-16-le")) <= 2 * 249)
urls = st.sampled_from(
    ["http://h/msmq/q", "https://H:8443/MSMQ/Private$/Q?Stream=Ab", "http://10.0.0.1/msmq/private%24/my%20q"]
)
names = urls | st.sampled_from(["MSMQ:DIRECT=OS:h\\private$\\q", "MSMQ:MULTICAST=234.1.1.1:8001"])
lists = st.lists(names, max_size=3).map(tuple)
stream_ids = st.builds(StreamId, st.uuids(), st.builds(TxSequenceId, u32, u32))


def optional(strategy: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.none() | strategy


streams = st.builds(
    Stream,
    stream_ids,
    st.integers(10, 0xFFFF_FFFF),
    optional(st.integers(0, 9)),
    optional(urls),
    st.sampled_from(["Stream", "stream"]),
)
parts = st.lists(st.builds(SignedPart, st.sampled_from(["body@a", "extension@a"]), st.binary()), max_size=2)
signatures = st.builds(make_signature, parts, st.binary(min_size=1, max_size=9))
msmqs = st.builds(
    Msmq,
    st.uuids(),
    dates,
    message_class=st.integers(0, 0xFFFF),
    priority=st.integers(0, 7),
    journal=st.booleans(),
    dead_letter=st.booleans(),
    correlation=st.binary(min_size=20, max_size=20),
    trace=st.booleans(),
    connector_type=optional(st.uuids()),
    app=u32,
    body_type=u32,
    hash_algorithm=u32,
    eod=optional(st.builds(Eod, st.booleans(), st.booleans(), optional(st.uuids()))),
    provider=optional(st.builds(Provider, u32, texts)),
    destination_mqf=lists,
    admin_mqf=lists,
    response_mqf=lists,
)
services = st.builds(
    Services,
    st.booleans(),
    optional(urls),
    optional(st.builds(CommitmentReceiptRequest, urls, st.booleans(), st.booleans())),
)
envelopes = st.builds(
    Envelope,
    st.builds(Path, labels.map("MSMQ:".__add__), urls, ids, st.just("") | names),
    st.builds(Properties, dates, optional(dates)),
    optional(services),
    optional(streams),
    optional(st.builds(DeliveryReceipt, dates, ids)),
    optional(st.builds(StreamReceipt, stream_ids, u32)),
    optional(st.builds(CommitmentReceipt, dates, st.sampled_from(Decision), ids)),
    msmqs,
    optional(signatures),
)


def direct(url: str) -> FormatName:
    return FormatName.parse(f"DIRECT={url}")


@st.composite
def messages(draw: st.DrawFn) -> Message:
    """A message with any properties that SRMP can carry."""
    sent_time = draw(st.integers(0, NO_LIMIT - 2))
    limits = st.integers(0, NO_LIMIT - 1 - sent_time) | st.just(INFINITE)
    message = Message(
        draw(st.binary(max_size=50)),
        extension=draw(st.binary(max_size=20)),
        label=draw(labels),
        destination_queue=direct(draw(urls)),
        response_queue=draw(
            st.none() | urls.map(direct) | st.just(FormatName.parse(r"DIRECT=OS:h\private$\q"))
        ),
        administration_queue=direct(draw(urls)),
        id=draw(ids),
        sent_time=sent_time,
        time_to_reach_queue=draw(limits),
        priority=draw(st.integers(0, 7)),
        delivery=draw(st.integers(0, 1)),
        acknowledgements=draw(st.sampled_from([1, 2, 3, 8, 9, 10, 11])),
        message_class=draw(st.integers(0, 0xFFFF)),
        body_type=draw(u32),
        application_tag=draw(u32),
        hash_algorithm=draw(u32),
        correlation_id=draw(st.binary(min_size=20, max_size=20)),
        positive_journaling=draw(st.booleans()),
        negative_journaling=draw(st.booleans()),
        tracing=draw(st.booleans()),
        connector_type=draw(st.uuids() | st.just(UUID(int=0))),
        connector_queue_manager=draw(st.uuids() | st.just(UUID(int=0))),
        first_in_transaction=draw(st.booleans()),
        last_in_transaction=draw(st.booleans()),
        authentication_provider_type=draw(u32),
        authentication_provider_name=draw(texts),
        destination_queues=tuple(map(direct, draw(st.lists(urls, max_size=3)))),
        administration_queues=tuple(map(direct, draw(st.lists(urls, max_size=3)))),
        response_queues=tuple(map(direct, draw(st.lists(urls, max_size=3)))),
        sender_id_type=0,
    )
    message.final_ack_required = bool(message.acknowledgements & 10)
    return draw(st.just(message) | _in_a_stream(message))


def _in_a_stream(message: Message) -> st.SearchStrategy[Message]:
    number = st.integers(1, 0xFFFF_FFFF)
    sequences = st.builds(TxSequenceId, u32, number)
    return st.builds(
        lambda sequence, first: replace(
            message,
            delivery=1,
            transaction_id=0,
            tx_sequence_id=sequence,
            tx_sequence_number=first,
            previous_tx_sequence_number=first - 1,
        ),
        sequences,
        number,
    )
