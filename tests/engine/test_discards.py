"""Nothing is dropped silently: every way in which a message ends, and the line that stays of it."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from tiercel.engine import discards
from tiercel.engine.arrivals import Source
from tiercel.engine.core import Refused
from tiercel.engine.discards import Discard
from tiercel.model.codes import MessageClass, QueueAccess
from tiercel.model.errors import MqError
from tiercel.model.format_name import FormatName
from tiercel.model.identifiers import MessageId
from tiercel.model.message import Message
from tiercel.store.memory_store import MemoryStore
from tiercel.wire.alike import Alike
from tiercel.wire.structure import encode_guid

from .harness import NOW, Box, World, foreign_packet

LABEL = "order 7"


def expire(world: World, box: Box) -> None:
    box.send(b"body", label=LABEL, time_to_be_received=1)
    world.sleep(1)


def expire_on_the_way(world: World, _box: Box) -> None:
    world.box(r"DIRECT=OS:there\private$\q").send(b"body", label=LABEL, time_to_reach_queue=0)
    world.sleep(1)


def come_too_late(_world: World, box: Box) -> None:
    box.arrive(b"body", label=LABEL, sent_time=NOW - 10, time_to_reach_queue=1)


def purge(_world: World, box: Box) -> None:
    box.send(b"body", label=LABEL)
    box.purge()


def delete(_world: World, box: Box) -> None:
    box.send(b"body", label=LABEL)
    box.delete()


def overflow(_world: World, box: Box) -> None:
    box.set(quota_kib=0)
    with pytest.raises(MqError):
        box.send(b"body", label=LABEL)


def send_in_a_transaction(world: World, box: Box) -> None:
    with pytest.raises(MqError):
        box.send(b"body", label=LABEL, transaction=world.begin())


def send_unsigned(_world: World, box: Box) -> None:
    box.set(authentication=True)
    with pytest.raises(MqError):
        box.send(b"body", label=LABEL)


def arrive_at_a_full_queue(_world: World, box: Box) -> None:
    box.set(quota_kib=0)
    box.arrive(b"body", label=LABEL)


def arrive_nowhere(world: World, box: Box) -> None:
    box.delete()
    box.arrive(b"body", label=LABEL)
    assert world.engine.queues.find(box.name) is None


def arrive_in_a_transaction(_world: World, box: Box) -> None:
    box.arrive(b"body", label=LABEL, transaction_id=3)


def reject(world: World, box: Box) -> None:
    box.send(b"body", label=LABEL)
    taken, opened = box.take(), box.receiving
    world.run(lambda: world.engine.reading.reject(opened, taken.lookup_id))


def lose_the_journal_copy(world: World, box: Box) -> None:
    world.set(journal_quota_kib=0)
    box.send(b"body", label=LABEL, positive_journaling=True)


End = Callable[[World, Box], None]
ENDS: list[tuple[End, MessageClass]] = [
    (expire, MessageClass.NACK_RECEIVE_TIMEOUT),
    (expire_on_the_way, MessageClass.NACK_REACH_QUEUE_TIMEOUT),
    (come_too_late, MessageClass.NACK_REACH_QUEUE_TIMEOUT),
    (purge, MessageClass.NACK_Q_PURGED),
    (delete, MessageClass.NACK_Q_DELETED),
    (overflow, MessageClass.NACK_Q_EXCEED_QUOTA),
    (send_in_a_transaction, MessageClass.NACK_NOT_TRANSACTIONAL_Q),
    (send_unsigned, MessageClass.NACK_BAD_SIGNATURE),
    (arrive_at_a_full_queue, MessageClass.NACK_Q_EXCEED_QUOTA),
    (arrive_nowhere, MessageClass.NACK_BAD_DST_Q),
    (arrive_in_a_transaction, MessageClass.NACK_NOT_TRANSACTIONAL_Q),
    (reject, MessageClass.NACK_RECEIVE_REJECTED),
    (lose_the_journal_copy, MessageClass.NACK_Q_EXCEED_QUOTA),
]


class TestEveryEnd:
    @pytest.mark.parametrize(("end", "reason"), ENDS, ids=[end.__name__ for end, _ in ENDS])
    def test_it_leaves_one_line_that_outlives_a_kill(
        self, durable_world: World, end: End, reason: MessageClass
    ) -> None:
        box = durable_world.create("q")
        durable_world.sleep(3)
        end(durable_world, box)
        for _ in range(2):
            (line,) = durable_world.discards()
            assert (line.message_class, line.label) == (reason, LABEL)
            assert line.time in {NOW + 3, NOW + 4}
            assert line.size > len(b"body")
            assert MessageId.parse(line.message_id).uniquifier > 0
            assert line.queue
            assert " " in line.reason
            durable_world.kill()

    def test_a_received_message_leaves_none(self, world: World) -> None:
        box = world.create("q", journaling=True)
        box.send(b"1")
        box.receive()
        box.send(b"2")
        box.end(box.take(), delete=True)
        assert world.discards() == []

    def test_an_express_message_that_a_restart_loses_is_nobodys_discard(self, world: World) -> None:
        world.create("q").send(b"1", delivery=0)
        world.restart()
        assert world.discards() == []


class TestTheLedger:
    def test_it_is_bounded_and_the_newest_lines_stay(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(discards, "LEDGER_LINES", 10)
        box = world.create("q")
        for n in range(25):
            box.send(b"", label=str(n))
            box.purge()
        assert [line.label for line in world.discards()] == [str(n) for n in range(15, 25)]
        world.kill()
        box.send(b"", label="after")
        box.purge()
        assert [line.label for line in world.discards()] == [*(str(n) for n in range(16, 25)), "after"]

    def test_in_a_full_store_a_few_lines_stand_for_all(self) -> None:
        world = World(store=(store := MemoryStore()))
        store.max_bytes = 1

        def refuse() -> None:
            for number in range(10):
                for _ in range(11 - number):
                    world.engine.ledger.add_sentence(f"queue {number}", 0, "no room")

        world.run(refuse)
        assert [(line.queue, line.reason) for line in world.discards()] == [
            *((f"queue {number}", f"{11 - number} messages: no room") for number in range(8)),
            ("", "5 messages of other queues, or for other reasons"),
        ]
        for _ in range(10):
            world.run(refuse)
        assert len(world.discards()) < 45, "new lines take the place of old ones"

    def test_lines_of_the_running_batch_are_seen(self, world: World) -> None:
        box = world.create("q")
        opened = box.open(QueueAccess.SEND)
        world.engine.begin(world.now)
        for _ in range(2):
            world.engine.sending.send(opened, Message(b"", time_to_be_received=0))
            world.engine.begin(world.now)
        assert len(list(world.engine.ledger.lines())) == 2
        world.engine.commit()
        assert len(world.discards()) == 2

    def test_a_line_is_written_with_the_batch_that_ends_the_message(self, world: World) -> None:
        box = world.create("q")
        box.send(b"1")
        opened = box.receiving
        world.engine.begin(world.now)
        world.engine.purging.purge(opened)
        world.kill()
        assert (box.bodies(), world.discards()) == ([b"1"], [])

    def test_a_line_says_everything(self, world: World) -> None:
        box = world.create("q")
        sent = box.send(b"x" * 10, label=LABEL)
        size = box.state.size_bytes
        world.sleep(2)
        box.purge()
        assert world.discards() == [
            Discard(
                time=NOW + 2,
                queue=r"queue HERE\private$\q",
                message_id=str(sent),
                label=LABEL,
                size=size,
                message_class=MessageClass.NACK_Q_PURGED,
                reason="the queue was purged before the message was received",
            )
        ]

    def test_the_newest_first(self, world: World) -> None:
        box = world.create("q")
        for number in range(5):
            box.send(label=f"{number}")
            box.purge()

        def newest(before: int | None, limit: int) -> list[tuple[int, str]]:
            found = world.run(lambda: list(world.engine.ledger.newest(before, limit)))
            return [(number, line.label) for number, line in found]

        assert newest(None, 2) == [(5, "4"), (4, "3")]
        assert newest(4, 9) == [(3, "2"), (2, "1"), (1, "0")]
        assert newest(1, 9) == []
        assert world.engine.ledger.counts == {MessageClass.NACK_Q_PURGED: 5}


FAR = FormatName.parse(r"DIRECT=TCP:192.0.2.9\private$\far")
DAY_S = 86400


class TestWhatOthersReport:
    """A message of ours that another computer has refused: its acknowledgement is all that comes back."""

    def report(self, world: World, lineage: UUID, reason: int, **more: Any) -> None:
        admin = world.create("admin")
        packet = foreign_packet(
            message_class=reason,
            correlation_id=encode_guid(lineage) + (77).to_bytes(4, "little"),
            response_queue=FAR,
            destination_queue=admin.name,
            **more,
        )
        arrivals, source = world.engine.arrivals, Source(UUID(int=0xBEEF), "192.0.2.9", True)
        world.run(lambda: arrivals.arrive([Alike(packet)], source))
        assert len(admin.messages()) == 1

    def test_a_negative_acknowledgement_leaves_a_line(self, world: World) -> None:
        own = world.engine.queue_manager.identifier
        self.report(world, own, MessageClass.NACK_BAD_DST_Q)
        (line,) = world.discards()
        assert (line.message_id, line.queue) == (str(MessageId(own, 77)), str(FAR))
        assert line.reason == "another queue manager reports: the destination queue does not exist"

    @pytest.mark.parametrize(("days", "words"), [(5, "5 days ahead of ours"), (-5, "5 days behind ours")])
    def test_it_tells_that_the_clocks_differ(self, world: World, days: int, words: str) -> None:
        own = world.engine.queue_manager.identifier
        more = {"sent_time": NOW + days * DAY_S, "time_to_reach_queue": 0xFFFF_FFFF}
        self.report(world, own, MessageClass.NACK_REACH_QUEUE_TIMEOUT, **more)
        assert world.discards()[0].reason.endswith(f"did not reach its queue in time; its clock is {words}")

    def test_two_reports_of_one_message_are_one_line(self, world: World) -> None:
        box = world.create("q")
        identifier = box.send(b"x")
        box.purge()
        ledger = world.engine.ledger
        world.run(lambda: ledger.add_learned("far", identifier, MessageClass.NACK_Q_PURGED))
        assert len(world.discards()) == 1

    @pytest.mark.parametrize("reason", [MessageClass.ACK_REACH_QUEUE, 0x8FFF])
    def test_others_leave_none(self, world: World, reason: int) -> None:
        self.report(world, world.engine.queue_manager.identifier, reason)
        assert world.discards() == []

    def test_nor_does_one_for_a_message_of_somebody_else(self, world: World) -> None:
        self.report(world, UUID(int=0xBEEF), MessageClass.NACK_BAD_DST_Q)
        assert world.discards() == []


class TestRefusals:
    def test_each_is_an_event_for_the_log(self, world: World) -> None:
        box = world.create("q", transactional=True)
        box.arrive(b"x")
        (refused,) = (each for each in world.effects if isinstance(each, Refused))
        assert refused.reason == "the queue is transactional and the message is not"
        assert "private$" in refused.queue

    def test_a_sender_whose_clock_is_days_behind_is_named(self, world: World) -> None:
        world.create("q").arrive(b"x", sent_time=NOW - 5 * DAY_S - 1, time_to_reach_queue=1)
        (refused,) = (each for each in world.effects if isinstance(each, Refused))
        expected = (
            "the message did not reach its queue in time; it is late by 5 days: check the clock of its sender"
        )
        assert refused.reason == expected == world.discards()[0].reason
