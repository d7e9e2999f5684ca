"""The numbers of the enumerations, typed by hand or taken from the specification (vectors/codes.json)."""

import json
from enum import Enum, IntEnum, IntFlag
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiercel.model import codes
from tiercel.model.codes import (
    Acknowledgements,
    AdministrationQueueType,
    AuthenticationLevel,
    ConnectedNetworkAccessMask,
    ConnectionStatus,
    DestinationQueueType,
    EncryptionAlgorithm,
    EnterpriseAccessMask,
    HashAlgorithm,
    Information,
    MessageClass,
    PrivacyLevel,
    QueueAccess,
    QueueAccessMask,
    QueueFormatType,
    QueueManagerAccessMask,
    ResponseQueueType,
    SiteAccessMask,
    message_class,
)

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "codes.json").read_text("utf-8"))


class TestMessageClass:
    @pytest.mark.conformance("DMPR-244")
    def test_the_published_classes_translate_both_ways(self) -> None:
        table = {name: int(value, 16) for name, value in VECTORS["message_classes"].items()}
        assert len(table) == 20
        assert table["NACK_RECEIVE_REJECTED"] == 0xC004
        for name, value in table.items():
            assert MessageClass[name] == value
            assert message_class(value) is MessageClass[name]

    @pytest.mark.conformance("DMPR-244")
    @given(st.integers(min_value=0, max_value=0xFFFF))
    def test_unknown_values_pass_through(self, value: int) -> None:
        assert message_class(value) == value

    def test_the_classes_that_only_the_headers_have(self) -> None:
        from_headers = {
            "NACK_COULD_NOT_ENCRYPT": 0x8008,
            "NACK_SOURCE_COMPUTER_GUID_CHANGED": 0x800C,
            "NACK_MESSAGE_TOO_LARGE": 0x800D,
            "NACK_RECEIVE_TIMEOUT_AT_SENDER": 0xC003,
        }
        assert {name: MessageClass[name].value for name in from_headers} == from_headers
        assert len(MessageClass) == 24

    def test_signs(self) -> None:
        for member in MessageClass:
            assert member.is_negative == member.name.startswith("NACK_")
            assert member.is_receive == (member >= 0xC000 or member == 0x4000)
            assert member.meaning


@pytest.mark.conformance("DMPR-245")
@pytest.mark.parametrize(
    ("enumeration", "table"),
    [
        (PrivacyLevel, {0: "NONE", 1: "BASE", 3: "ENHANCED", 5: "ADVANCED"}),
        (
            EncryptionAlgorithm,
            {0x6602: "RC2", 0x6801: "RC4", 0x6610: "AES256", 0x660E: "AES128", 0x660F: "AES192"},
        ),
        (
            HashAlgorithm,
            {
                0x8001: "MD2",
                0x8002: "MD4",
                0x8003: "MD5",
                0x8004: "SHA1",
                0x800C: "SHA_256",
                0x800E: "SHA_512",
            },
        ),
    ],
)
def test_privacy_and_algorithms_translate_both_ways(
    enumeration: type[IntEnum], table: dict[int, str]
) -> None:
    assert {member.value: member.name for member in enumeration} == table
    for value, name in table.items():
        assert enumeration(value) is enumeration[name]


def test_sha_is_another_name_of_sha1() -> None:
    assert HashAlgorithm.__members__["SHA"] is HashAlgorithm.__members__["SHA1"]


NUMBERS: dict[type[IntEnum], list[int]] = {
    codes.DeliveryGuarantee: [0, 1],
    codes.Trace: [0, 1],
    AuthenticationLevel: [0, 1, 3, 5, 9],
    codes.SenderIdType: [0, 1, 2],
    QueueFormatType: [0, 1, 2, 3, 4, 5, 6, 7],
    DestinationQueueType: [3, 5, 7],
    AdministrationQueueType: [0, 2, 3, 5, 6, 7],
    ResponseQueueType: [0, 1, 2, 3, 4, 5, 6, 7],
    codes.QueueFormatKind: [0, 1, 2, 3, 4, 5, 6, 7, 8],
    codes.QueueFormatSuffix: [0, 1, 2, 3, 4, 5],
    codes.BodyType: [
        *(0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 14, 16, 17, 18, 19, 20, 21, 22, 23, 30, 31),
        *(64, 65, 66, 67, 68, 69, 72, 0x300, 0x1011, 0x2011),
    ],
    codes.ShareMode: [0, 1],
    codes.ReceiveAction: [0, 0x80000000, 0x80000001],
    codes.LookupAction: [
        *(0x40000010, 0x40000011, 0x40000012, 0x40000014, 0x40000018),
        *(0x40000020, 0x40000021, 0x40000022, 0x40000024, 0x40000028, 0x40000120),
    ],
    codes.SectionType: [0, 1, 2, 3, 4],
    codes.QueuePrivacyLevel: [0, 1, 2],
    ConnectionStatus: [0, 1, 2, *range(0x80000000, 0x8000000E)],
    codes.OperatingSystemType: [0, 0x100, 0x200, 0x300, 0x400, 0x500],
    codes.Status: [0xC0000008, 0xC000000D, 0xC0000022, 0xC0000225],
}


@pytest.mark.parametrize("enumeration", NUMBERS, ids=lambda enumeration: enumeration.__name__)
def test_numbers_in_the_order_of_the_specification(enumeration: type[IntEnum]) -> None:
    assert [member.value for member in enumeration] == NUMBERS[enumeration]


@pytest.mark.parametrize("enumeration", [DestinationQueueType, AdministrationQueueType, ResponseQueueType])
def test_the_queue_types_of_the_model_are_the_codes_of_the_packet(enumeration: type[IntEnum]) -> None:
    for member in enumeration:
        assert QueueFormatType(member).name in {
            member.name,
            member.name.replace("_QUEUE", ""),
            "PRIVATE_ON_DESTINATION",
        }


def test_acknowledgements() -> None:
    values = {name: int(member) for name, member in Acknowledgements.__members__.items()}
    assert values == {
        "NONE": 0,
        "POS_ARRIVAL": 1,
        "POS_RECEIVE": 2,
        "NEG_ARRIVAL": 4,
        "NEG_RECEIVE": 8,
        "NACK_REACH_QUEUE": 4,
        "FULL_REACH_QUEUE": 5,
        "NACK_RECEIVE": 12,
        "FULL_RECEIVE": 14,
    }


def test_flags_of_one_value_each() -> None:
    assert [int(flag) for flag in codes.Journal.__members__.values()] == [0, 1, 2]
    assert [int(flag) for flag in codes.QueueFormatFlag.__members__.values()] == [0, 0x80]
    assert [int(flag) for flag in QueueAccess.__members__.values()] == [1, 2, 4, 0x20, 0x80, 0x81, 0xA0]


MASKS: dict[str, type[IntFlag]] = {
    "MQQUEUEACCESSMASK": QueueAccessMask,
    "MQQMACCESSMASK": QueueManagerAccessMask,
    "MQSITEACCESSMASK": SiteAccessMask,
    "MQENTACCESSMASK": EnterpriseAccessMask,
    "MQCNACCESSMASK": ConnectedNetworkAccessMask,
}


@pytest.mark.parametrize("name", MASKS)
def test_the_bits_of_an_access_mask(name: str) -> None:
    mask = MASKS[name]
    published = {bit: int(value, 16) for bit, value in VECTORS["access_masks"][name].items()}
    assert {bit.name: bit.value for bit in mask} == published  # iterating a flag gives single bits only
    (everything,) = (bit for bit_name, bit in mask.__members__.items() if bit_name.endswith("GENERIC_ALL"))
    assert int(everything) == sum(published.values())


@pytest.mark.parametrize(
    ("right", "value"),
    [
        (QueueAccessMask.RECEIVE_MESSAGE, 0x3),
        (QueueAccessMask.RECEIVE_JOURNAL_MESSAGE, 0xA),
        (QueueAccessMask.QUEUE_GENERIC_READ, 0x2002B),
        (QueueAccessMask.QUEUE_GENERIC_WRITE, 0x20024),
        (QueueAccessMask.QUEUE_GENERIC_ALL, 0xF003F),
        (QueueManagerAccessMask.RECEIVE_DEADLETTER_MESSAGE, 0x3),
        (QueueManagerAccessMask.RECEIVE_JOURNAL_QUEUE_MESSAGE, 0xC0),
        (QueueManagerAccessMask.MACHINE_GENERIC_READ, 0x200E3),
        (QueueManagerAccessMask.MACHINE_GENERIC_WRITE, 0x20024),
        (QueueManagerAccessMask.MACHINE_GENERIC_ALL, 0xF00F7),
        (QueueManagerAccessMask.MACHINE_WORLD_RIGHTS, 0x20020),
        (SiteAccessMask.SITE_GENERIC_WRITE, 0x20024),
        (EnterpriseAccessMask.ENTERPRISE_GENERIC_READ, 0x20021),
        (EnterpriseAccessMask.ENTERPRISE_GENERIC_WRITE, 0x20027),
        (ConnectedNetworkAccessMask.CN_GENERIC_READ, 0x20020),
    ],
)
def test_the_derived_rights(right: int, value: int) -> None:
    assert right == value


def test_the_informational_codes() -> None:
    published = {name: int(code, 16) for name, code in VECTORS["errors"].items() if code.startswith("0x400E")}
    assert {f"MQ_INFORMATION_{member.name}": member.value for member in Information} == published


WORDS: dict[type[Enum], str] = {
    codes.QueueType: "Private Public System Connector",
    codes.QueueScope: "Site Enterprise",
    codes.QueueManagerState: "Stopped Initializing Ready Stopping",
    codes.DirectoryServerType: (
        "Standalone BackupSiteController PrimarySiteController PrimaryEnterpriseController"
    ),
    codes.MessageSeekAction: "SeekFirst SeekPrevious SeekCurrent SeekNext SeekLast",
    codes.RemoteReadState: "None Opened ReadyForRead",
    codes.CursorState: "Unread WaitReceive WaitPeek Read",
}


@pytest.mark.parametrize("enumeration", WORDS, ids=lambda enumeration: enumeration.__name__)
def test_the_words_of_the_model(enumeration: type[Enum]) -> None:
    assert [member.value for member in enumeration] == WORDS[enumeration].split()


def test_the_states_of_an_outgoing_queue() -> None:
    names = "CONNECTED DISCONNECTED DISCONNECTING INACTIVE LOCKED NEED_VALIDATION WAITING ON_HOLD"
    assert [state.name for state in codes.OutgoingQueueState] == names.split()
    assert codes.OutgoingQueueState("NEED VALIDATION") is codes.OutgoingQueueState.NEED_VALIDATION


def test_the_states_that_the_store_writes_never_change() -> None:
    operations = {"ENQUEUE": 0, "DEQUEUE": 1, "MOVE": 2}
    assert {operation.name: operation.value for operation in codes.TransactionalOperationType} == operations


def test_every_enumeration_says_what_it_is_or_has_a_telling_name() -> None:
    silent = {
        name
        for name, value in vars(codes).items()
        if isinstance(value, type) and value.__module__ == codes.__name__ and not value.__doc__
    }
    assert silent <= {"ReceiveAction", "MessageSeekAction"}
