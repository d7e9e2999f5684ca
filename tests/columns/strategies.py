"""Stored records to draw: of packets of every kind, whole ones and such as nobody should ever store."""

from hypothesis import strategies as st

from tiercel.engine.records import Record
from tiercel.wire.base_header import BaseHeader
from tiercel.wire.message_properties_header import MessagePropertiesHeader
from tiercel.wire.security_header import SecurityHeader, encode_provider_info
from tiercel.wire.structure import Structure, encode_text
from tiercel.wire.user_message import UnknownTrailer, UserMessage
from wire import strategies as wire
from wire.packets import packet

# Mostly plain text, at times text of the whole world, and at times halves of characters, as Windows allows.
texts = (
    st.text(st.characters(max_codepoint=0x7F), max_size=12)
    | st.text(max_size=12)
    | st.text(st.characters(categories=["Cs", "So", "Lu"]), max_size=6)
)
providers = st.builds(encode_provider_info, wire.u32, texts) | wire.blobs
security_headers = st.builds(
    SecurityHeader.of,
    wire.u16,
    security_id=wire.blobs,
    encryption_key=wire.blobs,
    signature=wire.blobs,
    sender_cert=wire.blobs,
    provider_info=st.just(b"") | providers,
)


@st.composite
def properties_headers(draw: st.DrawFn) -> MessagePropertiesHeader:
    header = draw(wire.properties_headers())
    label = draw(texts)
    length = len(encode_text(label)) // 2 + 1
    return MessagePropertiesHeader(
        **{name: getattr(header, name) for name in header.__slots__}
        | {"label": label, "label_length": length}
    )


@st.composite
def plain_packets(draw: st.DrawFn) -> bytes:
    """Packets with none of the seldom headers, and at times with bytes behind the last one."""
    flags, before = 0, list[Structure]()
    for flag, strategy in ((1 << 20, wire.transaction_headers), (1 << 19, security_headers)):
        if draw(st.booleans()):
            flags |= flag
            before.append(draw(strategy))
    base = BaseHeader(flags=draw(wire.u16) & ~0x30, time_to_reach_queue=draw(wire.u32))
    properties = draw(wire.properties_headers() | properties_headers())
    trailer = UnknownTrailer(draw(st.just(b"") | wire.blobs))
    return UserMessage.build(base, draw(wire.user_headers(flags)), *before, properties, trailer).data


@st.composite
def broken_packets(draw: st.DrawFn) -> bytes:
    """Packets in which some bytes are others, or that are longer or shorter; most say their true size."""
    data = bytearray(draw(plain_packets() | wire.packets))
    for _ in range(draw(st.integers(1, 3))):
        data[draw(st.integers(0, len(data) - 1))] = draw(wire.u8)
    cut = draw(st.integers(0, len(data)) | st.just(len(data)))
    data = data[:cut] + draw(st.just(b"") | wire.blobs)
    if draw(st.booleans()):
        data[8:12] = len(data).to_bytes(4, "little")
    return bytes(data)


def records_of(
    packets: st.SearchStrategy[bytes],
    reasons: st.SearchStrategy[int] | None = None,
    verdicts: st.SearchStrategy[bytes] | None = None,
) -> st.SearchStrategy[bytes]:
    names = st.just("") | wire.names
    numbers = (wire.u32 | st.just(0) for _ in range(4))
    reasons = st.just(0) if reasons is None else reasons
    verdicts = st.just(b"") if verdicts is None else verdicts
    return st.builds(Record, packets, *numbers, names, st.booleans(), reasons, verdicts).map(Record.encode)


@st.composite
def broken_records(draw: st.DrawFn) -> bytes:
    data = bytearray(draw(records_of(plain_packets())))
    data[draw(st.integers(0, len(data) - 1))] ^= draw(st.integers(1, 255))
    return bytes(data[: draw(st.integers(0, len(data)) | st.just(len(data)))])


plain_records = records_of(plain_packets())
records = st.one_of(
    plain_records,
    plain_records,
    records_of(wire.packets),
    records_of(plain_packets(), wire.u16),
    records_of(plain_packets(), wire.u16, wire.blobs),
    records_of(broken_packets()),
    records_of(st.just(packet())),
    broken_records(),
    wire.blobs,
)
