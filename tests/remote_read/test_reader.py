"""The reader's machine: request ids, handles and the two steps of a receive."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.fake_server import found, packet_of
from tiercel.model.codes import LookupAction, ReceiveAction, SectionType
from tiercel.model.errors import (
    AccessDeniedError,
    DecodeError,
    InvalidHandleError,
    InvalidParameterError,
    IoTimeoutError,
    MqError,
    OperationNotSupportedByRemoteComputerError,
    QueueNotAvailableError,
    QueueNotFoundError,
    StaleHandleError,
    UnknownCodeError,
)
from tiercel.model.identifiers import lookup_id
from tiercel.remote_read import calls
from tiercel.remote_read.calls import RR_ACK, RR_NACK
from tiercel.remote_read.failures import check, error_of_fault
from tiercel.remote_read.packet import Section
from tiercel.remote_read.reader import ReaderHandle, RequestIds, lookup_id_of
from tiercel.rpc.ndr import ContextHandle
from tiercel.rpc.status import RpcFault

CONTEXT = ContextHandle(0, UUID(int=1))
TRANSACTION = UUID(int=99)


@pytest.fixture
def handle() -> ReaderHandle:
    return ReaderHandle(CONTEXT, RequestIds(), "orders")


class TestRequestIds:
    @pytest.mark.conformance("MQRR-081", "MQRR-144")
    def test_the_count_wraps_and_skips_what_is_live(self) -> None:
        ids = RequestIds(first=0xFFFF_FFFE)
        assert [ids.take(), ids.take()] == [0xFFFF_FFFE, 0xFFFF_FFFF]
        live = RequestIds(first=1)
        assert live.take() == 1
        live._next = 0xFFFF_FFFF
        assert [live.take(), live.take()] == [0xFFFF_FFFF, 2]  # 0 is none, 1 is live
        live.free(1)
        live._next = 0
        assert live.take() == 1

    @pytest.mark.conformance("MQRR-081", "MQRR-144")
    @given(st.lists(st.one_of(st.none(), st.integers(0, 20)), max_size=200))
    def test_no_two_live_ones_are_the_same(self, steps: list[int | None]) -> None:
        ids = RequestIds(first=0xFFFF_FFF0)
        live: list[int] = []
        for step in steps:
            if step is None or step >= len(live):
                number = ids.take()
                assert 0 < number < 1 << 32
                assert number not in live
                live.append(number)
            else:
                ids.free(live.pop(step))
        assert len(ids) == len(live)

    def test_queues_share_them(self) -> None:
        ids = RequestIds()
        handles = [ReaderHandle(CONTEXT, ids, "orders") for _ in range(3)]
        reads = [handle.start(ReceiveAction.RECEIVE) for handle in handles for _ in range(5)]
        assert len({read.request.request_id for read in reads}) == 15


class TestReceiving:
    def test_a_receive_is_ended_once(self, handle: ReaderHandle) -> None:
        read = handle.start(ReceiveAction.RECEIVE, timeout_ms=5000)
        assert not read.is_delivered
        message = handle.answered(read, found(packet_of(b"tea")))
        assert message.packet.body == b"tea"
        assert read.is_delivered
        number = read.request.request_id
        assert read.end(RR_ACK) == calls.EndReceive(CONTEXT, RR_ACK, number)
        with pytest.raises(InvalidHandleError):
            read.end(RR_NACK)
        assert len(handle.ids) == 1  # the number is not free before its end was answered
        read.forget()
        assert len(handle.ids) == 0

    @pytest.mark.parametrize(
        "action", [ReceiveAction.PEEK_CURRENT, ReceiveAction.PEEK_NEXT, LookupAction.PEEK_PREV]
    )
    def test_a_peek_has_no_end(self, handle: ReaderHandle, action: int) -> None:
        read = handle.start(action)
        handle.answered(read, found())
        assert not read.is_delivered
        assert len(handle.ids) == 0

    @pytest.mark.parametrize(
        "action",
        [LookupAction.RECEIVE_CURRENT, LookupAction.RECEIVE_NEXT, LookupAction.RECEIVE_PREV],
    )
    def test_a_receive_by_lookup_id_has_one(self, handle: ReaderHandle, action: int) -> None:
        """MQRR trap 4."""
        read = handle.start(action, lookup_id=5)
        handle.answered(read, found())
        assert read.is_delivered

    @pytest.mark.conformance("MQRR-117", "MQRR-126")
    def test_in_a_transaction_it_is_begun_and_ended_by_other_calls(self, handle: ReaderHandle) -> None:
        read = handle.start(ReceiveAction.RECEIVE, transaction=TRANSACTION)
        assert isinstance(read.request, calls.StartTransactionalReceive)
        assert read.request.transaction == TRANSACTION
        handle.answered(read, found())
        assert type(read.end(RR_ACK)) is calls.EndTransactionalReceive
        plain = handle.start(ReceiveAction.RECEIVE)
        assert type(plain.request) is calls.StartReceive
        handle.answered(plain, found())
        assert type(plain.end(RR_ACK)) is calls.EndReceive

    @pytest.mark.conformance("MQRR-056")
    def test_of_a_failed_call_nothing_counts(self, handle: ReaderHandle) -> None:
        read = handle.start(ReceiveAction.RECEIVE)
        plausible = found()
        failed = calls.Received(plausible.arrival_time, plausible.sequence_id, plausible.sections, 0xC00E001B)
        with pytest.raises(IoTimeoutError):
            handle.answered(read, failed)
        assert not read.is_delivered
        with pytest.raises(MqError):
            handle.cursor_created(calls.CursorCreated(5, 0xC00E0027))
        assert not handle.cursors

    @pytest.mark.conformance("MQRR-030", "MQRR-031", "MQRR-141")
    @pytest.mark.parametrize("broken", ["none", "two full ones", "size", "rubbish"])
    def test_what_is_no_packet_must_still_be_ended(self, handle: ReaderHandle, broken: str) -> None:
        (whole,) = found().sections
        sections = {
            "none": (),
            "two full ones": (whole, whole),
            "size": (Section(SectionType.FULL_PACKET, whole.size_alloc + 4, whole.data),),
            "rubbish": (Section(SectionType.FULL_PACKET, 5, b"ABCDE"),),
        }[broken]
        read = handle.start(ReceiveAction.RECEIVE)
        with pytest.raises(DecodeError):
            handle.answered(read, calls.Received(0, 7, sections))
        assert read.is_delivered
        assert read.end(RR_NACK).ack == RR_NACK

    @pytest.mark.parametrize("priority", range(8))
    def test_the_lookup_id_gets_its_first_byte_back(self, handle: ReaderHandle, priority: int) -> None:
        """MQRR trap 15."""
        number = lookup_id(priority, 0x12345)
        read = handle.start(ReceiveAction.PEEK_CURRENT)
        answer = found(packet_of(priority=priority), sequence_id=number)
        assert answer.sequence_id == 0x12345
        assert lookup_id_of(handle.answered(read, answer), answer) == number


class TestClosing:
    @pytest.mark.conformance("MQRR-137", "MQRR-147")
    def test_everything_is_ended_before_the_queue(self, handle: ReaderHandle) -> None:
        handle.cursor_created(calls.CursorCreated(5))
        handle.cursor_created(calls.CursorCreated(6))
        waiting = handle.start(ReceiveAction.RECEIVE, timeout_ms=100)
        delivered = handle.start(ReceiveAction.RECEIVE)
        handle.answered(delivered, found())
        assert list(handle.close()) == [
            waiting.cancel(),
            calls.EndReceive(CONTEXT, RR_NACK, delivered.request.request_id),
            calls.CloseCursor(CONTEXT, 5),
            calls.CloseCursor(CONTEXT, 6),
            calls.CloseQueue(CONTEXT),
        ]
        assert not list(handle.close())
        assert not handle.cursors
        with pytest.raises(InvalidHandleError):
            delivered.end(RR_ACK)

    def test_a_message_that_comes_while_it_is_closed_goes_back(self, handle: ReaderHandle) -> None:
        read = handle.start(ReceiveAction.RECEIVE, timeout_ms=100)
        closing = handle.close()
        assert next(closing) == read.cancel()
        handle.answered(read, found())
        assert next(closing) == calls.EndReceive(CONTEXT, RR_NACK, read.request.request_id)
        assert not read.is_delivered

    def test_who_was_quicker_than_the_closing_keeps_it(self, handle: ReaderHandle) -> None:
        read = handle.start(ReceiveAction.RECEIVE, timeout_ms=100)
        closing = handle.close()
        next(closing)
        handle.answered(read, found())
        read.end(RR_ACK)
        assert next(closing) == calls.CloseQueue(CONTEXT)

    @pytest.mark.conformance("MQRR-137")
    def test_after_it_nothing_is_asked(self, handle: ReaderHandle) -> None:
        handle.cursor_created(calls.CursorCreated(5))
        list(handle.close())
        for use in (
            lambda: handle.start(ReceiveAction.RECEIVE),
            handle.create_cursor,
            handle.purge,
            lambda: handle.move(1, handle),
            lambda: handle.reject(1),
            lambda: list(handle.close_cursor(5)),
        ):
            with pytest.raises(InvalidHandleError):
                use()

    @pytest.mark.conformance("MQRR-137", "MQRR-147")
    def test_a_cursor_goes_after_what_waits_at_it(self, handle: ReaderHandle) -> None:
        handle.cursor_created(calls.CursorCreated(5))
        at_it = handle.start(ReceiveAction.PEEK_CURRENT, cursor=5, timeout_ms=100)
        handle.start(ReceiveAction.PEEK_CURRENT, timeout_ms=100)
        assert list(handle.close_cursor(5)) == [at_it.cancel(), calls.CloseCursor(CONTEXT, 5)]
        with pytest.raises(InvalidHandleError, match="cursor"):
            handle.start(ReceiveAction.PEEK_CURRENT, cursor=5)
        with pytest.raises(InvalidHandleError, match="cursor"):
            handle.start(ReceiveAction.PEEK_CURRENT, cursor=9)

    def test_with_the_connection_everything_is_gone(self, handle: ReaderHandle) -> None:
        handle.cursor_created(calls.CursorCreated(5))
        read = handle.start(ReceiveAction.RECEIVE)
        handle.answered(read, found())
        handle.lost()
        assert not handle.is_open
        assert len(handle.ids) == 0
        with pytest.raises(InvalidHandleError, match="back in the queue"):
            read.end(RR_ACK)


class TestFailures:
    @pytest.mark.parametrize(
        ("status", "kind"),
        [
            (0xC00E0003, QueueNotFoundError),
            (0xC0000022, AccessDeniedError),
            (0xC0000008, InvalidHandleError),
            (0xC000000D, InvalidParameterError),
            (0xC0000225, UnknownCodeError),
            (0x80004005, UnknownCodeError),
        ],
    )
    def test_a_status_is_an_error(self, status: int, kind: type[MqError]) -> None:
        with pytest.raises(kind) as caught:
            check(calls.Done(status), "orders")
        assert caught.value.subject == "orders"

    @pytest.mark.parametrize("status", [0, 0x400E0001, 1])
    def test_or_it_is_none(self, status: int) -> None:
        check(calls.Done(status), "orders")
        check(calls.QueueOpened(), "orders")

    @pytest.mark.parametrize(
        ("status", "kind"),
        [
            (0xC00E0003, QueueNotFoundError),
            (0xC0000022, AccessDeniedError),
            (0x00000005, AccessDeniedError),
            (0x1C00001D, AccessDeniedError),
            (0x1C010002, OperationNotSupportedByRemoteComputerError),
            (0x1C00001A, StaleHandleError),
            (0x000006F7, QueueNotAvailableError),
            (0x12345678, QueueNotAvailableError),
        ],
    )
    def test_so_is_a_fault(self, status: int, kind: type[MqError]) -> None:
        """MQRR trap 25: any status may come."""
        error = error_of_fault(RpcFault(status), calls.PurgeQueue(CONTEXT), "orders")
        assert type(error) is kind
        assert "orders" in str(error)
