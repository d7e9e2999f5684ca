"""[MS-MQDMPR] 3.1.1.3 to 3.1.1.5: what queues show of the sessions that serve them."""

from uuid import UUID

import pytest

from tiercel.binary.actions import Action
from tiercel.binary.settings import Settings
from tiercel.engine.machine import Write
from tiercel.model.codes import ConnectionStatus, OutgoingQueueState
from tiercel.model.format_name import FormatName
from tiercel.model.identifiers import MessageId, TxSequenceId
from tiercel.model.message import Message
from tiercel.wire.message import encode_message
from tiercel.wire.order_ack import build_order_ack

from .loopback import NOW, Pair, Side


@pytest.fixture
def pair() -> Pair:
    return Pair()


class TestOutgoingQueue:
    """3.1.1.3."""

    @pytest.mark.conformance("DMPR-053")
    def test_the_next_hops_are_unknown_until_they_are_resolved(self, pair: Pair) -> None:
        pair.left.send(b"1")
        assert pair.left.outgoing().next_hops is None
        pair.refuses = True
        pair.settle()
        assert pair.left.outgoing().next_hops == ["IP=192.0.2.2"]

    @pytest.mark.conformance("DMPR-055")
    def test_its_states_from_connecting_to_disconnected(self, pair: Pair) -> None:
        assert {each.value for each in OutgoingQueueState} == {
            *("CONNECTED", "DISCONNECTED", "DISCONNECTING", "INACTIVE"),
            *("LOCKED", "NEED VALIDATION", "WAITING", "ONHOLD"),
        }
        pair.left.send(b"1")
        pair.settle()
        pair.sleep(1)
        pair.sleep(1)
        assert (pair.left.outgoing().message_count, pair.right.state().count) == (0, 1)
        pair.cut()
        pair.is_nameless = True
        pair.left.send(b"2")
        pair.settle()
        pair.is_nameless = False
        pair.sleep(60)
        assert pair.right.state().count == 2
        assert pair.left.states == [
            OutgoingQueueState.INACTIVE,
            OutgoingQueueState.WAITING,
            OutgoingQueueState.CONNECTED,
            OutgoingQueueState.DISCONNECTED,
            OutgoingQueueState.NEED_VALIDATION,
            OutgoingQueueState.WAITING,
            OutgoingQueueState.CONNECTED,
        ]

    @pytest.mark.conformance("DMPR-057")
    def test_its_history_tells_each_attempt(self, pair: Pair) -> None:
        pair.refuses = True
        pair.left.send(b"1")
        pair.settle()
        pair.refuses = False
        pair.sleep(60)
        history = [
            (each.status, each.connection_history_time, each.error, each.address_list)
            for each in pair.left.outgoing().connection_history
        ]
        there = ("192.0.2.2",)
        assert history[0] == (ConnectionStatus.CONNECTION_REFUSED, NOW, 10061, there)
        assert history[-1] == (ConnectionStatus.ESTABLISHED, NOW + 60, 0, there)


def loses_the_answers(side: Side, action: Action) -> bool:
    return isinstance(action, Write) and side is side.pair.right and bool(side.state("tx").count)


class TestOutgoingTransferInfo:
    """3.1.1.4."""

    @pytest.mark.conformance("DMPR-058")
    def test_it_tells_what_is_acknowledged_and_what_is_not(self, pair: Pair) -> None:
        left, right = pair.left, pair.right
        pair.drop = loses_the_answers
        left.send(b"1", b"2", b"3", queue="tx")
        pair.settle()
        assert right.state("tx").count == 3
        info = left.outgoing("tx").transfer_info
        assert info.outgoing_queue is left.outgoing("tx")
        (connection,) = left.ends
        sequence = info.eod_next_seq.sequence_id
        number = sequence.timestamp << 32 | sequence.ordinal
        ack = build_order_ack(MessageId(right.identifier, 99), int(NOW), left.identifier, number, 1)
        left.run(lambda: left.protocol.received(connection, ack.data))
        assert [
            each.number
            for each in (info.eod_first_non_ack, info.eod_last_non_ack, info.eod_last_ack, info.eod_next_seq)
        ] == [2, 3, 1, 4]
        assert (info.eod_no_ack_count, info.eod_last_ack_count, info.eod_last_ack_time) == (2, 1, NOW)


class TestIncomingTransactionalTransferInfo:
    """3.1.1.5."""

    def arrive(self, pair: Pair, sender: UUID, number: int, previous: int) -> None:
        """A message of a stream, as if a sender had connected and sent it."""
        right = pair.right
        message = Message(
            bytes([number]),
            destination_queue=FormatName.parse(rf"DIRECT=TCP:{right.address}\private$\tx"),
            id=MessageId(sender, number),
            sent_time=int(pair.now),
            transaction_id=1,
            tx_sequence_id=TxSequenceId(1, 1),
            tx_sequence_number=number,
            previous_tx_sequence_number=previous,
        )
        (connection,) = right.ends
        packet = encode_message(message)
        right.run(lambda: right.protocol.received(connection, packet))

    @pytest.mark.conformance("DMPR-060")
    def test_one_for_each_stream_of_a_sender(self, pair: Pair) -> None:
        pair.left.send(b"hello")  # so that there is a session, with a router
        pair.settle()
        pair.right.protocol.change_settings(Settings(in_routing_servers=(pair.left.address,)))
        one, two = UUID(int=1), UUID(int=2)
        self.arrive(pair, one, 1, 0)
        pair.now += 5
        self.arrive(pair, two, 1, 0)
        for rejected in (1, 2):
            self.arrive(pair, two, 3, 2)  # the second is missing
            assert self.infos(pair) == {one: (1, 0, NOW), two: (1, rejected, NOW + 5)}
        self.arrive(pair, two, 2, 1)
        assert self.infos(pair) == {one: (1, 0, NOW), two: (2, 0, NOW + 5)}
        assert pair.right.state("tx").count == 3

    def infos(self, pair: Pair) -> dict[UUID, tuple[int, int, float]]:
        right = pair.right
        state = right.state("tx")
        infos = right.run(lambda: right.engine.arrivals.streams.infos(state))
        assert all(each.queue is state.queue for each in infos)
        assert {str(each.format_name) for each in infos} == {rf"DIRECT=TCP:{right.address}\private$\tx"}
        assert {each.sequence_identifier for each in infos} == {TxSequenceId(1, 1)}
        return {
            each.sender_identifier: (each.sequence_number, each.reject_count, each.last_access_time)
            for each in infos
        }


class TestOffline:
    @pytest.mark.conformance("DMPR-022", "DMPR-149")
    def test_an_offline_queue_manager_refuses_sessions_until_it_is_online_again(self, pair: Pair) -> None:
        pair.right.engine.administration.take_offline()
        pair.left.send(b"1")
        pair.settle()
        assert pair.right.state().count == 0
        assert pair.left.outgoing().connection_history[-1].status is ConnectionStatus.CONNECTION_REFUSED
        pair.right.engine.administration.bring_online()
        pair.sleep(60)
        assert pair.right.state().count == 1
