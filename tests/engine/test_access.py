"""[MS-MQDMPR] 3.1.1.2 and T-35: who may do what with a queue."""

from collections.abc import Callable
from typing import Any, ClassVar
from uuid import UUID

import pytest

from tiercel.model.codes import MessageClass, QueueAccess, QueueAccessMask, SenderIdType
from tiercel.model.errors import AccessDeniedError, MqError
from tiercel.model.message import Message
from tiercel.model.path_name import PathName
from tiercel.model.sid import ANONYMOUS, EVERYONE
from tiercel.security.access import Token
from tiercel.security.descriptor import SecurityDescriptor

from .harness import (
    ALICE,
    ALL_ACKNOWLEDGEMENTS,
    BOB,
    RECOVERABLE,
    SYSTEM,
    Box,
    World,
    foreign_packet,
    refused,
)

DENIED = 0xC00E0025
RECEIVE, SEND, PEEK, MOVE = QueueAccess.RECEIVE, QueueAccess.SEND, QueueAccess.PEEK, QueueAccess.MOVE


def granting(mask: QueueAccessMask, token: Token = BOB) -> bytes:
    return SecurityDescriptor.parse(
        f"O:{ALICE.user}G:{ALICE.user}D:(A;;0x{int(mask):x};;;{token.user})"
    ).encode()


class TestOpening:
    @pytest.mark.conformance("DMPR-040")
    @pytest.mark.parametrize(
        ("rights", "allowed"),
        [
            (QueueAccessMask.WRITE_MESSAGE, {SEND}),
            (QueueAccessMask.PEEK_MESSAGE, {PEEK}),
            (QueueAccessMask.RECEIVE_MESSAGE, {RECEIVE, PEEK, MOVE}),
            (QueueAccessMask.DELETE_MESSAGE, set()),
            (QueueAccessMask.QUEUE_GENERIC_ALL, {SEND, RECEIVE, PEEK, MOVE}),
            (QueueAccessMask.GET_QUEUE_PROPERTIES, set()),
        ],
    )
    @pytest.mark.parametrize("access", [SEND, RECEIVE, PEEK, MOVE])
    def test_each_access_needs_its_right(
        self, world: World, rights: QueueAccessMask, allowed: set[QueueAccess], access: QueueAccess
    ) -> None:
        box = world.create("q", ALICE, security=granting(rights))
        if access in allowed:
            assert box.open(access, token=BOB).state is box.state
        else:
            with refused(DENIED):
                box.open(access, token=BOB)
            assert not box.state.handles

    @pytest.mark.conformance("DMPR-040")
    def test_who_may_only_send_cannot_receive(self, world: World) -> None:
        box = world.create("q", ALICE, security=granting(QueueAccessMask.WRITE_MESSAGE))
        opened = box.open(SEND, token=BOB)
        world.run(lambda: world.engine.sending.send(opened, Message(b"1", delivery=RECOVERABLE)))
        with refused(DENIED):
            box.open(RECEIVE, token=BOB)
        assert box.bodies() == [b"1"]

    def test_the_default_descriptor_lets_the_owner_do_everything_and_others_only_send(
        self, world: World
    ) -> None:
        box = world.create("q", ALICE)
        for access in (SEND, RECEIVE, PEEK, MOVE):
            box.open(access, token=ALICE)
        box.open(SEND, token=BOB)
        for access in (RECEIVE, PEEK, MOVE):
            with refused(DENIED):
                box.open(access, token=BOB)

    def test_it_is_the_same_after_a_restart(self, durable_world: World) -> None:
        box = durable_world.create("q", ALICE)
        durable_world.restart()
        box.open(RECEIVE, token=ALICE)
        with refused(DENIED):
            box.open(RECEIVE, token=BOB)

    def test_subqueues_and_the_journal_have_the_rules_of_the_queue(self, world: World) -> None:
        box = world.create("q", ALICE, journaling=True)
        box.send_all(b"1", b"2")
        box.receive()
        for name in ("s", "JOURNAL"):
            with refused(DENIED):
                box.subqueue(name).open(RECEIVE, token=BOB)
            box.subqueue(name).open(RECEIVE, token=ALICE)

    def test_a_refused_opening_makes_no_subqueue(self, world: World) -> None:
        box = world.create("q", ALICE)
        for access in (RECEIVE, PEEK, MOVE):
            with refused(DENIED):
                box.subqueue("s").open(access, token=BOB)
        assert box.state.subqueues == {}

    def test_the_journal_needs_its_own_right(self, world: World) -> None:
        box = world.create("q", ALICE, security=granting(QueueAccessMask.RECEIVE_MESSAGE))
        box.open(RECEIVE, token=BOB)
        with refused(DENIED):
            box.journal.open(RECEIVE, token=BOB)
        box.set(security=granting(QueueAccessMask.RECEIVE_JOURNAL_MESSAGE))
        box.journal.open(RECEIVE, token=BOB)
        with refused(DENIED):
            box.open(RECEIVE, token=BOB)

    @pytest.mark.parametrize("name", ["JOURNAL", "DEADLETTER", "DEADXACT"])
    def test_system_queues_are_for_the_owner_of_the_computer(self, world: World, name: str) -> None:
        box = world.box(rf".\system$;{name}")
        box.open(RECEIVE, token=ALICE)
        with refused(DENIED):
            box.open(RECEIVE, token=BOB)

    def test_sending_to_another_computer_is_decided_there(self, world: World) -> None:
        away = world.box(r"DIRECT=OS:there\private$\q")
        away.open(SEND, token=BOB)
        with refused(DENIED):
            away.open(QueueAccess.RECEIVE_ADMIN, token=BOB)


class TestAdministration:
    @pytest.mark.parametrize(
        ("rights", "change", "allowed"),
        [
            (QueueAccessMask.SET_QUEUE_PROPERTIES, {"label": "x"}, True),
            (QueueAccessMask.GET_QUEUE_PROPERTIES, {"label": "x"}, False),
            (QueueAccessMask.SET_QUEUE_PROPERTIES, {"security": b""}, False),
            (
                QueueAccessMask.SET_QUEUE_PROPERTIES | QueueAccessMask.CHANGE_QUEUE_PERMISSIONS,
                {"security": b""},
                True,
            ),
        ],
    )
    def test_changing_properties(
        self, world: World, rights: QueueAccessMask, change: dict[str, object], allowed: bool
    ) -> None:
        box = world.create("q", ALICE, security=granting(rights))
        if "security" in change:
            change = {"security": granting(QueueAccessMask.QUEUE_GENERIC_ALL)}
        before = (box.state.queue.label, box.state.queue.security)

        def attempt() -> None:
            world.run(lambda: world.engine.queues.set_properties(box.state, BOB, **change))

        if allowed:
            attempt()
            assert (box.state.queue.label, box.state.queue.security) != before
        else:
            with refused(DENIED):
                attempt()
            assert (box.state.queue.label, box.state.queue.security) == before

    def test_a_new_descriptor_holds_for_subqueues_and_journal_too(self, world: World) -> None:
        box = world.create("q", ALICE)
        box.send(b"1")
        sub = box.subqueue("s")
        box.move(box.peek(), sub)
        box.set(security=granting(QueueAccessMask.QUEUE_GENERIC_ALL))
        for each in (box, sub, box.journal):
            each.open(RECEIVE, token=BOB)
            with refused(DENIED):
                each.open(RECEIVE, token=ALICE)

    def test_nonsense_is_no_descriptor(self, world: World) -> None:
        box = world.create("q", ALICE)
        with pytest.raises(MqError):
            box.set(security=b"nonsense")
        box.open(RECEIVE, token=ALICE)

    @pytest.mark.parametrize(
        "rights", [QueueAccessMask.QUEUE_GENERIC_ALL, QueueAccessMask.DELETE_QUEUE, None]
    )
    def test_deleting(self, world: World, rights: QueueAccessMask | None) -> None:
        box = world.create("q", ALICE, security=granting(rights or QueueAccessMask.SET_QUEUE_PROPERTIES))
        if rights is None:
            with refused(DENIED):
                world.run(lambda: world.engine.queues.delete(box.state, BOB))
            assert box.state.count == 0
            return
        world.run(lambda: world.engine.queues.delete(box.state, BOB))
        with refused(0xC00E0003):
            box.open(PEEK)


Way = Callable[[World, Box, Box], object]


class TestNoWayAround:
    """A message must not land in a queue that its sender may not write to."""

    def test_an_application_dead_letter_queue(self, world: World) -> None:
        box = world.create("q", ALICE, security=granting(QueueAccessMask.WRITE_MESSAGE))
        victim = world.create("victim", ALICE, security=granting(QueueAccessMask.PEEK_MESSAGE))
        opened = box.open(SEND, token=BOB)
        message = Message(
            b"x",
            time_to_be_received=0,
            negative_journaling=True,
            dead_letter_queue=PathName.parse(r".\private$\victim"),
        )
        with pytest.raises(AccessDeniedError):
            world.run(lambda: world.engine.sending.send(opened, message))
        assert (victim.bodies(), box.bodies()) == ([], [])

    @pytest.mark.parametrize("name", [r"private$\order_queue$", r"private$\q;JOURNAL", r"system$;JOURNAL"])
    def test_nor_into_queues_of_the_system(self, world: World, name: str) -> None:
        box = world.create("q")
        path = PathName.parse(rf".\{name}")
        try:
            box.send(b"x", time_to_be_received=0, negative_journaling=True, dead_letter_queue=path)
        except MqError:
            return
        state = world.engine._catalog.find(path)
        assert state is not None
        assert state.count == 0


class TestSenderIdentifier:
    @pytest.mark.conformance("DMPR-100")
    def test_it_is_who_opened_the_queue(self, world: World) -> None:
        box = world.create("q", ALICE)
        opened = box.open(SEND, token=ALICE)
        world.run(lambda: world.engine.sending.send(opened, Message(b"1")))
        message = box.receive()
        assert (message.sender_id_type, message.sender_id) == (SenderIdType.SID, ALICE.user.encode())

    def test_an_application_may_send_without(self, world: World) -> None:
        box = world.create("q")
        box.send(b"1", sender_id_type=SenderIdType.NONE)
        message = box.receive()
        assert (message.sender_id_type, message.sender_id) == (SenderIdType.NONE, b"")

    @pytest.mark.conformance("DMPR-100")
    @pytest.mark.parametrize(
        ("sender", "granted"),
        [
            ({"sender_id": BOB.user.encode()}, {"bob", "everyone"}),
            ({"sender_id": ALICE.user.encode()}, {"everyone"}),
            ({"sender_id": b"no sid"}, {"anonymous", "everyone"}),
            ({"sender_id_type": SenderIdType.NONE}, {"anonymous", "everyone"}),
            # Whatever is in the field: without a type it says nothing.
            (
                {"sender_id_type": SenderIdType.NONE, "sender_id": BOB.user.encode()},
                {"anonymous", "everyone"},
            ),
            ({"sender_id_type": SenderIdType.QM, "sender_id": bytes(16)}, {"everyone"}),
        ],
        ids=["granted", "another", "garbage", "none", "none with a sid", "queue manager"],
    )
    @pytest.mark.parametrize("who", ["bob", "anonymous", "everyone"])
    @pytest.mark.parametrize("is_believed", [True, False])
    def test_a_message_from_elsewhere_is_checked_as_whom_it_names_if_that_is_believed(
        self, sender: dict[str, Any], granted: set[str], who: str, is_believed: bool
    ) -> None:
        world = World(believe_unsigned_senders=is_believed)
        granted = granted if is_believed else {"anonymous", "everyone"}
        sids = {"bob": BOB.user, "anonymous": ANONYMOUS, "everyone": EVERYONE}
        rights = int(QueueAccessMask.WRITE_MESSAGE)
        security = SecurityDescriptor.parse(f"O:{SYSTEM.user}D:(A;;0x{rights:x};;;{sids[who]})")
        box = world.create("q", security=security.encode())
        packet = foreign_packet(b"1", destination_queue=box.name, **sender)
        refusal = world.run(lambda: world.engine.delivery.arrive(packet, box.state))
        if who in granted:
            assert (refusal, box.bodies()) == (None, [b"1"])
        else:
            assert (refusal, box.bodies()) == (MessageClass.NACK_ACCESS_DENIED, [])
            assert world.discarded() == [MessageClass.NACK_ACCESS_DENIED]


class TestConnectorApplications:
    """3.1.1.12, ConnectorTypeIdentifier."""

    OWN: ClassVar[dict[str, Any]] = {
        "signature": b"signature",
        "symmetric_key": b"key",
        "authentication_provider_type": 7,
        "authentication_provider_name": "a provider of its own",
    }

    @pytest.mark.conformance("DMPR-101")
    @pytest.mark.parametrize("name", OWN)
    def test_only_they_protect_a_message_by_themselves(self, world: World, name: str) -> None:
        box = world.create("q")
        with refused(0xC00E0055):
            box.send(b"1", **{name: self.OWN[name]})
        assert box.bodies() == []

    @pytest.mark.conformance("DMPR-101")
    @pytest.mark.parametrize("connector", [UUID(int=1), UUID(int=2**128 - 1)])
    def test_which_connector_it_is_makes_no_difference(self, world: World, connector: UUID) -> None:
        box = world.create("q", authentication=True)
        box.send(b"1", connector_type=connector, **self.OWN)
        message = box.receive()
        assert {name: getattr(message, name) for name in self.OWN} == self.OWN
        assert message.connector_type == connector


class TestTransactionalRemoteReads:
    """3.1.7.1.12 with iTransactional, T-13."""

    @pytest.fixture
    def orders(self, world: World) -> Box:
        box = world.create("orders", transactional=True)
        with world.transaction() as sending:
            box.send_all(b"1", b"2", transaction=sending)
        return box

    @pytest.mark.conformance("DMPR-209")
    def test_an_acknowledged_one_waits_for_its_transaction(self, world: World, orders: Box) -> None:
        reading = world.begin()
        taken = orders.take(transaction=reading)
        orders.end(taken, delete=True)
        assert (orders.state.count, orders.bodies()) == (2, [b"2"])
        world.commit(reading)
        assert (orders.state.count, world.removed()) == (1, [MessageClass.ACK_RECEIVE])

    @pytest.mark.conformance("DMPR-209")
    @pytest.mark.parametrize("outcome", ["commit", "abort"])
    def test_a_refused_one_is_free_again(self, world: World, orders: Box, outcome: str) -> None:
        reading = world.begin()
        taken = orders.take(transaction=reading)
        orders.end(taken, delete=False)
        assert orders.bodies() == [b"1", b"2"]
        getattr(world, outcome)(reading)
        assert orders.bodies() == [b"1", b"2"]

    @pytest.mark.parametrize("delete", [True, False])
    def test_nobody_else_ends_it(self, world: World, orders: Box, delete: bool) -> None:
        reading = world.begin()
        taken = orders.take(transaction=reading)
        stranger = orders.open(RECEIVE)
        with refused(0xC00E0051):
            world.run(lambda: world.engine.reading.end_receive(stranger, taken.lookup_id, delete=delete))
        with refused(0xC00E0051):
            world.run(lambda: world.engine.reading.reject(stranger, taken.lookup_id))
        assert orders.bodies() == [b"2"]
        world.commit(reading)
        assert (orders.state.count, world.removed()) == (1, [MessageClass.ACK_RECEIVE])

    def test_out_of_a_prepared_transaction_nothing_can_be_taken(self, world: World, orders: Box) -> None:
        reading = world.begin()
        taken = orders.take(transaction=reading)
        world.prepare(reading)
        with refused(0xC00E0051):
            orders.end(taken, delete=False)
        world.kill()
        assert orders.bodies() == [b"2"]
        world.commit(reading)
        assert orders.state.count == 1

    def test_rejected_it_ends_once(self, world: World, orders: Box) -> None:
        admin = world.create("admin")
        with world.transaction() as sending:
            orders.send(
                b"3",
                transaction=sending,
                acknowledgements=ALL_ACKNOWLEDGEMENTS,
                administration_queue=admin.name,
            )
        admin.drain()
        lookup_id = orders.messages()[-1].lookup_id
        reading, opened = world.begin(), orders.receiving
        orders.lookup(lookup_id, peek=False, transaction=reading, two_phase=True)
        reject = world.engine.reading.reject
        try:
            world.run(lambda: reject(opened, lookup_id))
        except MqError:
            return
        world.commit(reading)
        assert admin.classes() == [MessageClass.NACK_RECEIVE_REJECTED]
        assert orders.state.count == 2
