"""What the remote reader asks of a server, call by call: [MS-MQRR] 3.2.4."""

# what a block does before it raises is what is tested

import asyncio
import inspect
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest

import tiercel
from client.fake_server import HOST, ORDERS, SENT, Answer, Asked, FakeServer, found, packet_of, play
from tiercel import aio
from tiercel.client import remote_aio
from tiercel.client.remote_message import queue_name
from tiercel.model.codes import LookupAction, MessageSeekAction, ReceiveAction
from tiercel.model.identifiers import NULL_GUID, lookup_id
from tiercel.model.limits import INFINITE
from tiercel.remote_read import calls
from tiercel.remote_read.calls import RR_ACK, RR_NACK
from tiercel.rpc.status import NCA_S_OP_RNG_ERROR, RpcFault

S = MessageSeekAction


@asynccontextmanager
async def reading(
    script: dict[Any, Any] | None = None, **options: Any
) -> AsyncIterator[tuple[FakeServer, remote_aio.AsyncRemoteQueueManager, remote_aio.AsyncRemoteQueue]]:
    async with (
        FakeServer(script or {}) as fake,
        await aio.connect(HOST, port=fake.port, **options) as remote,
    ):
        yield fake, remote, remote.queue(ORDERS)


class TestNames:
    @pytest.mark.parametrize(
        ("sync", "asynchronous"),
        [
            (tiercel.RemoteQueueManager, remote_aio.AsyncRemoteQueueManager),
            (tiercel.RemoteQueue, remote_aio.AsyncRemoteQueue),
            (tiercel.RemoteCursor, remote_aio.AsyncRemoteCursor),
        ],
    )
    def test_are_the_same_for_threads_and_asyncio(self, sync: type, asynchronous: type) -> None:
        inner = {
            "start",
            "opened",
            "hold",
            "take",
            "leave",
            "keep",
            "acknowledge",
            "give_back",
            "read_at",
            "finish",
        }

        def public(kind: type) -> set[str]:
            return {name for name in vars(kind) if not name.startswith("_")}

        assert public(sync) == public(asynchronous) - inner - {"session"}
        for name in public(sync):
            if inspect.isfunction(getattr(sync, name)):
                own, other = (inspect.signature(getattr(kind, name)) for kind in (sync, asynchronous))
                assert list(own.parameters)[1:] == list(other.parameters)[1:] or name == "transaction"

    @pytest.mark.parametrize("name", ["receive", "peek", "move", "receiving", "consume"])
    def test_are_those_of_the_embedded_queue(self, name: str) -> None:
        far = set(inspect.signature(getattr(tiercel.RemoteQueue, name)).parameters)
        assert set(inspect.signature(getattr(tiercel.EmbeddedQueue, name)).parameters) <= far

    def test_connect_takes_the_same(self) -> None:
        assert (
            inspect.signature(aio.connect).parameters.keys()
            == inspect.signature(tiercel.connect).parameters.keys()
        )

    @pytest.mark.parametrize(
        ("host", "name", "expected"),
        [
            ("srv", r"private$\orders", r"DIRECT=OS:srv\private$\orders"),
            ("srv", r".\private$\orders", r"DIRECT=OS:srv\private$\orders"),
            ("srv", "orders", r"DIRECT=OS:srv\private$\orders"),
            ("srv", "orders;late", r"DIRECT=OS:srv\private$\orders;late"),
            ("srv", r".\orders", r"DIRECT=OS:srv\orders"),
            ("srv", ";deadletter", r"DIRECT=OS:srv\system$;DEADLETTER"),
            ("srv", r"FormatName:DIRECT=OS:.\private$\orders", r"DIRECT=OS:srv\private$\orders"),
            ("srv", r"formatname:DIRECT=TCP:192.0.2.7\q", r"DIRECT=TCP:192.0.2.7\q"),
            ("srv", r"other\private$\orders", r"DIRECT=OS:other\private$\orders"),
            ("192.0.2.7", r"private$\orders", r"DIRECT=TCP:192.0.2.7\private$\orders"),
            ("::1", r"private$\orders;late", r"DIRECT=TCP:::1\private$\orders;late"),
            ("srv", "system$;DEADLETTER", r"DIRECT=OS:srv\system$;DEADLETTER"),
            ("srv", f"PUBLIC={UUID(int=5)}", f"PUBLIC={UUID(int=5)}"),
        ],
    )
    def test_of_queues(self, host: str, name: str, expected: str) -> None:
        assert str(queue_name(host, name)) == expected


class TestOpening:
    @pytest.mark.conformance("MQRR-138", "MQRR-054", "MQRR-055")
    def test_says_who_we_are(self) -> None:
        async def scene() -> None:
            client_id = UUID(int=0xC11E47)
            async with reading(client_id=client_id) as (fake, remote, orders):
                with pytest.raises(tiercel.IoTimeoutError):
                    await orders.receive(0)
                with pytest.raises(tiercel.IoTimeoutError):
                    await orders.receive(0)
                with pytest.raises(tiercel.IoTimeoutError):
                    await orders.peek(0)
                with pytest.raises(tiercel.IoTimeoutError):
                    await remote.queue(ORDERS, exclusive=True).peek(0)
                first, second, third = fake.requests(calls.OpenQueue)
                assert isinstance(first, calls.OpenQueue)
                assert first.queue.text == rf"TCP:{HOST}\private$\orders"
                assert (first.access, first.share_mode, first.client_id) == (1, 0, client_id)
                assert (first.is_non_routing_server, first.major, first.minor) == (1, 6, 1)
                assert first.build_number > 0
                assert isinstance(second, calls.OpenQueue)
                assert isinstance(third, calls.OpenQueue)
                assert (second.access, second.share_mode, second.client_id) == (0x20, 0, client_id)
                assert (third.access, third.share_mode) == (1, 1)

        play(scene())

    @pytest.mark.conformance("MQRR-018")
    @pytest.mark.parametrize("workgroup", [True, False])
    def test_says_whether_we_are_in_a_domain(self, workgroup: bool) -> None:
        async def scene() -> None:
            async with reading(workgroup=workgroup) as (fake, _, orders):
                await orders.purge()
                (opened,) = fake.requests(calls.OpenQueue)
                assert isinstance(opened, calls.OpenQueue)
                assert opened.is_workgroup == workgroup

        play(scene())

    @pytest.mark.conformance("MQRR-054", "MQRR-056")
    def test_that_fails_leaves_nothing_behind(self) -> None:
        async def scene() -> None:
            faults = [0xC00E0067, 0xC00E0003]

            async def refuse(_asked: Asked) -> Answer:
                return RpcFault(faults.pop(0)) if faults else calls.QueueOpened(fake._handle())

            async with reading({calls.OpenQueue: refuse}) as (fake, _, orders):
                with pytest.raises(tiercel.DependentClientLicenseOverflowError):
                    await orders.receive(0)
                with pytest.raises(tiercel.QueueNotFoundError):
                    await orders.receive(0)
                await orders.purge()
                assert fake.transcript() == ["OpenQueue"] * 3 + ["PurgeQueue"]

        play(scene())

    @pytest.mark.conformance("MQRR-137", "MQRR-138")
    def test_the_first_example_of_the_document(self) -> None:
        """4.1: open, purge, close; and what is closed is opened again when it is used."""

        async def scene() -> None:
            async with reading() as (fake, remote, orders):
                await orders.purge()
                await orders.close()
                await orders.purge()
                await remote.close()
                with pytest.raises(tiercel.ServiceNotAvailableError):
                    await orders.purge()
                assert fake.transcript() == ["OpenQueue", "PurgeQueue", "CloseQueue"] * 2
                _, purged, closed = fake.requests()[:3]
                assert isinstance(purged, calls.PurgeQueue)
                assert isinstance(closed, calls.CloseQueue)
                assert purged.handle == closed.handle

        play(scene())

    def test_a_queue_that_is_forgotten_is_closed(self) -> None:
        async def scene() -> None:
            async with reading() as (fake, remote, _):
                await remote.queue(ORDERS).purge()
                await fake.until(calls.CloseQueue)

        play(scene())


class TestReceiving:
    @pytest.mark.conformance("MQRR-141")
    def test_the_second_example_of_the_document(self) -> None:
        """4.2"""

        async def scene() -> None:
            answer = found(packet_of(b"tea", label="order 7", priority=5), sequence_id=0x33, abort_count=2)
            async with reading({calls.StartReceive: answer}) as (fake, _, orders):
                message = await orders.receive(timeout=5000)
                await fake.until(calls.EndReceive)
                assert (message.body, message.label, message.abort_count) == (b"tea", "order 7", 2)
                assert message.lookup_id == lookup_id(5, 0x33)
                assert message.arrival_time == SENT + 5
                assert message.is_complete
                _, start, end = fake.requests()
                assert isinstance(start, calls.StartReceive)
                assert (start.action, start.lookup_id, start.cursor) == (ReceiveAction.RECEIVE, 0, 0)
                assert 4_900_000 < start.timeout_ms <= 5_000_000
                assert (start.max_body_size, start.max_compound_message_size) == (INFINITE, INFINITE)
                assert end == calls.EndReceive(start.handle, RR_ACK, start.request_id)

        play(scene())

    @pytest.mark.parametrize(("timeout", "expected"), [(None, INFINITE), (0, 0), (1e12, INFINITE)])
    def test_for_so_long(self, timeout: float | None, expected: int) -> None:
        async def scene() -> None:
            async with reading({calls.StartReceive: found()}) as (fake, _, orders):
                await orders.receive(timeout)
                (start,) = fake.requests(calls.StartReceive)
                assert isinstance(start, calls.StartReceive)
                assert start.timeout_ms == expected

        play(scene())

    @pytest.mark.conformance("MQRR-141")
    def test_in_a_block(self) -> None:
        async def scene() -> None:
            async with reading({calls.StartReceive: found(packet_of(b"tea"))}) as (fake, _, orders):
                async with orders.receiving(timeout=5) as message:
                    assert message.body == b"tea"
                    assert not fake.requests(calls.EndReceive)
                with pytest.raises(ZeroDivisionError):
                    async with orders.receiving(timeout=5):
                        raise ZeroDivisionError
                ends = fake.requests(calls.EndReceive)
                assert [end.ack for end in ends if isinstance(end, calls.EndReceive)] == [RR_ACK, RR_NACK]

        play(scene())

    @pytest.mark.conformance("MQRR-011", "MQRR-030", "MQRR-031", "MQRR-141")
    @pytest.mark.parametrize("broken", ["null pointer", "alloc", "no section", "rubbish"])
    def test_what_cannot_be_rebuilt_is_given_back(self, broken: str) -> None:
        good = found().encode()
        (whole,) = found().sections
        size = len(whole.data).to_bytes(4, "little")
        answers: dict[str, calls.Response | bytes] = {
            # arrive time, pad, sequence, count, pointer, conformance, type, alloc, size, then the pointer
            "null pointer": good[:40] + bytes(4) + good[44:48] + bytes(4),
            "alloc": good.replace(size + size, (len(whole.data) + 8).to_bytes(4, "little") + size, 1),
            "no section": calls.Received(5, 5, ()),
            "rubbish": calls.Received(5, 5, (type(whole)(whole.type, 3, b"abc"),)),
        }

        async def scene() -> None:
            async with reading({calls.StartReceive: answers[broken]}) as (fake, _, orders):
                for _ in range(2):
                    with pytest.raises(tiercel.DecodeError):
                        await orders.receive(0)
                with pytest.raises(tiercel.DecodeError):
                    await orders.peek(0)
                ends = fake.requests(calls.EndReceive)
                assert [end.ack for end in ends if isinstance(end, calls.EndReceive)] == [RR_NACK] * 2

        play(scene())

    @pytest.mark.conformance("MQRR-046")
    def test_old_servers_send_nothing_after_the_message(self) -> None:
        async def scene() -> None:
            packet = packet_of(b"tea", time_to_reach_queue=INFINITE)
            (whole,) = found(packet).sections
            bare = calls.Received(5, 5, (type(whole)(whole.type, len(packet.data), packet.data),))
            async with reading({calls.StartReceive: bare}) as (_, _, orders):
                message = await orders.receive(0)
                assert (message.body, message.abort_count, message.sender_address) == (b"tea", 0, "")

        play(scene())

    @pytest.mark.conformance("MQRR-034")
    def test_the_time_to_reach_the_queue_is_a_span_again(self) -> None:
        async def scene() -> None:
            async with reading({calls.StartReceive: found(packet_of(time_to_reach_queue=60))}) as (
                _,
                _,
                orders,
            ):
                assert (await orders.receive(0)).time_to_reach_queue == 60

        play(scene())

    @pytest.mark.conformance("MQRR-142")
    def test_a_failing_acknowledgement_does_not_keep_the_message(self) -> None:
        """As Windows does; in a block the error is told, for there it can still be acted upon."""

        async def scene() -> None:
            script = {calls.StartReceive: found(packet_of(b"tea")), calls.EndReceive: calls.Done(0xC00E0006)}
            async with reading(script) as (fake, _, orders):
                assert (await orders.receive(0)).body == b"tea"
                assert len(fake.requests(calls.StartReceive)) == 1
                with pytest.raises(tiercel.InvalidParameterError):
                    async with orders.receiving(0):
                        pass

        play(scene())

    @pytest.mark.conformance("MQRR-144")
    def test_numbers_are_unique_among_all_that_wait(self) -> None:
        """Eight readers of each of three queues."""

        async def scene() -> None:
            live: Counter[int] = Counter()
            is_crowded = asyncio.Event()  # more than the readers of one queue wait at a time

            async def deliver(asked: Asked) -> Answer:
                assert isinstance(asked.request, calls.StartReceive)
                live[asked.request.request_id] += 1
                assert max(live.values()) == 1
                if live.total() > 8:
                    is_crowded.set()
                await is_crowded.wait()
                return found()

            async def end(asked: Asked) -> Answer:
                assert isinstance(asked.request, calls.EndReceive)
                live[asked.request.request_id] -= 1
                return calls.Done()

            async with reading({calls.StartReceive: deliver, calls.EndReceive: end}) as (_, remote, _):
                queues = [remote.queue(rf"private$\q{number}") for number in range(3)]

                async def work(queue: remote_aio.AsyncRemoteQueue) -> None:
                    for _ in range(5):
                        await queue.receive()

                await asyncio.gather(*(work(queue) for queue in queues for _ in range(8)))

        play(scene())


class TestPeeking:
    @pytest.mark.conformance("MQRR-139")
    def test_has_no_end(self) -> None:
        async def scene() -> None:
            async with reading({calls.StartReceive: found()}) as (fake, _, orders):
                await orders.peek(3000)
                await orders.peek(lookup_id=77)
                await orders.peek(lookup_id=77, seek=S.SEEK_NEXT)
                await orders.peek(lookup_id=77, seek=S.SEEK_PREVIOUS)
                await orders.peek(seek=S.SEEK_FIRST)
                await orders.peek(seek=S.SEEK_LAST)
                assert fake.transcript() == ["OpenQueue"] + ["StartReceive"] * 6
                starts = [each for each in fake.requests() if isinstance(each, calls.StartReceive)]
                assert 2_900_000 < starts[0].timeout_ms <= 3_000_000
                assert [(start.action, start.lookup_id) for start in starts] == [
                    (ReceiveAction.PEEK_CURRENT, 0),
                    (LookupAction.PEEK_CURRENT, 77),
                    (LookupAction.PEEK_NEXT, 77),
                    (LookupAction.PEEK_PREV, 77),
                    (ReceiveAction.PEEK_CURRENT, 0),
                    (LookupAction.PEEK_PREV, 0xFFFF_FFFF_FFFF_FFFF),
                ]
                assert {(start.timeout_ms, start.cursor) for start in starts[1:]} == {(0, 0)}

        play(scene())

    def test_by_lookup_id_it_receives_too(self) -> None:
        async def scene() -> None:
            async with reading({calls.StartReceive: found()}) as (fake, _, orders):
                await orders.receive(lookup_id=77, seek=S.SEEK_NEXT)
                await fake.until(calls.EndReceive)
                start, end = fake.requests(calls.StartReceive, calls.EndReceive)
                assert isinstance(start, calls.StartReceive)
                assert (start.action, start.lookup_id) == (LookupAction.RECEIVE_NEXT, 77)
                assert end == calls.EndReceive(start.handle, RR_ACK, start.request_id)
                with pytest.raises(tiercel.MessageNotFoundError):
                    await orders.receive(lookup_id=0)
            async with reading() as (_, _, orders):
                with pytest.raises(tiercel.MessageNotFoundError):
                    await orders.peek(seek=S.SEEK_FIRST)

        play(scene())

    @pytest.mark.conformance("MQRR-140")
    def test_at_a_part_of_the_body(self) -> None:
        async def scene() -> None:
            packet = packet_of(b"0123456789", label="long")
            cut = found(packet, limit=4, abort_count=3, dead_letter_queue=r"srv\private$\dead")
            assert len(cut.sections) == 2
            async with reading({calls.StartReceive: cut}) as (fake, _, orders):
                message = await orders.peek(0, max_body_size=4)
                assert (message.body, message.body_size, message.is_complete) == (b"0123", 10, False)
                assert (message.label, message.abort_count) == ("long", 3)
                assert str(message.dead_letter_queue) == r"srv\private$\dead"
                (start,) = fake.requests(calls.StartReceive)
                assert isinstance(start, calls.StartReceive)
                assert (start.max_body_size, start.max_compound_message_size) == (4, 4)

        play(scene())


class TestCursors:
    @pytest.mark.conformance("MQRR-139", "MQRR-145")
    def test_read_where_they_are(self) -> None:
        async def scene() -> None:
            async with reading({calls.StartReceive: found()}) as (fake, _, orders):
                cursor = await orders.cursor()
                await cursor.peek()
                await cursor.peek_next(1)
                await cursor.receive()
                await cursor.close()
                await cursor.close()
                with pytest.raises(tiercel.InvalidHandleError):
                    await cursor.peek()
                starts = [each for each in fake.requests() if isinstance(each, calls.StartReceive)]
                assert [(start.action, start.cursor) for start in starts] == [
                    (ReceiveAction.PEEK_CURRENT, 0x77),
                    (ReceiveAction.PEEK_NEXT, 0x77),
                    (ReceiveAction.RECEIVE, 0x77),
                ]
                handle = starts[0].handle
                assert fake.requests(calls.CreateCursor) == [calls.CreateCursor(handle)]
                assert fake.transcript()[-2:] == ["EndReceive", "CloseCursor"]
                assert fake.requests(calls.CloseCursor) == [calls.CloseCursor(handle, 0x77)]

        play(scene())

    @pytest.mark.conformance("MQRR-056")
    def test_one_that_failed_is_none(self) -> None:
        async def scene() -> None:
            script = {calls.CreateCursor: calls.CursorCreated(0x55, 0xC00E0027)}
            async with reading(script) as (fake, remote, orders):
                with pytest.raises(tiercel.InsufficientResourcesError):
                    await orders.cursor()
                await remote.close()
                assert not fake.requests(calls.CloseCursor)

        play(scene())

    def test_go_through_the_queue(self) -> None:
        async def scene() -> None:
            answers = [found(packet_of(b"1")), found(packet_of(b"2")), calls.Received.failed(0xC00E001B)]

            async def next_one(_asked: Asked) -> Answer:
                return answers.pop(0)

            async with reading({calls.StartReceive: next_one}) as (_, _, orders):
                assert [message.body async for message in await orders.cursor()] == [b"1", b"2"]

        play(scene())

    def test_who_may_only_look_has_them_too(self) -> None:
        async def scene() -> None:
            async def refuse(asked: Asked) -> Answer:
                assert isinstance(asked.request, calls.OpenQueue)
                return (
                    RpcFault(0xC00E0025) if asked.request.access == 1 else calls.QueueOpened(fake._handle())
                )

            async with reading({calls.OpenQueue: refuse}) as (fake, _, orders):
                await orders.cursor()

        play(scene())

    @pytest.mark.conformance("MQRR-147")
    def test_what_waits_at_one_is_cancelled_first(self) -> None:
        async def scene() -> None:
            cancelled = asyncio.Event()

            async def wait(_asked: Asked) -> Answer:
                await cancelled.wait()
                return calls.Received.failed(0xC00E0008)

            async def cancel(_asked: Asked) -> Answer:
                cancelled.set()
                return calls.Done()

            async with reading({calls.StartReceive: wait, calls.CancelReceive: cancel}) as (fake, _, orders):
                cursor = await orders.cursor()
                task = asyncio.create_task(cursor.peek(60))
                await fake.until(calls.StartReceive)
                await cursor.close()
                with pytest.raises(tiercel.OperationCancelledError):
                    await task
                assert fake.transcript()[-2:] == ["CancelReceive", "CloseCursor"]

        play(scene())


class TestMoving:
    @pytest.mark.conformance("MQRR-103", "MQRR-145")
    def test_opens_the_subqueue_for_it(self) -> None:
        async def scene() -> None:
            async with reading() as (fake, _, orders):
                await orders.move(77, "retry")
                source, target, move, close = fake.requests()
                assert isinstance(source, calls.OpenQueue)
                assert isinstance(target, calls.OpenQueueForMove)
                assert (target.access, target.share_mode) == (4, 0)
                assert target.queue.text == rf"TCP:{HOST}\private$\orders;retry"
                assert isinstance(move, calls.MoveMessage)
                assert (move.move_context, move.lookup_id, move.transaction) == (0x1002, 77, NULL_GUID)
                assert isinstance(close, calls.CloseQueue)
                assert close.handle != move.handle
                await orders.subqueue("retry").move(77, None)
                *_, back, _, _ = fake.requests()
                assert isinstance(back, calls.OpenQueueForMove)
                assert back.queue.text == rf"TCP:{HOST}\private$\orders"

        play(scene())

    def test_that_fails_closes_it_again(self) -> None:
        async def scene() -> None:
            async with reading({calls.MoveMessage: calls.Done(0xC00E0088)}) as (fake, _, orders):
                with pytest.raises(tiercel.MessageNotFoundError):
                    await orders.move(77, "retry")
                assert fake.transcript()[-1] == "CloseQueue"

        play(scene())


class TestTransactions:
    @pytest.mark.conformance("MQRR-116", "MQRR-126", "MQRR-143", "MQRR-145")
    def test_the_third_example_of_the_document(self) -> None:
        """4.3: one enlistment, then receives and moves with its id; a reject before the outcome."""

        async def scene() -> None:
            async with reading({calls.StartTransactionalReceive: found(sequence_id=9)}) as (
                fake,
                remote,
                orders,
            ):
                transaction = remote.transaction(b"TOKEN")
                message = await orders.receive(0, transaction=transaction)
                await remote.queue(r"private$\other").receive(0, transaction=transaction)
                await orders.move(message, "retry", transaction=transaction)
                await orders.reject(message)
                (enlisted,) = fake.requests(calls.EnlistRemoteTransaction)
                assert isinstance(enlisted, calls.EnlistRemoteTransaction)
                assert (enlisted.transaction, enlisted.token) == (transaction.id, b"TOKEN")
                assert enlisted.queue.text == rf"TCP:{HOST}\private$\orders"
                transcript = fake.transcript()
                assert transcript.index("EnlistRemoteTransaction") < transcript.index(
                    "StartTransactionalReceive"
                )
                assert "StartReceive" not in transcript
                assert "EndReceive" not in transcript
                starts = fake.requests(calls.StartTransactionalReceive)
                ends = fake.requests(calls.EndTransactionalReceive)
                assert len(starts) == len(ends) == 2
                for start, end in zip(starts, ends, strict=True):
                    assert isinstance(start, calls.StartTransactionalReceive)
                    assert start.transaction == transaction.id
                    assert end == calls.EndTransactionalReceive(start.handle, RR_ACK, start.request_id)
                (move,) = fake.requests(calls.MoveMessage)
                assert isinstance(move, calls.MoveMessage)
                assert (move.transaction, move.lookup_id) == (transaction.id, message.lookup_id)
                (reject,) = fake.requests(calls.SetUserAcknowledgementClass)
                assert isinstance(reject, calls.SetUserAcknowledgementClass)
                assert (reject.lookup_id, reject.message_class) == (message.lookup_id, 0xC004)

        play(scene())

    @pytest.mark.conformance("MQRR-143")
    def test_a_failing_end_is_told(self) -> None:
        async def scene() -> None:
            script = {
                calls.StartTransactionalReceive: found(),
                calls.EndTransactionalReceive: calls.Done(0xC00E0051),
            }
            async with reading(script) as (_, remote, orders):
                with pytest.raises(tiercel.TransactionSequenceError):
                    await orders.receive(0, transaction=remote.transaction(b""))

        play(scene())

    def test_one_that_cannot_be_enlisted_receives_nothing(self) -> None:
        async def scene() -> None:
            async with reading({calls.EnlistRemoteTransaction: calls.Done(0xC00E004C)}) as (
                fake,
                remote,
                orders,
            ):
                transaction = remote.transaction(b"")
                for _ in range(2):
                    with pytest.raises(tiercel.DtcConnectError):
                        await orders.receive(0, transaction=transaction)
                assert not fake.requests(calls.StartReceive)

        play(scene())

    @pytest.mark.conformance("MQRR-027")
    def test_their_ids_are_their_own_or_the_coordinator_s(self) -> None:
        async def scene() -> None:
            async with reading() as (_, remote, _):
                identifiers = {remote.transaction(b"").id for _ in range(1000)}
                assert len(identifiers) == 1000
                assert NULL_GUID not in identifiers
                given = UUID(int=0xD7C)
                assert remote.transaction(b"", given).id == given
                stub = calls.EnlistRemoteTransaction(given).encode()
                assert stub[:16] == given.bytes_le

        play(scene())


class TestOldServers:
    @pytest.mark.conformance("MQRR-009")
    def test_lack_what_came_later(self) -> None:
        """Windows Server 2003 has no operations 10 to 15."""

        async def scene() -> None:
            fault = RpcFault(NCA_S_OP_RNG_ERROR)
            later: dict[type[calls.Request], Any] = {
                kind: fault for opnum, kind in calls.REQUESTS.items() if opnum >= 10
            }
            async with reading(later | {calls.StartReceive: found()}) as (_, remote, orders):
                await orders.peek(0)
                await orders.receive(0)
                await orders.purge()
                for use in (
                    lambda: orders.receive(0, transaction=remote.transaction(b"")),
                    lambda: orders.move(77, "retry"),
                    lambda: orders.reject(77),
                ):
                    with pytest.raises(
                        tiercel.OperationNotSupportedByRemoteComputerError, match="operation 1"
                    ):
                        await use()
                await orders.purge()

        play(scene())
