"""Header presence, flag bits and constants of [MS-MQDMPR] 3.1.7.1.30 to 3.1.7.1.32, one by one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiercel.model.codes import (
    AuthenticationLevel,
    EncryptionAlgorithm,
    HashAlgorithm,
    MessageClass,
    PrivacyLevel,
    SenderIdType,
)
from tiercel.model.format_name import DirectFormatName, FormatName, PrivateFormatName, PublicFormatName
from tiercel.model.identifiers import MessageId
from tiercel.model.message import Message
from tiercel.wire.message import decode_message, encode_message
from tiercel.wire.user_message import UserMessage

from .packets import GUID_A, GUID_B, GUID_C, SH, packet, properties, replaced, user
from .strategies import exactly, texts, u32

QUEUE = DirectFormatName.from_wire(r"OS:h\private$\q")

# The constants of the specification, typed by hand; T-14 and T-17 put right.
CLASSES = {
    "NORMAL": 0x0000,
    "REPORT": 0x0001,
    "ACK_REACH_QUEUE": 0x0002,
    "ORDER_ACK": 0x00FF,
    "ACK_RECEIVE": 0x4000,
    "NACK_BAD_DST_Q": 0x8000,
    "NACK_DELETED": 0x8001,
    "NACK_REACH_QUEUE_TIMEOUT": 0x8002,
    "NACK_Q_EXCEED_QUOTA": 0x8003,
    "NACK_ACCESS_DENIED": 0x8004,
    "NACK_HOP_COUNT_EXCEEDED": 0x8005,
    "NACK_BAD_SIGNATURE": 0x8006,
    "NACK_BAD_ENCRYPTION": 0x8007,
    "NACK_COULD_NOT_ENCRYPT": 0x8008,
    "NACK_NOT_TRANSACTIONAL_Q": 0x8009,
    "NACK_NOT_TRANSACTIONAL_MSG": 0x800A,
    "NACK_UNSUPPORTED_CRYPTO_PROVIDER": 0x800B,
    "NACK_SOURCE_COMPUTER_GUID_CHANGED": 0x800C,
    "NACK_Q_DELETED": 0xC000,
    "NACK_Q_PURGED": 0xC001,
    "NACK_RECEIVE_TIMEOUT": 0xC002,
    "NACK_RECEIVE_TIMEOUT_AT_SENDER": 0xC003,
    "NACK_RECEIVE_REJECTED": 0xC004,
}
PRIVACY_LEVELS = {"NONE": 0, "BASE": 1, "ENHANCED": 3, "ADVANCED": 5}
ENCRYPTION = {"RC2": 0x6602, "RC4": 0x6801, "AES256": 0x6610, "AES128": 0x660E, "AES192": 0x660F}
HASHES = {"MD2": 0x8001, "MD4": 0x8002, "MD5": 0x8003, "SHA1": 0x8004, "SHA_256": 0x800C, "SHA_512": 0x800E}


def sent(**attributes: object) -> UserMessage:
    """The packet of a message with these attributes."""
    message = Message(b"body", destination_queue=QUEUE)
    for name, value in attributes.items():
        setattr(message, name, value)
    return UserMessage(encode_message(message))


def user_flag(message: UserMessage, bit: int) -> int:
    return int.from_bytes(message.data[60:64], "little") >> bit & 1


def base_flags(message: UserMessage) -> int:
    return int.from_bytes(message.data[2:4], "little")


class TestConstructAUserMessagePacket:
    """[MS-MQDMPR] 3.1.7.1.30"""

    @pytest.mark.conformance("DMPR-235")
    def test_transaction_header(self) -> None:
        plain, transactional = sent(), sent(transaction_id=0)
        assert (user_flag(plain, 20), plain.transaction) == (0, None)
        assert user_flag(transactional, 20) == 1
        assert len(transactional.data) == len(plain.data) + 20
        assert transactional.data[108:128] == bytes(20)

    @pytest.mark.conformance("DMPR-236")
    @pytest.mark.parametrize(
        "attributes",
        [
            {"signature": b"s"},
            {"sender_id": b"s"},
            {"sender_certificate": b"c"},
            {"symmetric_key": b"k"},
            {"privacy_level": 1},
            {"authentication_provider_name": "CSP"},
        ],
        ids=lambda attributes: next(iter(attributes)),
    )
    def test_security_header_for_each_thing_in_it(self, attributes: dict[str, object]) -> None:
        message = sent(**attributes)
        assert user_flag(message, 19) == 1
        assert message.security is not None
        assert user_flag(sent(), 19) == 0

    @pytest.mark.conformance("DMPR-236")
    def test_debug_header_in_the_base_header(self) -> None:
        """DMPR T-16: the flag is the BaseHeader's."""
        message = sent(tracing=True, tracing_queue=GUID_A)
        assert base_flags(message) == 0x0100 | 0x0020 | 3
        assert message.data[-20:-16].hex() == "01000000"
        assert message.data[-16:] == GUID_A.bytes_le
        assert sent(tracing=True).data[-4:].hex() == "00000000"
        assert base_flags(sent()) == 3

    @pytest.mark.conformance("DMPR-236")
    @pytest.mark.parametrize(
        "attributes",
        [
            {"destination_queues": (QUEUE,)},
            {"administration_queues": (QUEUE,)},
            {"response_queues": (QUEUE,)},
            {"multiple_destination_signature": b"s"},
        ],
        ids=lambda attributes: next(iter(attributes)),
    )
    def test_multi_queue_format_header(self, attributes: dict[str, object]) -> None:
        assert user_flag(sent(**attributes), 23) == 1
        assert user_flag(sent(), 23) == 0

    @pytest.mark.conformance("DMPR-237")
    def test_properties_header_is_always_there(self) -> None:
        empty = UserMessage(encode_message(Message(destination_queue=QUEUE)))
        assert user_flag(empty, 21) == 1
        assert len(empty.data) == empty.properties_at + 56
        assert empty.properties.label_length == 0


class TestBaseHeaderFlags:
    """[MS-MQDMPR] 3.1.7.1.32"""

    @pytest.mark.conformance("DMPR-240")
    @pytest.mark.parametrize("priority", range(8))
    def test_priority_unless_transactional(self, priority: int) -> None:
        assert base_flags(sent(priority=priority)) == priority
        assert base_flags(sent(priority=priority, transaction_id=1)) == 0

    @pytest.mark.conformance("DMPR-240")
    def test_the_receiver_ignores_the_priority_of_a_transactional_message(self) -> None:
        message = UserMessage(replaced(sent(transaction_id=1).data, 2, b"\x07"))
        assert decode_message(message).priority == 0

    @pytest.mark.conformance("DMPR-240")
    @pytest.mark.parametrize("tracing", [False, True])
    def test_tracing_sets_tr_and_dh(self, tracing: bool) -> None:
        assert base_flags(sent(tracing=tracing)) & 0x0120 == (0x0120 if tracing else 0)


class TestSizes:
    @pytest.mark.conformance("DMPR-241")
    @pytest.mark.parametrize(("label", "length"), [("", 0), ("a", 2), ("\N{BAR CHART}", 3), ("x" * 249, 250)])
    def test_label_length(self, label: str, length: int) -> None:
        assert sent(label=label).data[sent().properties_at + 1] == length

    @pytest.mark.conformance("DMPR-241")
    @pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 255, 256, 65535, 65536, 70000])
    def test_body_extension_and_certificate(self, size: int) -> None:
        data = b"z" * size
        for at, attribute in ((32, "body"), (36, "body"), (52, "extension")):
            message = sent(**{attribute: data})
            start = message.properties_at + at
            assert int.from_bytes(message.data[start : start + 4], "little") == size
            assert len(message.data) % 4 == 0
        if 0 < size <= 0xFFFF:
            security = sent(sender_certificate=data).security
            assert security is not None
            assert (security.sender_cert_size, security.sender_cert) == (size, data)

    @pytest.mark.conformance("DMPR-241")
    @pytest.mark.parametrize(("name", "size"), [("C", 8), ("Microsoft", 24), ("x" * 300, 606)])
    def test_provider_info(self, name: str, size: int) -> None:
        security = sent(authentication_provider_name=name).security
        assert security is not None
        assert security.provider_info_size == size


class TestSecurityHeaderFlags:
    """[MS-MQDMPR] 3.1.7.1.32; AI says that SecurityData is there"""

    @pytest.mark.conformance("DMPR-242")
    @pytest.mark.parametrize(
        ("attributes", "flags"),
        [
            ({"sender_id": b"s", "sender_id_type": SenderIdType.NONE}, 0x80),
            ({"sender_id": b"s", "sender_id_type": SenderIdType.SID}, 0x81),
            ({"sender_id": b"s", "sender_id_type": SenderIdType.QM}, 0x82),
            ({"signature": b"s"}, 0xC0),
            ({"signature": b"s", "authentication_provider_name": "CSP"}, 0x80),
            ({"privacy_level": PrivacyLevel.BASE}, 0xA0),
            ({"privacy_level": PrivacyLevel.ADVANCED, "signature": b"s"}, 0xE0),
            ({"signature": b"s", "authentication_level": AuthenticationLevel.SIG20}, 0xC0),
        ],
        ids=["ST 0", "ST 1", "ST 2", "DE", "DE of another provider", "EB", "EB and DE", "AU and AS stay 0"],
    )
    def test_bits(self, attributes: dict[str, object], flags: int) -> None:
        assert sent(**attributes).security_flags == flags

    @pytest.mark.conformance("DMPR-243")
    @pytest.mark.parametrize(
        ("code", "level"),
        [
            (0, AuthenticationLevel.NONE),
            (1, AuthenticationLevel.SIG10),
            (3, AuthenticationLevel.SIG20),
            (5, AuthenticationLevel.SIG30),
        ],
    )
    def test_signature_type_on_receive(self, code: int, level: AuthenticationLevel) -> None:
        """DMPR T-15: AS, not AU."""
        for authenticated in (0x00, 0x10):
            security = bytes([authenticated, code, 1, 0]) + bytes(12) + b"s\0\0\0"
            message = UserMessage(packet(user(SH), security, properties()))
            assert decode_message(message).authentication_level == level

    @pytest.mark.parametrize(("code", "kind"), [(0, "NONE"), (1, "SID"), (2, "QM")])
    def test_sender_id_type_both_ways(self, code: int, kind: str) -> None:
        assert SenderIdType[kind] == code
        message = sent(sender_id=b"s", sender_id_type=code)
        assert message.security_flags & 0xF == code
        assert decode_message(message).sender_id_type == code


class TestUserHeaderFlags:
    @pytest.mark.conformance("DMPR-247")
    @pytest.mark.parametrize("positive", [False, True])
    @pytest.mark.parametrize("negative", [False, True])
    @pytest.mark.parametrize("delivery", [0, 1])
    def test_journaling_and_delivery(self, positive: bool, negative: bool, delivery: int) -> None:
        message = sent(positive_journaling=positive, negative_journaling=negative, delivery=delivery)
        assert (user_flag(message, 9), user_flag(message, 8)) == (positive, negative)
        assert message.flags >> 5 & 3 == delivery
        decoded = decode_message(message)
        assert (decoded.positive_journaling, decoded.negative_journaling) == (positive, negative)
        assert decoded.delivery == delivery

    @pytest.mark.conformance("DMPR-247")
    @pytest.mark.parametrize("acknowledgements", range(16))
    def test_acknowledgements(self, acknowledgements: int) -> None:
        message = sent(acknowledgements=acknowledgements)
        assert message.data[message.properties_at] == acknowledgements
        assert decode_message(message).acknowledgements == acknowledgements

    def test_unused_bits_of_the_properties_are_no_acknowledgements(self) -> None:
        data = replaced(sent().data, sent().properties_at, b"\xf3")
        assert decode_message(UserMessage(data)).acknowledgements == 3

    def test_transactional_messages_are_recoverable(self) -> None:
        message = sent(transaction_id=1, delivery=0)
        assert message.flags >> 5 & 3 == 1
        assert decode_message(message).delivery == 1


class TestQueueKinds:
    """[MS-MQDMPR] 3.1.7.1.31 and .32: QueueFormatType"""

    @pytest.mark.conformance("DMPR-246", "DMPR-098")
    @pytest.mark.parametrize(
        ("queue", "kind", "address"),
        [
            (PrivateFormatName(GUID_B, 1), 3, GUID_B.bytes_le),
            (PublicFormatName(GUID_B), 5, bytes(16)),
            (QUEUE, 7, bytes(16)),
        ],
        ids=["private", "public", "direct"],
    )
    def test_destination(self, queue: FormatName, kind: int, address: bytes) -> None:
        message = sent(destination_queue=queue)
        assert message.flags >> 10 & 7 == kind
        assert message.data[32:48] == address
        assert decode_message(message).destination_queue == queue

    @pytest.mark.conformance("DMPR-098")
    def test_a_direct_name_has_no_queue_manager_on_the_wire(self) -> None:
        assert sent(destination_queue_manager=GUID_B).data[32:48] == bytes(16)
        public = sent(destination_queue=PublicFormatName(GUID_C), destination_queue_manager=GUID_B)
        assert public.data[32:48] == GUID_B.bytes_le

    @pytest.mark.conformance("DMPR-246")
    @pytest.mark.parametrize(
        ("admin", "response", "kinds"),
        [
            (None, None, (0, 0)),
            (QUEUE, QUEUE, (7, 1)),
            (PrivateFormatName(GUID_A, 1), PrivateFormatName(GUID_A, 2), (2, 2)),
            (PrivateFormatName(GUID_B, 1), PrivateFormatName(GUID_B, 2), (3, 3)),
            (PrivateFormatName(GUID_C, 1), PrivateFormatName(GUID_C, 2), (6, 4)),
            (PublicFormatName(GUID_A), PublicFormatName(GUID_B), (5, 5)),
            (None, PrivateFormatName(GUID_C, 2), (0, 6)),
            (PublicFormatName(GUID_A), QUEUE, (5, 7)),
        ],
    )
    def test_admin_and_response(
        self, admin: FormatName | None, response: FormatName | None, kinds: tuple[int, int]
    ) -> None:
        message = sent(
            destination_queue=PrivateFormatName(GUID_B, 9),
            id=MessageId(GUID_A, 1),
            administration_queue=admin,
            response_queue=response,
        )
        assert (message.flags >> 13 & 7, message.flags >> 16 & 7) == kinds
        decoded = decode_message(message)
        assert (decoded.administration_queue, decoded.response_queue) == (admin, response)


class TestConstants:
    """The tables of constants, both ways"""

    @pytest.mark.conformance("DMPR-080", "DMPR-244")
    @pytest.mark.parametrize(("name", "code"), CLASSES.items(), ids=list(CLASSES))
    def test_classes(self, name: str, code: int) -> None:
        message = sent(message_class=MessageClass[name])
        at = message.properties_at + 2
        assert message.data[at : at + 2] == code.to_bytes(2, "little")
        assert decode_message(message).message_class == code == MessageClass[name].value

    @pytest.mark.conformance("DMPR-080", "DMPR-244")
    @pytest.mark.parametrize("code", [0x1234, 0x0003, 0x8123, 0xE1FF, 0xFFFF])
    def test_classes_of_applications_pass_untouched(self, code: int) -> None:
        assert decode_message(sent(message_class=code)).message_class == code

    @pytest.mark.conformance("DMPR-080")
    def test_a_message_is_normal_by_default(self) -> None:
        assert Message().message_class == 0 == MessageClass.NORMAL.value

    @pytest.mark.conformance("DMPR-245")
    @pytest.mark.parametrize(("name", "code"), PRIVACY_LEVELS.items())
    def test_privacy_levels(self, name: str, code: int) -> None:
        message = sent(privacy_level=PrivacyLevel[name])
        assert message.properties.privacy_level == code
        assert PrivacyLevel(decode_message(message).privacy_level).name == name

    @pytest.mark.conformance("DMPR-245")
    @pytest.mark.parametrize(("name", "code"), ENCRYPTION.items())
    def test_encryption_algorithms(self, name: str, code: int) -> None:
        message = sent(encryption_algorithm=EncryptionAlgorithm[name])
        assert message.properties.encryption_algorithm == code
        assert EncryptionAlgorithm(decode_message(message).encryption_algorithm).name == name

    @pytest.mark.conformance("DMPR-245", "DMPR-096")
    @pytest.mark.parametrize(("name", "code"), HASHES.items())
    def test_hash_algorithms(self, name: str, code: int) -> None:
        """DMPR T-14: 0x8003 is MD5."""
        message = sent(hash_algorithm=HashAlgorithm[name])
        assert message.properties.hash_algorithm == code
        assert HashAlgorithm(decode_message(message).hash_algorithm).name == name

    @pytest.mark.conformance("DMPR-096")
    def test_sha1_is_the_default_and_sha_its_other_name(self) -> None:
        assert Message().hash_algorithm == HashAlgorithm["SHA"].value == HashAlgorithm["SHA1"].value
        assert sent().properties.hash_algorithm == 0x8004


class TestOpaqueProperties:
    """[MS-MQDMPR] 3.1.1.12: neither interpreted nor changed"""

    @given(
        st.fixed_dictionaries(
            {
                "application_tag": u32,
                "body_type": u32,
                "correlation_id": exactly(20),
                "body": st.binary(max_size=64),
                "extension": st.binary(max_size=64),
                "label": texts,
            }
        )
    )
    def test_survive_the_wire(self, attributes: dict[str, object]) -> None:
        decoded = decode_message(sent(**attributes))
        assert {name: getattr(decoded, name) for name in attributes} == attributes
