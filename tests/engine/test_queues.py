"""[MS-MQDMPR] 3.1.1.2, 3.1.7.1.3, 3.1.7.1.4 and 3.1.7.1.33: queues, how they are made and unmade."""

from dataclasses import fields
from typing import Any
from uuid import UUID

import pytest

from tiercel.model.codes import (
    DeliveryGuarantee,
    MessageClass,
    QueueAccess,
    QueuePrivacyLevel,
    QueueScope,
    QueueType,
)
from tiercel.model.errors import MqError
from tiercel.model.format_name import PrivateFormatName
from tiercel.model.identifiers import NULL_GUID
from tiercel.model.limits import INFINITE
from tiercel.model.path_name import PathName
from tiercel.model.queue import DirectoryObject, OutgoingQueue, Queue
from tiercel.model.queue_manager import (
    ConnectedNetwork,
    Enterprise,
    QueueManager,
    RoutingLink,
    Site,
    User,
)
from tiercel.model.sid import EVERYONE
from tiercel.security.descriptor import SecurityDescriptor

from .harness import ALICE, ALL_ACKNOWLEDGEMENTS, NOW, SYSTEM, Box, World, refused

TYPE = UUID("12345678-1234-5678-1234-567812345678")
TWELVE: dict[str, Any] = {
    "label": "orders of the day",
    "type": TYPE,
    "journaling": True,
    "quota_kib": 77,
    "journal_quota_kib": 88,
    "authentication": True,
    "privacy_level": QueuePrivacyLevel.BODY,
    "transactional": True,
    "multicast_address": "224.1.1.1:8001",
    "base_priority": -5,
}


@pytest.fixture
def box(world: World) -> Box:
    return world.create("q")


class TestSetQueueDefaults:
    """3.1.7.1.33."""

    @pytest.mark.conformance("DMPR-169")
    def test_every_default(self, world: World) -> None:
        queue = world.create("q", ALICE).state.queue
        defaults = {name: getattr(queue, name) for name in TWELVE}
        assert defaults == {
            "label": "",
            "type": NULL_GUID,
            "journaling": False,
            "quota_kib": INFINITE,
            "journal_quota_kib": INFINITE,
            "authentication": False,
            "privacy_level": QueuePrivacyLevel.OPTIONAL,
            "transactional": False,
            "multicast_address": None,
            "base_priority": 0,
        }
        assert queue.security is not None
        assert SecurityDescriptor.decode(queue.security).dacl


class TestCreateQueue:
    """3.1.7.1.3."""

    @pytest.mark.conformance("DMPR-155")
    @pytest.mark.parametrize(
        "path",
        [
            "HERE\\private$\\",
            r".\private$\a;b;c",
            r".\private$\a,b",
            ".\\private$\\a\nb",
            r".\private$\a\b",
            "nothing",
        ],
    )
    def test_an_impossible_path_creates_nothing(self, world: World, path: str) -> None:
        before = len(list(world.engine.queues.all()))
        with pytest.raises(MqError):
            world.run(lambda: world.engine.queues.create(PathName.parse(path), SYSTEM))
        assert len(list(world.engine.queues.all())) == before

    @pytest.mark.conformance("DMPR-155")
    @pytest.mark.parametrize(
        "path", [r".\private$\q;sub", r".\private$\q;JOURNAL", r".\system$;JOURNAL", r"there\private$\q"]
    )
    def test_what_comes_by_itself_or_is_elsewhere_is_not_created(self, world: World, path: str) -> None:
        with refused(0xC00E0014):
            world.create(path)

    def test_a_name_is_taken_once_in_any_case(self, box: Box) -> None:
        with refused(0xC00E0005):
            box.world.create("Q")
        with refused(0xC00E0005):
            box.world.create(r"HERE\private$\q")

    @pytest.mark.conformance("DMPR-156", "DMPR-030")
    @pytest.mark.parametrize("left_out", ["transactional", "multicast_address"])  # they exclude each other
    def test_all_attributes_come_from_the_template_and_outlive_a_restart(
        self, durable_world: World, left_out: str
    ) -> None:
        security = SecurityDescriptor.parse("O:WDG:WDD:(A;;GA;;;WD)").encode()
        given = {name: value for name, value in TWELVE.items() if name != left_out}
        box = durable_world.create("q", security=security, **given)
        before = box.state.queue
        kept = {name: getattr(before, name) for name in TWELVE}
        assert kept == {left_out: kept[left_out]} | given
        assert before.pathname == PathName.parse(r"HERE\private$\q")
        assert before.security is not None
        assert SecurityDescriptor.decode(before.security).dacl == SecurityDescriptor.decode(security).dacl
        for _ in range(2):
            durable_world.restart()
            after = box.state.queue
            assert {name: getattr(after, name) for name in TWELVE} == kept
            assert after.identifier == before.identifier
            assert after.security == before.security

    @pytest.mark.conformance("DMPR-157", "DMPR-047", "DMPR-048")
    def test_a_queue_has_a_journal_and_a_subqueue_has_none(self, world: World, box: Box) -> None:
        assert box.journal.bodies() == []
        assert box.state.queue.journal_queue is not None
        sub = box.subqueue("s")
        sub.open(QueueAccess.MOVE)
        assert (sub.state.journal, sub.state.queue.journal_queue) == (None, None)
        assert list(box.state.subqueues) == ["s"]
        assert world.create("other").state.subqueues == {}

    @pytest.mark.conformance("DMPR-158", "DMPR-045")
    def test_the_type_follows_from_the_path(self, durable_world: World) -> None:
        private, public = durable_world.create(r".\private$\q"), durable_world.create(r".\q")
        for _ in range(2):
            assert private.state.queue.queue_type is QueueType.PRIVATE
            assert public.state.queue.queue_type is QueueType.PUBLIC
            assert durable_world.journal.state.queue.queue_type is QueueType.SYSTEM
            durable_world.restart()

    @pytest.mark.conformance("DMPR-159", "DMPR-031", "DMPR-026")
    def test_the_other_attributes_of_a_new_queue(self, durable_world: World) -> None:
        box = durable_world.create(r"HERE\private$\q")
        state = box.state
        queue = state.queue
        assert (queue.active, state.size_bytes, state.count) == (False, 0, 0)
        assert (state.subqueues, state.handles, state.waiters) == ({}, {}, [])
        assert queue.create_time == queue.modify_time == NOW
        assert (queue.scope, queue.full_path, queue.directory_path) == (QueueScope.ENTERPRISE, "", "")
        assert str(queue.pathname) == r"HERE\private$\q"
        assert str(queue.qualified_pathname) == r"here.example.test\private$\q"
        assert isinstance(queue.private_queue_number, int)
        assert queue.queue_manager is durable_world.engine.queue_manager
        own = durable_world.engine.queue_manager.identifier
        by_number = durable_world.box(rf"PRIVATE={own}\{queue.private_queue_number:08x}")
        assert by_number.state is state
        durable_world.restart()
        again = box.state.queue
        compared = {each.name for each in fields(Queue)} - {"queue_manager", "journal_queue"}
        for name in compared:
            assert getattr(again, name) == getattr(queue, name), name

    @pytest.mark.conformance("DMPR-032")
    def test_private_queue_numbers_are_unique_and_stay(self, durable_world: World) -> None:
        boxes = [durable_world.create(f"q{n}") for n in range(100)]
        numbers = [box.state.queue.private_queue_number for box in boxes]
        assert (len(set(numbers)), None in numbers) == (100, False)
        durable_world.restart()
        assert [box.state.queue.private_queue_number for box in boxes] == numbers
        assert durable_world.create("later").state.queue.private_queue_number not in numbers
        public = durable_world.create(r".\public")
        assert public.state.queue.private_queue_number is None
        assert durable_world.journal.state.queue.private_queue_number is None

    def test_a_public_queue_needs_no_directory_here(self, world: World) -> None:
        box = world.create(r".\public")
        box.send(b"1")
        assert world.box(f"PUBLIC={box.state.queue.identifier}").bodies() == [b"1"]


class TestProperties:
    @pytest.mark.conformance("DMPR-030")
    def test_a_change_moves_the_modify_time_and_nothing_else(self, durable_world: World) -> None:
        box = durable_world.create("q", type=TYPE)
        identifier = box.state.queue.identifier
        durable_world.sleep(5)
        box.set(label="new", quota_kib=9)
        for _ in range(2):
            queue = box.state.queue
            assert (queue.label, queue.quota_kib, queue.type) == ("new", 9, TYPE)
            assert (queue.create_time, queue.modify_time) == (NOW, NOW + 5)
            assert queue.identifier == identifier
            durable_world.restart()

    @pytest.mark.conformance("DMPR-002")
    def test_identifiers_are_unique_and_outlive_changes_and_restarts(self, durable_world: World) -> None:
        one, two = durable_world.create("one"), durable_world.create("two")

        def identifiers() -> list[UUID]:
            states = [state.queue for state in durable_world.engine.queues.all()]
            return [durable_world.engine.queue_manager.identifier, *(queue.identifier for queue in states)]

        before = identifiers()
        assert len(set(before)) == len(before)
        assert NULL_GUID not in before
        one.set(label="new", quota_kib=9)
        two.set(label="other", quota_kib=7)
        assert identifiers() == before
        durable_world.restart()
        assert identifiers() == before

    @pytest.mark.conformance("DMPR-002")
    @pytest.mark.parametrize(
        "entity",
        [
            QueueManager(identifier=TYPE, computer_name="A"),
            Queue(identifier=TYPE, pathname=PathName.parse(r".\q")),
            Enterprise(identifier=TYPE, name="e"),
            Site(identifier=TYPE, name="s"),
            RoutingLink(identifier=TYPE),
            ConnectedNetwork(identifier=TYPE, name="n"),
            User(identifier=TYPE, security_identifier=EVERYONE),
        ],
        ids=lambda entity: type(entity).__name__,
    )
    def test_an_identifier_cannot_be_assigned(self, entity: DirectoryObject) -> None:
        assert isinstance(entity, DirectoryObject)
        with pytest.raises(MqError):
            entity.identifier = NULL_GUID
        assert entity.identifier == TYPE

    @pytest.mark.conformance("DMPR-002")
    def test_journals_keep_theirs_too(self, durable_world: World) -> None:
        box = durable_world.create("q")
        journal = box.state.queue.journal_queue
        assert journal is not None
        durable_world.restart()
        again = box.state.queue.journal_queue
        assert again is not None
        assert (again.identifier, again.create_time) == (journal.identifier, journal.create_time)

    @pytest.mark.parametrize(
        ("name", "value"),
        [("quota_kib", -1), ("label", "x" * 125), ("transactional", True), ("nonsense", 1), ("label", 7)],
    )
    def test_an_impossible_value_changes_nothing(self, box: Box, name: str, value: object) -> None:
        with pytest.raises(MqError):
            box.set(base_priority=3, **{name: value})
        queue = box.state.queue
        assert (queue.base_priority, queue.quota_kib, queue.label) == (0, INFINITE, "")


class TestQueueCollection:
    """3.1.1.1."""

    @pytest.mark.conformance("DMPR-026")
    def test_it_holds_the_live_queues_and_each_knows_its_queue_manager(self, durable_world: World) -> None:
        made = [durable_world.create(name) for name in ("a", "b", r".\c")]
        durable_world.box(r"DIRECT=OS:there\private$\q").send(b"1")
        made.pop(1).delete()
        for _ in range(2):
            engine = durable_world.engine
            names = {
                str(each.queue.destination_format_name)
                if isinstance(each.queue, OutgoingQueue)
                else str(each.queue.pathname)
                for each in engine.queues.all()
            }
            assert names == {
                r"HERE\private$\a",
                r"HERE\c",
                r"HERE\private$\order_queue$",
                r"HERE\private$\notify_queue$",
                r"HERE\private$\awaiting_final_ack$",
                r"HERE\system$;JOURNAL",
                r"HERE\system$;DEADLETTER",
                r"HERE\system$;DEADXACT",
                r"DIRECT=OS:there\private$\q",
            }
            assert all(each.queue.queue_manager is engine.queue_manager for each in engine.queues.all())
            durable_world.restart()


class TestDeleteQueue:
    """3.1.7.1.4."""

    @pytest.mark.conformance("DMPR-166")
    def test_every_sender_is_told(self, world: World, box: Box) -> None:
        admin = world.create("admin")
        for delivery in (0, 1, 1):
            box.send(
                b"x",
                delivery=delivery,
                acknowledgements=ALL_ACKNOWLEDGEMENTS,
                administration_queue=admin.name,
            )
        admin.drain()
        box.delete()
        assert admin.classes() == [MessageClass.NACK_Q_DELETED] * 3
        assert world.removed() == []
        assert world.discarded() == [MessageClass.NACK_Q_DELETED] * 3
        assert world.total_bytes == 0

    @pytest.mark.conformance("DMPR-167")
    def test_every_handle_goes_stale(self, world: World, box: Box) -> None:
        receiving, sending = box.open(QueueAccess.RECEIVE), box.open(QueueAccess.SEND)
        box.send(b"1")
        box.delete()
        with refused(0xC00E004B):
            world.run(lambda: world.engine.purging.purge(receiving))
        with refused(0xC00E004B):
            sending.queue_for(QueueAccess.SEND)
        for opened in (receiving, sending):
            world.run(lambda opened=opened: world.engine.opening.close(opened))  # type: ignore[misc]

    def test_its_journal_and_subqueues_go_with_it_for_good(self, durable_world: World) -> None:
        box = durable_world.create("q", journaling=True)
        private_number = box.state.queue.private_queue_number
        assert private_number is not None
        box.send_all(b"1", b"2", b"3")
        box.receive()
        box.move(box.peek(), box.subqueue("s"))
        box.delete()
        assert durable_world.discarded() == [MessageClass.NACK_Q_DELETED] * 3
        number = PrivateFormatName(durable_world.engine.queue_manager.identifier, private_number)
        for restart in (False, True):
            if restart:
                durable_world.restart()
            for name in (r".\private$\q", r".\private$\q;JOURNAL", r".\private$\q;s", str(number)):
                with refused(0xC00E0003):
                    durable_world.box(name).open(QueueAccess.RECEIVE)
        assert durable_world.total_bytes == 0
        durable_world.create("q")
        assert box.bodies() == []

    @pytest.mark.parametrize("name", [r".\system$;JOURNAL", r".\system$;DEADXACT", "order_queue$"])
    def test_system_queues_stay(self, world: World, name: str) -> None:
        with refused(0xC00E0064):
            world.box(name).delete()


class TestSubqueues:
    def test_it_lives_while_it_is_open_or_holds_something(self, durable_world: World) -> None:
        box = durable_world.create("q")
        sub = box.subqueue("retry")
        box.send(b"1")
        box.move(box.peek(), sub)
        sub.close()
        durable_world.restart()
        assert (list(box.state.subqueues), sub.bodies()) == (["retry"], [b"1"])
        sub.receive()
        assert list(box.state.subqueues) == ["retry"]
        sub.close()
        assert box.state.subqueues == {}
        durable_world.restart()
        assert box.state.subqueues == {}

    @pytest.mark.parametrize("delivery", list(DeliveryGuarantee))
    def test_it_goes_with_its_last_message_when_nobody_has_it_open(
        self, world: World, delivery: DeliveryGuarantee
    ) -> None:
        box = world.create("q")
        sub = box.subqueue("retry")
        for seconds in (5, 9):
            box.send(b"x", time_to_be_received=seconds, delivery=delivery)
            box.move(box.peek(), sub)
        sub.close()
        world.sleep(5)
        assert list(box.state.subqueues) == ["retry"]
        world.sleep(4)
        assert box.state.subqueues == {}

    def test_it_has_the_rules_of_its_queue(self, world: World) -> None:
        box = world.create("q", transactional=True, label="parent")
        sub = box.subqueue("s")
        sub.open(QueueAccess.RECEIVE)
        assert sub.state.queue.transactional
        assert sub.state.parent is box.state
        assert sub.state.queue.security == box.state.queue.security
