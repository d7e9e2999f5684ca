"""[MS-MQRR] 3.1.4 and 6: arguments and results as stub data."""

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiercel.model.codes import QueueFormatKind, SectionType
from tiercel.model.errors import InvalidParameterError, IoTimeoutError
from tiercel.model.format_name import FormatName
from tiercel.model.identifiers import NULL_GUID
from tiercel.model.limits import INFINITE
from tiercel.remote_read.calls import (
    REMOTE_READ,
    REQUESTS,
    RR_ACK,
    TOKEN_MAX_BYTES,
    Call,
    CancelReceive,
    CloseCursor,
    CloseQueue,
    CreateCursor,
    CursorCreated,
    Done,
    EndReceive,
    EndTransactionalReceive,
    EnlistRemoteTransaction,
    GetServerPort,
    MoveMessage,
    OpenQueue,
    OpenQueueForMove,
    PurgeQueue,
    QueueClosed,
    QueueOpened,
    QueueOpenedForMove,
    Received,
    Request,
    Response,
    ServerPort,
    SetUserAcknowledgementClass,
    StartReceive,
    StartTransactionalReceive,
    decode_request,
)
from tiercel.remote_read.packet import Section
from tiercel.remote_read.queue_format import QueueFormat
from tiercel.rpc.ndr import ContextHandle, NdrError
from tiercel.rpc.status import NCA_S_OP_RNG_ERROR, RPC_X_BAD_STUB_DATA, RpcFault

from .vectors import VECTORS

HANDLE = ContextHandle(0, UUID("01234567-89ab-cdef-0123-456789abcdef"))
GUID = UUID("00112233-4455-6677-8899-aabbccddeeff")
UOW = UUID(bytes_le=bytes(range(16)))
Q1 = QueueFormat.of(FormatName.parse(r"DIRECT=OS:srv\private$\q1"))
OPEN = OpenQueue(Q1, 1, 0, GUID, 1, 6, 1, 0x1DB1, 1)
SEQUENCE = 0x0011_2233_4455
FULL = Section(SectionType.FULL_PACKET, 5, b"ABCDE")
CUT = (
    Section(SectionType.BINARY_FIRST_SECTION, 10, b"HEADbo"),
    Section(SectionType.BINARY_SECOND_SECTION, 3, b"TRL"),
)

# Every vector that is stub data, and the value that it stands for.
EXPECTED: dict[str, Call] = {
    "R_GetServerPort response (2103)": ServerPort(2103),
    r"R_OpenQueue request, DIRECT=OS:srv\private$\q1": OPEN,
    "R_OpenQueue response": QueueOpened(HANDLE),
    "R_StartReceive request, MQ_ACTION_RECEIVE, 5 s, request 0x2a": StartReceive(
        HANDLE, timeout_ms=5000, request_id=0x2A
    ),
    "R_StartReceive response, one full-packet section of 5 bytes": Received(0x5F000000, SEQUENCE, (FULL,)),
    "R_StartReceive response, two sections (first 6 of 10, second 3)": Received(0x5F000000, SEQUENCE, CUT),
    "R_StartReceive response, MQ_ERROR_IO_TIMEOUT": Received.failed(IoTimeoutError.code),
    "R_EndReceive request, RR_ACK, request 0x2a": EndReceive(HANDLE, RR_ACK, 0x2A),
    "R_StartTransactionalReceive request, zero XACTUOW": StartTransactionalReceive(HANDLE, request_id=0x2B),
    "R_MoveMessage request, ullContextTo 0x10, LookupId 0x05, zero XACTUOW": MoveMessage(HANDLE, 0x10, 5),
    "R_QMEnlistRemoteTransaction request, 5-byte token": EnlistRemoteTransaction(UOW, b"TOKEN", Q1),
}


@pytest.mark.conformance("MQRR-019")
def test_an_hresult_has_32_bits_and_a_guid_is_that_of_ms_dtyp() -> None:
    assert Done(0xC00E0003).encode() == bytes.fromhex("03 00 0e c0")
    assert Done.decode(bytes.fromhex("03 00 0e c0 ff")).status == 0xC00E0003
    guid = bytes.fromhex("33 22 11 00 55 44 77 66 88 99 aa bb cc dd ee ff")
    assert guid in OPEN.encode()
    assert OpenQueue.decode(OPEN.encode()).client_id == GUID


class TestDerivedVectors:
    @pytest.mark.conformance(
        "MQRR-022", "MQRR-028", "MQRR-029", "MQRR-047", "MQRR-066", "MQRR-105", "MQRR-117"
    )
    @pytest.mark.parametrize("title", EXPECTED)
    def test_both_ways(self, title: str) -> None:
        value, data = EXPECTED[title], VECTORS[title]
        assert value.encode() == data
        assert type(value).decode(data) == value

    def test_none_is_forgotten(self) -> None:
        assert VECTORS.keys() - EXPECTED.keys() == {"abstract syntax in bind (uuid + version)"}

    def test_the_interface(self) -> None:
        assert REMOTE_READ.syntax.encode() == VECTORS["abstract syntax in bind (uuid + version)"]
        assert REMOTE_READ.operations == 16


EVERY_REQUEST: list[Request] = [
    GetServerPort(),
    OPEN,
    OpenQueueForMove(Q1, 4),
    CloseQueue(HANDLE),
    CreateCursor(HANDLE),
    CloseCursor(HANDLE, 7),
    PurgeQueue(HANDLE),
    StartReceive(HANDLE, 1 << 63, 0, 0x40000021, 0, 9, 10, 11),
    CancelReceive(HANDLE, 5),
    EndReceive(HANDLE, 1, 5),
    MoveMessage(HANDLE, 1 << 63, 2, UOW),
    EnlistRemoteTransaction(UOW, b"token", Q1),
    StartTransactionalReceive(HANDLE, 3, request_id=4, transaction=UOW),
    SetUserAcknowledgementClass(HANDLE, 5, 0xC004),
    EndTransactionalReceive(HANDLE, 2, 5),
]
EVERY_RESPONSE: list[Response] = [
    ServerPort(0),
    QueueOpened(HANDLE),
    QueueOpenedForMove(1 << 63, HANDLE),
    QueueClosed(),
    CursorCreated(5),
    CursorCreated.failed(0xC00E0007),
    Received(1, 2, (Section(SectionType.SRMP_FIRST_SECTION, 9, b""),)),
    Done(0xC00E0006),
]


class TestEveryMethod:
    @pytest.mark.parametrize("request_", EVERY_REQUEST, ids=lambda value: type(value).__name__)
    def test_requests_come_back_by_their_number(self, request_: Request) -> None:
        assert decode_request(request_.OPNUM, request_.encode()) == request_

    @pytest.mark.parametrize("response", EVERY_RESPONSE, ids=lambda value: type(value).__name__)
    def test_responses_come_back(self, response: Response) -> None:
        assert type(response).decode(response.encode()) == response

    def test_all_have_a_number_but_one(self) -> None:
        assert sorted(REQUESTS) == [0, *range(2, 16)]
        assert {type(each) for each in EVERY_REQUEST} == set(REQUESTS.values())

    @pytest.mark.conformance("MQRR-102")
    def test_open_for_move_gives_a_context_and_a_handle_and_no_status(self) -> None:
        data = QueueOpenedForMove(0x0102030405060708, HANDLE).encode()
        assert data == bytes.fromhex("0807060504030201 00000000 67452301ab89efcd0123456789abcdef")

    @pytest.mark.conformance("MQRR-057")
    def test_a_closed_queue_is_twenty_zeros_and_ok(self) -> None:
        assert QueueClosed().encode() == bytes(24)

    def test_what_opens_a_queue_fails_by_a_fault(self) -> None:
        """MQRR trap 25"""
        without_status = {each for each in REQUESTS.values() if each.RESPONSE.failed(1) is None}
        assert without_status == {GetServerPort, OpenQueue, OpenQueueForMove}

    def test_a_failed_call_returns_zeros_and_its_status(self) -> None:
        for response in (CursorCreated.failed(0xC00E0007), QueueClosed.failed(0xC00E0007)):
            data = response.encode()
            assert data == bytes(len(data) - 4) + bytes.fromhex("07000EC0")


class TestBadStubData:
    @pytest.mark.parametrize("opnum", [1, 16, 99])
    def test_there_are_no_other_methods(self, opnum: int) -> None:
        with pytest.raises(RpcFault) as caught:
            decode_request(opnum, b"")
        assert caught.value.status == NCA_S_OP_RNG_ERROR

    @pytest.mark.parametrize("request_", EVERY_REQUEST[1:], ids=lambda value: type(value).__name__)
    def test_cut_anywhere(self, request_: Request) -> None:
        data = request_.encode()
        for size in range(len(data)):
            with pytest.raises(NdrError) as caught:
                decode_request(request_.OPNUM, data[:size])
            assert caught.value.status == RPC_X_BAD_STUB_DATA

    @given(st.sampled_from(sorted(REQUESTS)), st.binary(max_size=200))
    def test_anything_gives_a_value_or_that_error(self, opnum: int, data: bytes) -> None:
        try:
            value = decode_request(opnum, data)
        except NdrError:
            return
        assert decode_request(opnum, value.encode()) == value

    @given(st.sampled_from([Received, CursorCreated, QueueOpened]), st.binary(max_size=200))
    def test_of_a_response_too(self, kind: type[Response], data: bytes) -> None:
        try:
            value = kind.decode(data)
        except NdrError:
            return
        assert kind.decode(value.encode()) == value

    @pytest.mark.parametrize("ack", [0, 3, INFINITE])
    @pytest.mark.parametrize("kind", [EndReceive, EndTransactionalReceive])
    def test_an_acknowledgement_is_one_or_two(self, kind: type[EndReceive], ack: int) -> None:
        with pytest.raises(NdrError, match="allowed are 1 to 2"):
            kind.decode(kind(HANDLE, ack, 1).encode())

    @pytest.mark.conformance("MQRR-113")
    def test_a_token_has_a_limit(self) -> None:
        longest = EnlistRemoteTransaction(UOW, bytes(TOKEN_MAX_BYTES), Q1)
        assert EnlistRemoteTransaction.decode(longest.encode()) == longest
        with pytest.raises(NdrError) as caught:
            EnlistRemoteTransaction.decode(replace(longest, token=bytes(131073)).encode())
        assert caught.value.status == RPC_X_BAD_STUB_DATA

    def test_a_token_of_another_length_than_announced(self) -> None:
        data = bytearray(EnlistRemoteTransaction(UOW, b"TOKEN", Q1).encode())
        data[16] = 4
        with pytest.raises(NdrError, match="4 are announced"):
            EnlistRemoteTransaction.decode(bytes(data))


class TestSections:
    def test_dirty_padding_after_the_type_means_nothing(self) -> None:
        """MQRR trap 2"""
        value = Received(1, 2, (FULL,))
        data = bytearray(value.encode())
        data[30:32] = b"\xcd\xcd"
        assert Received.decode(bytes(data)) == value

    @pytest.mark.conformance("MQRR-028")
    def test_there_is_no_fifth_type(self) -> None:
        data = bytearray(Received(1, 2, (FULL,)).encode())
        data[28] = 5
        with pytest.raises(NdrError, match="SectionBufferType"):
            Received.decode(bytes(data))

    def test_a_size_without_a_buffer(self) -> None:
        data = bytearray(Received(1, 2, (FULL,)).encode())
        data[40:44] = bytes(4)
        with pytest.raises(NdrError, match="is NULL, but should have 5 elements"):
            Received.decode(bytes(data))

    def test_more_than_two(self) -> None:
        with pytest.raises(NdrError, match="pdwNumberOfSections"):
            Received.decode(Received(1, 2, (FULL,) * 3).encode())

    def test_a_failure_has_none(self) -> None:
        assert Received.decode(Received.failed(0xC00E0008).encode()).sections == ()


class TestQueueFormat:
    NAMES = (
        r"DIRECT=OS:srv\private$\q1",
        r"DIRECT=TCP:192.0.2.7\orders",
        r"DIRECT=OS:srv\private$\q1;poison",
        r"DIRECT=OS:srv\private$\q1;JOURNAL",
        r"DIRECT=OS:srv\SYSTEM$;DEADLETTER",
        f"PUBLIC={GUID}",
        f"PUBLIC={GUID};JOURNAL",
        f"PRIVATE={GUID}\\0000002a",
        f"PRIVATE={GUID}\\0000002a;JOURNAL",
        f"MACHINE={GUID};JOURNAL",
        f"MACHINE={GUID};DEADLETTER",
        f"MACHINE={GUID};DEADXACT",
    )

    @pytest.mark.parametrize("text", NAMES)
    def test_names_come_back(self, text: str) -> None:
        name = FormatName.parse(text)
        request = EnlistRemoteTransaction(UOW, b"", QueueFormat.of(name))
        assert EnlistRemoteTransaction.decode(request.encode()).queue.format_name() == name

    @pytest.mark.parametrize(
        ("text", "kind", "suffix"),
        [
            (NAMES[0], 3, 0),
            (NAMES[2], 8, 5),
            (NAMES[5], 1, 0),
            (NAMES[6], 1, 0x81),
            (NAMES[7], 2, 0),
            (NAMES[10], 4, 0x82),
            (NAMES[11], 4, 0x83),
        ],
    )
    def test_kinds_and_suffixes(self, text: str, kind: int, suffix: int) -> None:
        value = QueueFormat.of(FormatName.parse(text))
        assert (value.kind, value.suffix_and_flags) == (kind, suffix)

    @pytest.mark.parametrize(
        "value",
        [
            QueueFormat(),
            QueueFormat(QueueFormatKind.CONNECTOR, 0, GUID),
            QueueFormat(QueueFormatKind.DL, 0, GUID, text="example.test"),
            QueueFormat(QueueFormatKind.DL, 0, GUID),
            QueueFormat(QueueFormatKind.MULTICAST, address=0x0101_01EA, number=8001),
            QueueFormat(QueueFormatKind.DIRECT),
            QueueFormat(QueueFormatKind.MACHINE, 0, GUID),
        ],
    )
    def test_others_are_decoded_and_name_nothing(self, value: QueueFormat) -> None:
        request = OpenQueue(value, 1)
        assert OpenQueue.decode(request.encode()) == request
        with pytest.raises(InvalidParameterError):
            value.format_name()

    @pytest.mark.parametrize("text", ["MULTICAST=234.1.1.1:8001", f"DL={GUID}", f"CONNECTOR={GUID}"])
    def test_they_cannot_be_asked_for(self, text: str) -> None:
        with pytest.raises(InvalidParameterError):
            QueueFormat.of(FormatName.parse(text))

    def test_a_ninth_kind(self) -> None:
        data = bytearray(OPEN.encode())
        data[0] = data[4] = 9
        with pytest.raises(NdrError, match="m_qft"):
            OpenQueue.decode(bytes(data))

    @pytest.mark.conformance("MQRR-022")
    def test_the_tag_repeats_the_kind(self) -> None:
        data = bytearray(OPEN.encode())
        data[4] = 1
        with pytest.raises(NdrError, match="the discriminant says 3"):
            OpenQueue.decode(bytes(data))

    def test_the_tag_is_one_byte_and_dirt_follows_it(self) -> None:
        """MQRR trap 3"""
        data = bytearray(OPEN.encode())
        data[5:8] = b"\xcd\xcd\xcd"
        assert OpenQueue.decode(bytes(data)) == OPEN
        assert len(EnlistRemoteTransaction(NULL_GUID).encode()) == 16 + 4 + 4 + 5
