import struct

import pytest

from tiercel.model.errors import DecodeError
from tiercel.model.identifiers import NULL_GUID
from tiercel.model.sid import SecurityIdentifier
from tiercel.wire.base_header import BaseHeader
from tiercel.wire.debug_header import DebugHeader
from tiercel.wire.extension_headers import ExtendedAddressHeader, ExtensionHeader, SubqueueHeader
from tiercel.wire.message_properties_header import MessagePropertiesHeader
from tiercel.wire.multi_queue_format_header import MultiQueueFormatHeader
from tiercel.wire.queue_names import DirectQueueFormatName, PrivateQueueFormatNameId, PublicQueueFormatName
from tiercel.wire.security_header import SecurityHeader
from tiercel.wire.session_header import SessionHeader
from tiercel.wire.soap_header import CompoundMessageHeader, SoapHeader, SRMPEnvelopeHeader, TextSection
from tiercel.wire.transaction_header import TransactionHeader
from tiercel.wire.user_header import UserHeader
from tiercel.wire.user_message import UnknownTrailer, UserMessage, _direct_name

from .packets import (
    AH,
    CQ,
    GUID_A,
    GUID_C,
    HH,
    MQ,
    PLAIN,
    SESSION,
    SH,
    TH,
    TRANSACTIONAL,
    WIRE_C,
    aq,
    direct,
    dq,
    frame,
    from_hex,
    packet,
    properties,
    replaced,
    rq,
    transaction,
    user,
    utf16,
)
from .test_extension_headers import PLAIN_TRAILER
from .test_multi_queue_format_header import EMPTY, NO_SIGNATURE

SECURITY = from_hex("0100 0400 0000 0000 00000000 00000000 51525354")
DEBUG = from_hex(f"0100 0000 {WIRE_C}")
ENVELOPE = from_hex("9001 0000 02000000 65000000")
COMPOUND = from_hex("f401 0000 04000000 02000000 01000000") + b"POST"
SOAP = from_hex("2003 0000 02000000 68000000 8403 0000 02000000 62000000")
MULTI_QUEUE = from_hex(f"{EMPTY} {NO_SIGNATURE}")


def kinds(data: bytes) -> list[type]:
    headers = list(UserMessage(data).headers())
    assert b"".join(header.encode() for header in headers) == data
    return [type(header) for header in headers]


class TestUserMessageFrame:
    """[MS-MQQB] 4.1.7, frame 7; where prose and bytes disagree, the bytes (conformance/MS-MQQB.md 3.5)"""

    @pytest.mark.conformance("MQQB-240")
    def test_headers(self) -> None:
        message = UserMessage(frame(7))
        headers = list(message.headers())
        assert [len(header.encode()) for header in headers] == [16, 76, 44, 2088]
        assert [type(header) for header in headers] == [
            BaseHeader,
            UserHeader,
            SecurityHeader,
            MessagePropertiesHeader,
        ]
        assert b"".join(header.encode() for header in headers) == message.data == frame(7)

    @pytest.mark.conformance("MQQB-240")
    def test_base_and_user_header(self) -> None:
        message = UserMessage(frame(7))
        assert (message.packet_size, message.priority, message.time_to_reach_queue) == (2224, 3, 345_600)
        user = message.user
        assert user.source_queue_manager.bytes_le.hex() == "d1587355509195954997b6e611ea26c6"
        assert user.queue_manager_address == NULL_GUID
        assert user.time_to_be_received == 0xFFFFFFFF
        assert user.sent_time == 0x524F494C  # "LIOR", pasted over the time
        assert user.message_id == 2286
        assert user.flags == 0x00281C00
        assert user.destination_queue == DirectQueueFormatName(26, r"OS:a04bm02\q")
        assert (user.admin_queue, user.response_queue, user.connector_type) == (None, None, None)
        assert not message.is_recoverable
        assert not message.is_transactional

    @pytest.mark.conformance("MQQB-240")
    def test_security_header(self) -> None:
        header = UserMessage(frame(7)).security
        assert header is not None
        assert header.flags == 1
        sizes = (header.encryption_key_size, header.signature_size, header.sender_cert_size)
        assert (header.sender_id_size, *sizes, header.provider_info_size) == (28, 0, 0, 0, 0)
        sid = SecurityIdentifier.decode(header.security_id)
        assert str(sid) == "S-1-5-21-3181267629-1039849782-3663111779-1000"

    @pytest.mark.conformance("MQQB-240")
    def test_properties_header(self) -> None:
        header = UserMessage(frame(7)).properties
        assert (header.flags, header.label_length, header.message_class) == (0x0F, 15, 0)
        assert header.label == "mqsender label"
        assert header.correlation_id == bytes(20)
        assert (header.body_type, header.application_tag) == (8, 0)
        assert (header.message_size, header.allocation_body_size, header.extension_size) == (2000, 2000, 0)
        assert (header.privacy_level, header.hash_algorithm, header.encryption_algorithm) == (
            0,
            0x8004,
            0x6801,
        )
        assert len(header.message_body) == 2000
        assert frame(7)[0xDE:-2] == header.message_body
        assert frame(7)[-2:] == b"\0\0"  # 30 + 2000 bytes are two short of a multiple of 4


class TestOrderOfHeaders:
    """[MS-MQRR] 2.2.5.1, [MS-MQMQ] 2.2.20"""

    @pytest.mark.conformance("MQRR-033")
    @pytest.mark.parametrize(
        ("flags", "base_flags", "before", "after", "expected"),
        [
            (0, 3, [], [], []),
            (TH, 0, [transaction(number=7)], [], [TransactionHeader]),
            (SH, 3, [SECURITY], [], [SecurityHeader]),
            (TH | SH, 0, [transaction(), SECURITY], [], [TransactionHeader, SecurityHeader]),
            (0, 0x20, [], [DEBUG], [DebugHeader]),
            (AH, 3, [], [ENVELOPE, COMPOUND], [SRMPEnvelopeHeader, CompoundMessageHeader]),
            (HH, 3, [], [SOAP], [SoapHeader]),
            (MQ, 3, [], [MULTI_QUEUE], [MultiQueueFormatHeader]),
        ],
        ids=["none", "transaction", "security", "both", "debug", "SRMP", "SOAP", "multiple queues"],
    )
    def test_each_optional_header(
        self, flags: int, base_flags: int, before: list[bytes], after: list[bytes], expected: list[type]
    ) -> None:
        data = packet(user(flags), *before, properties(body=b"b"), *after, flags=base_flags)
        found = [
            kind for kind in kinds(data) if kind not in {BaseHeader, UserHeader, MessagePropertiesHeader}
        ]
        assert found == expected

    @pytest.mark.conformance("MQRR-033")
    def test_all_of_them(self) -> None:
        data = packet(
            user(TH | SH | AH | HH | MQ | CQ | dq(7), direct("OS:h\\q") + from_hex(WIRE_C)),
            transaction(),
            SECURITY,
            properties(label="l", body=b"b"),
            DEBUG,
            ENVELOPE,
            COMPOUND,
            SOAP,
            MULTI_QUEUE,
            flags=0x30,
            session=SESSION,
        )
        assert kinds(data) == [
            BaseHeader,
            UserHeader,
            TransactionHeader,
            SecurityHeader,
            MessagePropertiesHeader,
            DebugHeader,
            SRMPEnvelopeHeader,
            CompoundMessageHeader,
            SoapHeader,
            MultiQueueFormatHeader,
            SessionHeader,
        ]
        message = UserMessage(data)
        assert message.user.connector_type == GUID_C
        assert message.other(DebugHeader) == DebugHeader(1, 0, GUID_C)
        soap = message.other(SoapHeader)
        assert soap is not None
        assert (soap.header.data, soap.body.data) == ("h", "b")

    @pytest.mark.parametrize(
        ("headers", "expected"),
        [
            ((SOAP, MULTI_QUEUE), [SoapHeader, MultiQueueFormatHeader]),
            ((MULTI_QUEUE, SOAP), [MultiQueueFormatHeader, SoapHeader]),
        ],
        ids=["SOAP first", "multiple queues first"],
    )
    def test_soap_and_multiple_queues_in_either_order(
        self, headers: tuple[bytes, bytes], expected: list[type]
    ) -> None:
        assert kinds(packet(user(HH | MQ), properties(), *headers))[3:] == expected

    @pytest.mark.parametrize("length", [98, 99, 100])
    def test_a_soap_text_whose_length_looks_like_the_other_header(self, length: int) -> None:
        """99 characters and the NUL are 0x64, which is also the id of a list of destinations."""
        text = utf16("x" * length + "\0")
        section = from_hex("2003 0000") + struct.pack("<I", length + 1) + text + bytes(-len(text) % 4)
        data = packet(user(HH | MQ), properties(), section, from_hex("8403 0000 00000000"), MULTI_QUEUE)
        assert kinds(data)[3:] == [SoapHeader, MultiQueueFormatHeader]

    @pytest.mark.parametrize("size", [0, 1, 2, 3])
    def test_headers_after_an_odd_body_stand_on_a_boundary(self, size: int) -> None:
        data = packet(user(MQ), properties(body=b"x" * size, extension=b"e"), DEBUG, MULTI_QUEUE, flags=0x20)
        message = UserMessage(data)
        assert [type(header) for header in message.others] == [DebugHeader, MultiQueueFormatHeader]
        assert message.body == b"x" * size

    def test_a_flag_without_its_header_is_refused(self) -> None:
        for flags, base_flags in ((TH, 0), (SH, 3), (AH, 3), (HH, 3), (MQ, 3), (CQ, 3), (0, 0x20), (0, 0x10)):
            with pytest.raises(DecodeError):
                UserMessage(packet(user(flags), properties(), flags=base_flags))


class TestQueueNames:
    """[MS-MQMQ] 2.2.19.2; the kinds themselves are in test_user_header"""

    def test_three_names_in_their_order(self) -> None:
        names = direct("OS:h\\q") + from_hex("0a000000") + from_hex(WIRE_C)
        message = UserMessage(packet(user(dq(7) | aq(3) | rq(5), names), properties()))
        assert message.destination_queue == DirectQueueFormatName(14, "OS:h\\q")
        assert message.admin_queue == PrivateQueueFormatNameId(10)
        assert message.response_queue == PublicQueueFormatName(GUID_C)

    def test_a_very_long_direct_name(self) -> None:
        name = "OS:h\\" + "q" * 30000
        data = packet(user(dq(7), direct(name)), properties(body=b"after it"))
        assert UserMessage(data).destination_queue == DirectQueueFormatName.of(name)
        assert UserMessage(data).body == b"after it"

    def test_long_names_are_not_kept_in_memory(self) -> None:
        """A peer chooses the names: 1024 of 64 KiB would be 64 MiB."""
        before = _direct_name.cache_info().currsize
        for letter in "abc":
            UserMessage(packet(user(dq(7), direct(letter * 300)), properties()))
        assert _direct_name.cache_info().currsize == before

    @pytest.mark.parametrize("flags", [dq(1), dq(2), dq(4), dq(6), aq(1), aq(4)])
    def test_kinds_that_a_queue_cannot_have(self, flags: int) -> None:
        with pytest.raises(DecodeError, match="cannot be of kind"):
            UserMessage(packet(user(flags, bytes(20)), properties()))

    def test_the_same_name_in_two_messages_with_different_padding(self) -> None:
        other = replaced(direct("OS:h"), 10, b"\0\0")
        dirty = replaced(direct("OS:"), 10, b"\xcd\xcd")
        for name in (other, direct("OS:"), dirty, direct("OS:")):
            data = packet(user(dq(7), name), properties())
            assert b"".join(header.encode() for header in UserMessage(data).headers()) == data


class TestProperties:
    def test_what_routing_asks_for(self) -> None:
        data = packet(
            user(0x1D | 1 << 5, number=77, sent_time=88, time_to_be_received=99),
            properties(flags=0xF5, message_class=0x8002, body=b"12345"),
            flags=0x0107 | 0x20,
            time_to_reach_queue=60,
        )
        data = replaced(data + bytes(4), 8, (len(data) + 4).to_bytes(4, "little"))
        message = UserMessage(data)
        assert (message.hop_count, message.is_recoverable, message.is_transactional) == (0x1D, True, False)
        assert (message.id.lineage, message.id.uniquifier) == (GUID_A, 77)
        assert (message.sent_time, message.time_to_be_received, message.time_to_reach_queue) == (88, 99, 60)
        assert (message.acknowledgements, message.message_class, message.body_size) == (5, 0x8002, 5)
        assert (message.priority, message.base_flags) == (7, 0x127)

    def test_a_transactional_message_has_no_priority(self) -> None:
        data = packet(user(TH | 1 << 5), transaction(), properties(), flags=7)
        assert UserMessage(data).priority == 0

    def test_label_extension_and_body_are_cut_at_their_sizes(self) -> None:
        message = UserMessage(packet(user(), properties(label="lab", extension=b"ext", body=b"body!")))
        assert (message.label, message.extension, message.body) == ("lab", b"ext", b"body!")

    @pytest.mark.parametrize("length", [251, 255])
    def test_a_label_longer_than_249_characters_is_refused(self, length: int) -> None:
        with pytest.raises(DecodeError, match=f"label_length at byte 65: is {length}, at most 250"):
            UserMessage(packet(user(), properties(label="x" * (length - 1))))
        assert len(UserMessage(packet(user(), properties(label="x" * 249))).label) == 249

    def test_a_transactional_message_is_recoverable_whatever_dm_says(self) -> None:
        assert UserMessage(packet(user(TH), transaction(), properties())).is_recoverable
        assert not UserMessage(PLAIN).is_recoverable

    def test_a_label_without_its_nul_is_refused(self) -> None:
        data = packet(user(), replaced(properties(label="lab", body=b"body"), 62, b"x"))
        with pytest.raises(DecodeError, match="label at byte 120: is not NUL-terminated"):
            UserMessage(data)

    def test_an_encrypted_body_is_its_ciphertext(self) -> None:
        encrypted = replaced(SECURITY, 0, b"\x21")
        room = properties(body=b"12345", allocated=b"ciphertext")
        assert UserMessage(packet(user(SH), encrypted, room)).body == b"ciphertext"
        assert UserMessage(packet(user(SH), SECURITY, room)).body == b"ciphe"


class TestPacketSize:
    """[MS-MQMQ] 2.2.19.1 and MQQB T50"""

    @pytest.mark.conformance("MQRR-045")
    def test_session_header_outside_the_size(self) -> None:
        data = replaced(TRANSACTIONAL, 2, b"\x10") + SESSION
        message = UserMessage(data)
        assert (message.packet_size, len(data)) == (156, 172)
        assert message.session == SessionHeader(5, 3, 7, 4, 2, 64)
        assert message.trailer == b""
        assert kinds(data)[-1] is SessionHeader

    @pytest.mark.conformance("MQRR-045")
    def test_session_header_within_the_size(self) -> None:
        data = replaced(replaced(TRANSACTIONAL, 2, b"\x10"), 8, b"\xac") + SESSION
        message = UserMessage(data)
        assert (message.packet_size, len(data)) == (172, 172)
        assert message.session == SessionHeader(5, 3, 7, 4, 2, 64)
        assert kinds(data)[-1] is SessionHeader

    @pytest.mark.conformance("MQRR-045")
    def test_flag_and_session_header_that_disagree(self) -> None:
        with pytest.raises(DecodeError, match="packet_size at byte 8: is 156, the packet has 172 bytes"):
            UserMessage(TRANSACTIONAL + SESSION)
        with pytest.raises(DecodeError):
            UserMessage(replaced(TRANSACTIONAL, 2, b"\x10"))

    def test_no_flag_no_session_header(self) -> None:
        assert UserMessage(TRANSACTIONAL).session is None

    def test_largest_packet(self) -> None:
        body = bytes(0x00400000 - 16 - 48 - 56)
        assert UserMessage(packet(user(), properties(body=body))).body_size == len(body)
        with pytest.raises(DecodeError, match="allowed are 16 to 4194304"):
            UserMessage(packet(user(), properties(body=body + b"x")))


class TestTrailer:
    """[MS-MQRR] 2.2.5.2 to 2.2.5.5, and bytes that nobody knows"""

    def test_extension_headers(self) -> None:
        data = packet(user(), properties(body=b"b"), PLAIN_TRAILER)
        assert kinds(data)[3:] == [ExtensionHeader, SubqueueHeader, ExtendedAddressHeader]
        assert UserMessage(data).trailer == PLAIN_TRAILER

    @pytest.mark.conformance("MQRR-046")
    def test_none_at_all(self) -> None:
        assert kinds(PLAIN) == [BaseHeader, UserHeader, MessagePropertiesHeader]
        assert UserMessage(PLAIN).trailer == b""

    @pytest.mark.parametrize(
        "trailer",
        [b"\0", b"unknown!", b"\x0c\0\0\0", b"\x0c\0\0\0" + b"\xff" * 8, PLAIN_TRAILER[:-1]],
        ids=lambda trailer: f"{len(trailer)} bytes",
    )
    def test_unknown_bytes_are_kept(self, trailer: bytes) -> None:
        data = packet(user(), properties(), trailer)
        assert kinds(data)[3:] == [UnknownTrailer]
        assert UserMessage(data).trailer == trailer

    def test_unknown_bytes_after_the_extension_headers(self) -> None:
        data = packet(user(), properties(), PLAIN_TRAILER, b"more")
        assert kinds(data)[-2:] == [ExtendedAddressHeader, UnknownTrailer]

    def test_before_the_session_header(self) -> None:
        data = packet(user(), properties(), PLAIN_TRAILER, flags=0x10, session=SESSION)
        assert kinds(data)[-2:] == [ExtendedAddressHeader, SessionHeader]


class TestBuild:
    def test_packet_size_is_set(self) -> None:
        message = UserMessage.build(BaseHeader(), UserHeader(), MessagePropertiesHeader())
        assert message.data == packet(
            user(source=bytes(16).hex()), bytes(56), flags=0, time_to_reach_queue=0xFFFFFFFF
        )

    def test_packet_size_leaves_the_session_header_out(self) -> None:
        headers = (BaseHeader(flags=0x10), UserHeader(), MessagePropertiesHeader(), SessionHeader())
        message = UserMessage.build(*headers)
        assert (message.packet_size, len(message.data)) == (120, 136)

    def test_soap_is_written_as_given(self) -> None:
        flags = UserHeader(flags=1 << 21 | HH)
        soap = SoapHeader(TextSection.of(0x320, "h"), TextSection.of(0x384, "b"))
        assert UserMessage.build(BaseHeader(), flags, MessagePropertiesHeader(), soap).data.endswith(SOAP)

    def test_begins_with_a_base_header(self) -> None:
        with pytest.raises(TypeError, match="a packet must start with a BaseHeader, not with UserHeader"):
            UserMessage.build(UserHeader())


def test_helpers_build_what_the_specification_says() -> None:
    """The hand-made packets of this folder against frame 7, which nobody here made."""
    names = direct(r"OS:a04bm02\q")
    sid = frame(7)[0x6C:0x88]
    header = struct.pack("<HHHHII", 1, 28, 0, 0, 0, 0) + sid
    body = frame(7)[0xDE : 0xDE + 2000]
    props = properties(flags=0x0F, label="mqsender label", body=body)
    fixed = user(dq(7) | SH, names, source=frame(7)[16:32].hex(), sent_time=0x524F494C, number=2286)
    built = packet(fixed, header, replaced(props, 24, b"\x08"), time_to_reach_queue=345_600)
    assert built == frame(7)
    assert utf16("q") == b"q\0"
