"""[MS-MQRR] 2.2.5 and 2.2.6: the served packet, its sections, and the message that a reader makes of them."""

import contextlib
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiercel.engine.records import Record
from tiercel.model.codes import QueueFormatType, SectionType
from tiercel.model.errors import DecodeError
from tiercel.model.format_name import FormatName
from tiercel.model.identifiers import MessageId
from tiercel.model.limits import INFINITE
from tiercel.model.message import Message
from tiercel.remote_read.packet import RemoteMessage, Section, rebuild, serve, split
from tiercel.wire.extension_headers import DeadLetterHeader, SubqueueHeader
from tiercel.wire.message import encode_message
from tiercel.wire.soap_header import CompoundMessageHeader, SRMPEnvelopeHeader
from tiercel.wire.user_message import UserMessage
from wire import packets

SENT = 1_700_000_000
SENDER = UUID(int=0xBEEF)
DIRECT = FormatName.parse(r"DIRECT=OS:srv\private$\q")
PUBLIC = FormatName.parse(f"PUBLIC={UUID(int=7)}")
PRIVATE = FormatName.parse(f"PRIVATE={UUID(int=8)}\\00000009")
NOTHING = Record(b"", 0)
FULL, FIRST, SECOND = (
    SectionType.FULL_PACKET,
    SectionType.BINARY_FIRST_SECTION,
    SectionType.BINARY_SECOND_SECTION,
)

# "Trailer of a plain message" in conformance/MS-MQRR.md.
PLAIN_TRAILER = bytes.fromhex(
    f"0C000000 B0000000 12 000000 94000000 {bytes(144).hex()} 1C000000 {bytes(24).hex()}"
)


def stored(body: bytes = b"body", **properties: Any) -> UserMessage:
    properties.setdefault("destination_queue", DIRECT)
    message = Message(body, id=MessageId(SENDER, 5), sent_time=SENT, **properties)
    return UserMessage(encode_message(message))


def compound(data: bytes, *, debug: bool = False) -> UserMessage:
    """An SRMP message: it came over HTTP, and has both headers (2.2.5.1.2)."""
    size = len(data)
    headers = (
        packets.user(packets.dq(QueueFormatType.DIRECT) | packets.AH, packets.direct(r"OS:srv\private$\q")),
        packets.properties(label="soap", body=b"ignored"),
        *([bytes.fromhex("0000 0000")] if debug else []),
        SRMPEnvelopeHeader.of(1, "<Envelope/>").encode(),
        CompoundMessageHeader(2, 0, size, size - 4, 4, data).encode(),
    )
    return UserMessage(packets.packet(*headers, flags=0x23 if debug else 3))


def only_changed(before: bytes, after: bytes, *allowed: slice) -> bool:
    first, second = bytearray(before), bytearray(after)
    for part in allowed:
        first[part] = second[part] = bytes(len(first[part]))
    return first == second


class TestServedPacket:
    @pytest.mark.conformance("MQRR-032")
    def test_a_plain_message_has_188_bytes_more(self) -> None:
        packet = stored()
        served = serve(packet, NOTHING)
        assert served[len(packet.data) :] == PLAIN_TRAILER
        assert len(PLAIN_TRAILER) == 188
        assert UserMessage(served).packet_size == len(served)

    @pytest.mark.conformance("MQRR-032", "MQRR-043")
    @pytest.mark.parametrize("queue", [r"srv\private$\dead", r"srv\private$\deads"], ids=["odd", "even"])
    def test_with_a_dead_letter_queue_its_header_more(self, queue: str) -> None:
        packet = stored()
        served = serve(packet, Record(b"", 0, dead_letter_queue=queue))
        size = DeadLetterHeader.of(queue).header_size
        assert size % 4 == 0
        assert len(served) == len(packet.data) + 188 + size
        assert served[len(packet.data) :][4:9] == (176 + size).to_bytes(4, "little") + b"\x13"
        assert rebuild(split(served, INFINITE, INFINITE)).dead_letter_queue == queue

    @pytest.mark.conformance("MQRR-033", "MQRR-036")
    def test_the_message_itself_is_as_it_was_stored(self) -> None:
        for packet in (stored(label="a", extension=b"e" * 3), compound(b"HTTPbody"), stored(b"")):
            served = serve(packet, NOTHING)
            size, time = slice(8, 12), slice(12, 16)
            assert only_changed(packet.data, served[: len(packet.data)], size, time)
            assert rebuild(split(served, INFINITE, INFINITE)).packet.data == packet.data

    @pytest.mark.conformance("MQRR-034")
    @pytest.mark.parametrize(
        ("stored_time", "served_time"),
        [(60, SENT + 60), (0, SENT), (INFINITE, INFINITE), (INFINITE - SENT, INFINITE)],
    )
    def test_the_time_to_reach_the_queue_is_absolute(self, stored_time: int, served_time: int) -> None:
        """MQRR trap 18: infinite stays so."""
        packet = stored(time_to_reach_queue=stored_time)
        served = serve(packet, NOTHING)
        assert UserMessage(served).time_to_reach_queue == served_time
        assert packet.time_to_reach_queue == stored_time
        again = rebuild(split(served, INFINITE, INFINITE)).packet
        assert again.time_to_reach_queue == (INFINITE if served_time == INFINITE else stored_time)

    @pytest.mark.conformance("MQRR-035", "MQRR-044")
    @pytest.mark.parametrize(
        ("address", "overlay", "extended"),
        [
            ("192.0.2.7", "0400 0100 00000000 C0000207 00000000", "0400 0100 00000000 C0000207"),
            (
                "fe80::1%3",
                "1000 0600 03000000 FE80000000000000",
                "1000 0600 03000000 FE800000000000000000000000000001",
            ),
            ("", "", ""),
        ],
    )
    def test_where_a_message_to_a_direct_name_came_from(
        self, address: str, overlay: str, extended: str
    ) -> None:
        served = serve(stored(), NOTHING, address=address)
        assert served[32:48] == bytes.fromhex(overlay).ljust(16, b"\0")
        assert served[-28:] == b"\x1c\0\0\0" + bytes.fromhex(extended).ljust(24, b"\0")
        again = rebuild(split(served, INFINITE, INFINITE))
        assert again.sender_address == address
        assert again.packet.data == stored().data

    @pytest.mark.conformance("MQRR-035")
    def test_of_another_name_the_sender_is_told(self) -> None:
        served = serve(stored(destination_queue=PUBLIC), NOTHING, address="192.0.2.7")
        assert UserMessage(served).queue_manager_address == SENDER
        assert served[-28:-12] == bytes.fromhex("1C000000 0400 0100 00000000 C0000207")

    @pytest.mark.parametrize("admin", [False, True])
    def test_the_number_of_a_private_queue_keeps_its_host(self, admin: bool) -> None:
        names: dict[str, Any] = {"destination_queue": PRIVATE}
        if admin:
            names = {"destination_queue": PRIVATE, "administration_queue": PRIVATE}
        packet = stored(**names)
        assert UserMessage(serve(packet, NOTHING)).queue_manager_address == packet.queue_manager_address

    def test_headers_of_an_earlier_journey_are_not_passed_on(self) -> None:
        packet = stored()
        arrived = UserMessage(serve(packet, Record(b"", 0, abort_count=9)))
        assert arrived.trailer
        again = rebuild(split(serve(arrived, NOTHING), INFINITE, INFINITE))
        assert again.subqueue == SubqueueHeader()

    @pytest.mark.conformance("MQRR-041")
    def test_what_became_of_it_here(self) -> None:
        record = Record(b"", 0, abort_count=3, move_count=2, last_move_time=SENT + 9)
        header = rebuild(split(serve(stored(), record, subqueue="p" * 32), INFINITE, INFINITE)).subqueue
        assert (header.abort_counter, header.move_counter, header.last_move_time) == (3, 2, SENT + 9)
        assert (header.subqueue, header.target_subqueue) == ("p" * 32, "")


class TestSectionBuffer:
    @pytest.mark.conformance("MQRR-083", "MQRR-031")
    @pytest.mark.parametrize("limit", [1000, 1001, INFINITE])
    def test_a_body_within_the_limit_comes_in_one_section(self, limit: int) -> None:
        served = serve(stored(bytes(1000)), NOTHING)
        assert split(served, limit, 0) == (Section(FULL, len(served), served),)

    @pytest.mark.conformance("MQRR-084", "MQRR-082")
    @pytest.mark.parametrize("limit", [0, 1, 100, 999])
    def test_a_longer_one_is_cut(self, limit: int) -> None:
        body = bytes(range(250)) * 4
        served = serve(stored(body), NOTHING)
        at = served.index(body)
        first, second = split(served, limit, INFINITE)
        assert (first.type, first.size_alloc, first.data) == (FIRST, at + 1000, served[: at + limit])
        assert (second.type, second.size_alloc, second.data) == (SECOND, 188, PLAIN_TRAILER)

    @pytest.mark.conformance("MQRR-085")
    def test_what_follows_the_body_is_the_second_section_if_there_is_anything(self) -> None:
        packet = stored(bytes(10), destination_queues=(DIRECT, PUBLIC))
        between = b"".join(header.encode() for header in packet.others)
        assert between
        assert split(serve(packet, NOTHING), 5, 0)[1].data == between + PLAIN_TRAILER
        assert [section.type for section in split(stored(bytes(10)).data, 5, 0)] == [FIRST]

    def test_an_encrypted_body_is_all_that_is_reserved_for_it(self) -> None:
        """MQRR trap 22: and of another, what is reserved beyond it is no part of it."""
        room = packets.properties(body=b"12345", allocated=b"ciphertext")
        for security, size in ((0x21, 10), (0x01, 5)):
            header = security.to_bytes(2, "little") + bytes(14)
            data = packets.packet(packets.user(packets.SH), header, room)
            served = serve(UserMessage(data), NOTHING)
            assert [each.type for each in split(served, size, 0)] == [FULL]
            first, second = split(served, size - 1, 0)
            assert first.data.endswith(b"ciphertext"[: size - 1])
            assert (first.size_alloc, second.data) == (len(data), PLAIN_TRAILER)
            assert rebuild((first, second)).body_size == size

    @pytest.mark.conformance("MQRR-082")
    @pytest.mark.parametrize("debug", [False, True])
    def test_each_kind_has_a_limit_of_its_own(self, debug: bool) -> None:
        served = serve(compound(b"POSTbody of a message", debug=debug), NOTHING)
        assert [section.type for section in split(served, 0, 21)] == [FULL]
        first, second = split(served, INFINITE, 6)
        assert (first.type, second.type) == (SectionType.SRMP_FIRST_SECTION, SectionType.SRMP_SECOND_SECTION)
        assert first.data.endswith(b"POSTbo")
        assert first.size_alloc - len(first.data) == 21 - 6 + 3  # and the padding
        assert second.data == PLAIN_TRAILER

    @pytest.mark.conformance("MQRR-030", "MQRR-031", "MQRR-140")
    @given(
        size=st.integers(0, 300),
        limit=st.integers(0, 400),
        label=st.text(st.characters(codec="ascii", exclude_characters="\0"), max_size=9),
        extension=st.binary(max_size=9),
    )
    def test_whatever_the_sizes(self, size: int, limit: int, label: str, extension: bytes) -> None:
        body = bytes(each % 255 + 1 for each in range(size))
        packet = stored(body, label=label, extension=extension)
        sections = split(serve(packet, NOTHING), limit, 0)
        assert [each.type for each in sections] == ([FULL] if limit >= size else [FIRST, SECOND])
        if limit < size:
            first = sections[0]
            assert first.size_alloc % 4 == 0  # MQRR trap 22
            assert 0 <= first.size_alloc - len(first.data) - (size - limit) < 4
        assert all(each.size_alloc == len(each.data) for each in sections if each.type != FIRST)
        again = rebuild(sections)
        assert again.body_size == again.packet.body_size == size
        assert again.is_complete == (limit >= size)
        assert again.packet.body == body[:limit].ljust(size, b"\0")
        assert (again.packet.label, again.packet.extension) == (label, extension)


class TestRebuilding:
    """2.2.6, 3.2.4.3 and 3.2.4.4."""

    @pytest.fixture
    def cut(self) -> tuple[Section, ...]:
        return split(serve(stored(bytes(1000)), Record(b"", 0, abort_count=4)), 100, 0)

    @pytest.mark.conformance("MQRR-140")
    def test_headers_after_the_body_are_read_and_the_body_is_known_to_be_cut(
        self, cut: tuple[Section, ...]
    ) -> None:
        again = rebuild(cut)
        assert (again.body_received, again.body_size, again.is_complete) == (100, 1000, False)
        assert again.subqueue.abort_counter == 4

    def test_a_server_that_does_not_count_the_padding(self) -> None:
        """MQRR trap 22"""
        first, second = split(serve(stored(bytes(998)), Record(b"", 0, abort_count=4)), 100, 0)
        assert rebuild((first._replace(size_alloc=first.size_alloc - 2), second)).subqueue.abort_counter == 4

    def test_a_packet_size_without_the_headers_that_follow(self) -> None:
        packet = stored()
        served = bytearray(serve(packet, Record(b"", 0, abort_count=4)))
        served[8:12] = len(packet.data).to_bytes(4, "little")
        again = rebuild((Section(FULL, len(served), bytes(served)),))
        assert (again.packet.data, again.subqueue.abort_counter) == (packet.data, 4)

    @pytest.mark.conformance("MQRR-046")
    def test_a_server_without_the_headers_that_follow(self) -> None:
        packet = stored(time_to_reach_queue=INFINITE)
        again = rebuild((Section(FULL, len(packet.data), packet.data),))
        assert again == RemoteMessage(again.packet, 4, 4)
        assert again.packet.data == packet.data

    def test_the_short_address_of_such_a_server(self) -> None:
        packet = stored(time_to_reach_queue=INFINITE)
        served = bytearray(packet.data)
        served[32:48] = bytes.fromhex("0400 0100 00000000 C0000207 00000000")
        again = rebuild((Section(FULL, len(served), bytes(served)),))
        assert (again.sender_address, again.packet.data) == ("192.0.2.7", packet.data)

    def test_no_sections_and_three(self, cut: tuple[Section, ...]) -> None:
        for sections in ((), (*cut, cut[1]), (cut[1],), (cut[1], cut[0]), (cut[0], cut[0])):
            with pytest.raises(DecodeError, match="SectionBufferType"):
                rebuild(sections)

    def test_sizes_that_cannot_be(self, cut: tuple[Section, ...]) -> None:
        first, second = cut
        less = first._replace(size_alloc=len(first.data) - 1)
        for sections in ((less, second), (first, second._replace(size_alloc=189))):
            with pytest.raises(DecodeError, match="SectionSizeAlloc"):
                rebuild(sections)
        served = serve(stored(), NOTHING)
        with pytest.raises(DecodeError, match="SectionSizeAlloc"):
            rebuild((Section(FULL, len(served) + 1, served),))

    def test_more_body_than_there_is(self, cut: tuple[Section, ...]) -> None:
        first, second = cut
        longer = Section(FIRST, 5000, first.data + bytes(901))
        with pytest.raises(DecodeError, match="SectionSize"):
            rebuild((longer, second))

    def test_a_body_that_nobody_can_hold(self, cut: tuple[Section, ...]) -> None:
        first, second = cut
        huge = bytearray(first.data)
        at = huge.index((1000).to_bytes(4, "little") * 2)  # MessageSize and AllocationBodySize
        huge[at : at + 8] = (1 << 30).to_bytes(4, "little") * 2
        with pytest.raises(DecodeError, match="SectionSize"):
            rebuild((Section(FIRST, 1 << 31, bytes(huge)), second))

    @pytest.mark.conformance("MQRR-036")
    def test_a_kind_that_the_message_is_not(self, cut: tuple[Section, ...]) -> None:
        first, second = cut
        wrong = (
            first._replace(type=SectionType.SRMP_FIRST_SECTION),
            second._replace(type=SectionType.SRMP_SECOND_SECTION),
        )
        with pytest.raises(DecodeError, match="does not match the kind"):
            rebuild(wrong)
        claims_http = bytearray(serve(stored(), NOTHING))
        claims_http[63] |= 0x02
        with pytest.raises(DecodeError):
            rebuild((Section(FULL, len(claims_http), bytes(claims_http)),))

    @given(st.data())
    def test_damage_is_that_error_or_none(self, data: st.DataObject) -> None:
        first, second = split(serve(stored(bytes(40)), NOTHING), 10, 0)
        damaged = bytearray(first.data)
        damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= data.draw(st.integers(1, 255))
        trailer = bytearray(second.data)
        trailer[data.draw(st.integers(0, len(trailer) - 1))] ^= data.draw(st.integers(0, 255))
        with contextlib.suppress(DecodeError):
            rebuild((first._replace(data=bytes(damaged)), second._replace(data=bytes(trailer))))
