"""[MS-MQDMPR] 3.1.1.12: what the sender is told, and what journals and dead-letter queues keep."""

from contextlib import nullcontext

import pytest

from tiercel.model.codes import Acknowledgements, MessageClass, QueuePrivacyLevel
from tiercel.model.errors import ComputerDoesNotSupportEncryptionError
from tiercel.model.path_name import PathName
from tiercel.wire.structure import encode_guid

from .harness import ALL_ACKNOWLEDGEMENTS, NOW, Box, World, foreign_packet, refused

ARRIVED, RECEIVED = MessageClass.ACK_REACH_QUEUE, MessageClass.ACK_RECEIVE
FULL = MessageClass.NACK_Q_EXCEED_QUOTA
PURGED, EXPIRED = MessageClass.NACK_Q_PURGED, MessageClass.NACK_RECEIVE_TIMEOUT


@pytest.fixture
def admin(world: World) -> Box:
    return world.create("admin")


@pytest.fixture
def box(world: World) -> Box:
    return world.create("q")


# For each value that can be asked for: what comes when the message is received, purged, or never arrives.
TRUTH: dict[str, tuple[int, list[int], list[int], list[int]]] = {
    "none": (Acknowledgements.NONE, [], [], []),
    "AckPosArrival": (Acknowledgements.POS_ARRIVAL, [ARRIVED], [ARRIVED], []),
    "AckPosReceive": (Acknowledgements.POS_RECEIVE, [RECEIVED], [], []),
    "AckNegArrival": (Acknowledgements.NEG_ARRIVAL, [], [], [FULL]),
    "AckNegReceive": (Acknowledgements.NEG_RECEIVE, [], [PURGED], []),
    "AckNackReachQueue": (Acknowledgements.NACK_REACH_QUEUE, [], [], [FULL]),
    "AckFullReachQueue": (Acknowledgements.FULL_REACH_QUEUE, [ARRIVED], [ARRIVED], [FULL]),
    "AckNackReceive": (Acknowledgements.NACK_RECEIVE, [], [PURGED], [FULL]),
    "AckFullReceive": (Acknowledgements.FULL_RECEIVE, [RECEIVED], [PURGED], [FULL]),
    "all": (ALL_ACKNOWLEDGEMENTS, [ARRIVED, RECEIVED], [ARRIVED, PURGED], [FULL]),
}


class TestAcknowledgementsRequested:
    @pytest.mark.conformance("DMPR-093")
    @pytest.mark.parametrize("name", TRUTH)
    @pytest.mark.parametrize("outcome", ["received", "purged", "undeliverable"])
    def test_the_truth_table(self, world: World, admin: Box, box: Box, name: str, outcome: str) -> None:
        wanted, *expected = TRUTH[name]
        if outcome == "undeliverable":
            box.set(quota_kib=0)
        box.arrive(b"x", acknowledgements=wanted, administration_queue=admin.name)
        if outcome == "received":
            box.receive()
        elif outcome == "purged":
            box.purge()
        assert admin.classes() == expected[["received", "purged", "undeliverable"].index(outcome)]
        assert world.total_bytes == 0

    @pytest.mark.conformance("DMPR-093")
    def test_none_is_the_default(self, admin: Box, box: Box) -> None:
        box.send(b"x", administration_queue=admin.name)
        box.receive()
        assert admin.classes() == []

    @pytest.mark.parametrize("is_receive", [True, False])
    def test_an_acknowledgement_names_its_message(self, admin: Box, box: Box, is_receive: bool) -> None:
        sent = box.send(b"x" * 40, acknowledgements=ALL_ACKNOWLEDGEMENTS, administration_queue=admin.name)
        box.receive() if is_receive else box.purge()
        answer = admin.drain()[-1]
        assert answer.message_class == (RECEIVED if is_receive else PURGED)
        assert answer.correlation_id == encode_guid(sent.lineage) + sent.uniquifier.to_bytes(4, "little")
        assert answer.response_queue == box.name
        assert answer.body == (b"" if is_receive else b"x" * 40)
        assert answer.id != sent
        assert answer.acknowledgements == 0

    def test_a_refused_acknowledgement_leaves_a_line_and_nothing_more(
        self, world: World, admin: Box, box: Box
    ) -> None:
        admin.set(quota_kib=0)
        box.send(b"x", acknowledgements=ALL_ACKNOWLEDGEMENTS, administration_queue=admin.name)
        box.receive()
        assert world.discarded() == [FULL, FULL]
        admin.delete()
        box.send(b"x", acknowledgements=ALL_ACKNOWLEDGEMENTS, administration_queue=admin.name)
        assert world.discarded() == [FULL, FULL, MessageClass.NACK_BAD_DST_Q]
        assert box.bodies() == [b"x"]

    @pytest.mark.parametrize("name", [r".\private$\order_queue$", r".\private$\notify_queue$"])
    def test_none_goes_to_an_internal_queue(self, world: World, box: Box, name: str) -> None:
        internal = world.box(name)
        box.send(b"x", acknowledgements=ALL_ACKNOWLEDGEMENTS, administration_queue=internal.name)
        assert internal.state.count == 0
        assert world.discarded() == [MessageClass.NACK_BAD_DST_Q]

    def test_it_travels_when_the_administration_queue_is_elsewhere(self, world: World, box: Box) -> None:
        away = world.box(r"DIRECT=OS:there\private$\admin")
        box.arrive(b"x", acknowledgements=ALL_ACKNOWLEDGEMENTS, administration_queue=away.name)
        assert away.state.count == 1

    def test_no_stranger_learns_which_queues_there_are(self, world: World, admin: Box) -> None:
        packet = foreign_packet(
            b"x",
            destination_queue=world.box("zzz").name,
            acknowledgements=ALL_ACKNOWLEDGEMENTS,
            administration_queue=admin.name,
        )
        assert (
            world.run(lambda: world.engine.delivery.arrive(packet, None, "zzz"))
            == MessageClass.NACK_BAD_DST_Q
        )
        assert admin.classes() == []
        assert world.discarded() == [MessageClass.NACK_BAD_DST_Q]

    def test_unless_somebody_looks_for_a_fault(self, durable_world: World) -> None:
        world = durable_world
        admin, box = world.create("admin"), world.box("zzz")
        wanted = {"acknowledgements": ALL_ACKNOWLEDGEMENTS, "administration_queue": admin.name}
        world.set(send_insecure_nacks=True)
        for _ in range(2):
            assert box.arrive(b"x", **wanted) == MessageClass.NACK_BAD_DST_Q
            assert admin.classes() == [MessageClass.NACK_BAD_DST_Q]
            world.kill()
        world.set(send_insecure_nacks=False)
        box.arrive(b"x", **wanted)
        assert admin.classes() == []


class TestTransactionalQueues:
    @pytest.mark.conformance("DMPR-038")
    def test_messages_and_queues_must_agree(self, world: World, admin: Box, box: Box) -> None:
        orders = world.create("orders", transactional=True)
        wanted = {"acknowledgements": ALL_ACKNOWLEDGEMENTS, "administration_queue": admin.name}
        assert orders.arrive(b"x", **wanted) == MessageClass.NACK_NOT_TRANSACTIONAL_MSG
        assert box.arrive(b"x", transaction_id=5, **wanted) == MessageClass.NACK_NOT_TRANSACTIONAL_Q
        assert admin.classes() == [
            MessageClass.NACK_NOT_TRANSACTIONAL_MSG,
            MessageClass.NACK_NOT_TRANSACTIONAL_Q,
        ]
        assert (orders.bodies(), box.bodies()) == ([], [])
        assert orders.arrive(b"x", transaction_id=5) is None
        assert box.arrive(b"x") is None
        assert (orders.bodies(), box.bodies()) == ([b"x"], [b"x"])


class TestPrivacyLevel:
    @pytest.mark.conformance("DMPR-037")
    @pytest.mark.parametrize(
        ("level", "clear", "encrypted"), [(0, True, False), (1, True, True), (2, False, True)]
    )
    def test_which_messages_a_queue_takes(
        self, world: World, level: int, clear: bool, encrypted: bool
    ) -> None:
        box = world.create("private", privacy_level=QueuePrivacyLevel(level))
        for privacy_level, taken in ((0, clear), (1, encrypted)):
            with nullcontext() if taken else refused(ComputerDoesNotSupportEncryptionError.code):
                box.send(b"12345678", privacy_level=privacy_level)
            assert box.state.count == taken
            box.drain()

    @pytest.mark.parametrize(("level", "clear"), [(0, True), (1, True), (2, False)])
    def test_from_other_computers_nothing_that_is_encrypted(
        self, world: World, level: int, clear: bool
    ) -> None:
        """Whatever the queue allows: nobody could read it."""
        box = world.create("private", privacy_level=QueuePrivacyLevel(level))
        for is_encrypted, taken in ((False, clear), (True, False)):
            secret = {"privacy_level": 1, "symmetric_key": b"k" * 64} if is_encrypted else {}
            refusal = box.arrive(b"12345678", **secret)
            assert refusal == (None if taken else MessageClass.NACK_BAD_ENCRYPTION)
            assert box.state.count == taken
            box.drain()


class TestPositiveJournaling:
    @pytest.mark.conformance("DMPR-086", "DMPR-197")
    def test_a_delivered_message_is_copied_to_the_journal_of_the_computer(
        self, world: World, box: Box
    ) -> None:
        box.send(b"1", positive_journaling=True)
        box.send(b"2")
        assert world.journal.bodies() == [b"1"]
        box.drain()
        assert world.journal.bodies() == [b"1"]

    @pytest.mark.conformance("DMPR-086")
    def test_a_full_journal_takes_no_copy_and_disturbs_nobody(self, world: World, box: Box) -> None:
        world.set(journal_quota_kib=1)
        for _ in range(3):
            box.send(b"x" * 500, positive_journaling=True)
        assert (box.state.count, world.journal.state.count) == (3, 1)
        assert world.discarded() == [FULL, FULL]

    def test_a_transactional_message_is_copied_once(self, world: World) -> None:
        orders = world.create("orders", transactional=True)
        with world.transaction() as sending:
            orders.send(b"1", transaction=sending, positive_journaling=True)
        orders.receive()
        assert world.journal.bodies() == [b"1"]

    def test_messages_of_others_are_not_copied_here(self, world: World, box: Box) -> None:
        box.arrive(b"1", positive_journaling=True, negative_journaling=True)
        box.arrive(b"2", positive_journaling=True, negative_journaling=True, time_to_be_received=0)
        assert (world.journal.bodies(), world.dead_letters.bodies()) == ([], [])


class TestNegativeJournaling:
    @pytest.mark.conformance("DMPR-087", "DMPR-197")
    @pytest.mark.parametrize("wanted", [True, False])
    @pytest.mark.parametrize("transactional", [True, False])
    def test_what_could_not_be_delivered_is_a_dead_letter(
        self, world: World, wanted: bool, transactional: bool
    ) -> None:
        away = world.box(r"DIRECT=OS:there\private$\zzz")
        sending = world.begin() if transactional else None
        away.send(b"x", transaction=sending, negative_journaling=wanted, time_to_reach_queue=5)
        if sending is not None:
            world.commit(sending)
        world.sleep(6)
        assert world.dead_letters.bodies() == ([b"x"] if wanted and not transactional else [])
        assert world.transactional_dead_letters.bodies() == ([b"x"] if wanted and transactional else [])
        assert away.state.count == 0

    @pytest.mark.conformance("DMPR-087")
    def test_full_dead_letters_take_no_copy(self, world: World, box: Box) -> None:
        world.dead_letters.set(quota_kib=1)
        for _ in range(3):
            box.send(b"x" * 500, negative_journaling=True, time_to_be_received=1)
        world.sleep(2)
        assert (box.state.count, world.dead_letters.state.count) == (0, 1)
        assert world.discarded().count(FULL) == 2

    @pytest.mark.conformance("DMPR-255")
    def test_what_nobody_received_in_time_is_one_too(self, world: World, admin: Box, box: Box) -> None:
        box.send(
            b"x",
            negative_journaling=True,
            time_to_be_received=5,
            acknowledgements=ALL_ACKNOWLEDGEMENTS,
            administration_queue=admin.name,
        )
        world.sleep(6)
        assert (box.bodies(), world.dead_letters.bodies()) == ([], [b"x"])
        assert admin.classes() == [ARRIVED, EXPIRED]

    def test_a_dead_letter_arrived_when_it_was_put_there(self, world: World, box: Box) -> None:
        box.send(b"x", negative_journaling=True, time_to_be_received=5)
        world.sleep(7)
        (letter,) = world.dead_letters.messages()
        assert (letter.sent_time, letter.arrival_time) == (NOW, NOW + 7)

    def test_a_dead_letter_is_received_without_another_word(self, world: World, admin: Box, box: Box) -> None:
        box.send(
            b"x",
            negative_journaling=True,
            positive_journaling=True,
            time_to_be_received=5,
            acknowledgements=ALL_ACKNOWLEDGEMENTS,
            administration_queue=admin.name,
        )
        world.sleep(7)
        assert admin.classes() == [ARRIVED, EXPIRED]
        world.dead_letters.receive()
        world.journal.receive()
        assert (admin.classes(), world.journal.state.count, world.dead_letters.state.count) == ([], 0, 0)

    def test_dead_letters_do_not_expire(self, world: World, box: Box) -> None:
        box.send(b"x", negative_journaling=True, time_to_be_received=5)
        world.sleep(10**8)
        world.restart()
        world.sleep(10**8)
        assert world.dead_letters.bodies() == [b"x"]

    @pytest.mark.parametrize("ending", ["purge", "delete"])
    def test_a_delivered_message_that_is_purged_is_none(self, world: World, box: Box, ending: str) -> None:
        box.send(b"x", negative_journaling=True)
        getattr(box, ending)()
        assert world.dead_letters.bodies() == []


class TestApplicationDeadletterQueue:
    @pytest.mark.conformance("DMPR-078")
    @pytest.mark.parametrize(
        ("name", "lands"),
        [
            (r".\private$\letters", "letters"),
            (r"HERE\private$\letters", "letters"),
            (None, "system"),
            (r".\private$\zzz", "system"),
            (r"there\private$\letters", "system"),
            (r".\private$\plain", "system"),  # not transactional: it does not fit
            (r".\private$\order_queue$", "system"),
        ],
    )
    def test_where_an_expired_transactional_message_lands(
        self, world: World, name: str | None, lands: str
    ) -> None:
        letters, plain = world.create("letters", transactional=True), world.create("plain")
        away = world.box(r"DIRECT=OS:there\private$\q")
        own = None if name is None else PathName.parse(name)
        with world.transaction() as sending:
            away.send(
                b"x",
                transaction=sending,
                negative_journaling=True,
                dead_letter_queue=own,
                time_to_reach_queue=5,
            )
        world.kill()
        world.sleep(6)
        assert letters.bodies() == ([b"x"] if lands == "letters" else [])
        assert world.transactional_dead_letters.bodies() == ([b"x"] if lands == "system" else [])
        assert plain.bodies() == []


class TestTargetJournaling:
    """T-10."""

    @pytest.mark.conformance("DMPR-033")
    def test_only_what_was_received_is_copied(self, world: World) -> None:
        box = world.create("kept", journaling=True)
        box.send_all(b"1", b"2", b"3")
        box.send(b"4", time_to_be_received=1)
        box.peek()
        assert box.journal.bodies() == []
        box.receive()
        assert box.journal.bodies() == [b"1"]
        world.sleep(2)
        box.purge()
        assert box.journal.bodies() == [b"1"]
        box.journal.receive()
        assert box.journal.bodies() == []

    def test_a_two_phase_and_a_transactional_receive_are_receives(self, world: World) -> None:
        box = world.create("kept", journaling=True, transactional=True)
        with world.transaction() as sending:
            box.send_all(b"1", b"2", b"3", transaction=sending)
        with world.transaction() as reading:
            box.receive(transaction=reading)
            assert box.journal.bodies() == []
        box.end(box.take(), delete=False)
        assert box.journal.bodies() == [b"1"]
        box.end(box.take(), delete=True)
        assert box.journal.bodies() == [b"1", b"2"]

    def test_a_subqueue_uses_the_journal_of_its_queue(self, world: World) -> None:
        box = world.create("kept", journaling=True)
        box.send(b"1")
        sub = box.subqueue("s")
        box.move(box.peek(), sub)
        assert box.journal.bodies() == []
        sub.receive()
        assert box.journal.bodies() == [b"1"]

    def test_the_journal_is_there_after_a_restart(self, durable_world: World) -> None:
        box = durable_world.create("kept", journaling=True)
        box.send(b"1")
        box.receive()
        durable_world.restart()
        assert box.journal.bodies() == [b"1"]
        box.send(b"2")
        box.receive()
        assert box.journal.bodies() == [b"1", b"2"]
