"""Streams of transactional messages are listed, and a blocked one is repaired."""

import pytest

from binary.nodes import Hand, Net, Qm
from engine.harness import Box
from tiercel.admin import streams
from tiercel.model.errors import InvalidParameterError, MessageNotFoundError
from tiercel.model.identifiers import TxSequenceId

DAY = 86_400


@pytest.fixture
def queue(here: Qm) -> Box:
    return here.create("orders", transactional=True)


def listed(here: Qm) -> list[dict[str, object]]:
    found: list[dict[str, object]] = here.run(lambda: streams.all_streams(here.engine))["streams"]
    return found


class TestList:
    def test_incoming(self, net: Net, here: Qm, hand: Hand, queue: Box) -> None:
        name, early = here.name_of("orders"), TxSequenceId(int(net.now) + 2 * DAY, 7)
        hand.call(here).send(*(hand.transactional(name, number) for number in (1, 2, 2)))
        (row,) = listed(here)
        expected = {"direction": "in", "queue": "orders", "peer": str(hand.guid), "number": 2, "rejected": 1}
        assert expected.items() <= row.items()
        assert (row["sequence"], row["problem"]) == ("1.1", None)
        hand.send(hand.transactional(name, 1, tx_sequence_id=early))
        (row,) = listed(here)
        assert (row["sequence"], row["rejected"]) == ("1.1", 2)
        assert "more than a day ahead of this computer's clock" in str(row["problem"])
        hand.send(hand.transactional(name, 3))
        assert listed(here)[0]["problem"] is None
        assert queue.bodies() == [b"1", b"2", b"3"]

    def test_a_list_changes_nothing(self, here: Qm, hand: Hand, queue: Box) -> None:
        """What is taken after it is remembered over a crash, as ever."""
        name = here.name_of("orders")
        hand.call(here).send(hand.transactional(name, 1))
        here.kill()
        listed(here)
        hand.call(here).send(hand.transactional(name, 2))
        here.kill()
        hand.call(here).send(hand.transactional(name, 2))
        assert queue.bodies() == [b"1", b"2"]

    def test_outgoing(self, net: Net, here: Qm, hand: Hand) -> None:
        net.down.add(hand.address)
        here.send_together((here.to(hand, "q"), b"1"), (here.to(hand, "q"), b"2"))
        net.settle()
        (row,) = listed(here)
        expected = {"direction": "out", "peer": None, "number": 2, "sent": 0, "acknowledged": 0, "unread": 0}
        assert expected.items() <= row.items()
        net.down.clear()
        net.sleep(10)
        hand.ack()
        hand.order_ack(hand.messages[0])
        (row,) = listed(here)
        expected = {"peer": str(hand.guid), "number": 2, "sent": 2, "acknowledged": 1}
        assert expected.items() <= row.items()


class TestReset:
    @pytest.mark.parametrize("is_killed", [False, True])
    def test_a_blocked_sender_goes_on(
        self, net: Net, here: Qm, hand: Hand, queue: Box, is_killed: bool
    ) -> None:
        name, now = here.name_of("orders"), int(net.now)
        hand.call(here).send(hand.transactional(name, 1, tx_sequence_id=TxSequenceId(now, 0xFFFF_FFFF)))
        blocked = hand.transactional(name, 1, body=b"blocked", tx_sequence_id=TxSequenceId(now, 1))
        hand.send(blocked)
        assert queue.bodies() == [b"1"]
        done = here.run(lambda: streams.reset(here.engine, "orders", str(hand.guid)))
        assert done == {"queue": "orders", "peer": str(hand.guid), "reset": 1}
        assert listed(here) == []
        if is_killed:
            here.kill()
            hand.call(here)
        net.sleep(1)
        hand.send(blocked)
        net.sleep(1)
        assert queue.bodies() == [b"1", b"blocked"]
        assert hand.order_acks[-1] == (now << 32 | 1, 1)

    def test_others_are_left_alone(self, net: Net, here: Qm, hand: Hand, queue: Box) -> None:
        other = net.hand()
        for each in (hand, other):
            each.call(here).send(each.transactional(here.name_of("orders"), 1))
        here.run(lambda: streams.reset(here.engine, "orders", str(hand.guid)))
        assert [row["peer"] for row in listed(here)] == [str(other.guid)]
        assert queue.state.count == 2

    @pytest.mark.usefixtures("queue")
    def test_what_is_not_there(self, here: Qm, hand: Hand) -> None:
        with pytest.raises(MessageNotFoundError, match="has no stream into this queue"):
            here.run(lambda: streams.reset(here.engine, "orders", str(hand.guid)))
        with pytest.raises(InvalidParameterError, match="not the GUID of a queue manager"):
            here.run(lambda: streams.reset(here.engine, "orders", "nonsense"))
