"""[MS-MQDMPR] 3.1.7.1.5, 3.1.7.1.6 and 3.1.7.3.8: opening and closing queues, and where a name leads."""

import pytest

from tiercel.engine.carriers import AbsentCarrier
from tiercel.engine.handles import OpenQueue
from tiercel.engine.queue_state import QueueState
from tiercel.model.codes import OutgoingQueueState, QueueAccess, RemoteReadState, ShareMode
from tiercel.model.format_name import FormatName
from tiercel.model.identifiers import NULL_GUID
from tiercel.model.message import Message
from tiercel.model.queue import OutgoingQueue

from .harness import SYSTEM, Box, Walk, World, refused

RECEIVE, SEND, PEEK, MOVE = QueueAccess.RECEIVE, QueueAccess.SEND, QueueAccess.PEEK, QueueAccess.MOVE
RECEIVE_ADMIN, PEEK_ADMIN = QueueAccess.RECEIVE_ADMIN, QueueAccess.PEEK_ADMIN
DENY_NONE, DENY_RECEIVE = ShareMode.DENY_NONE, ShareMode.DENY_RECEIVE

NOT_FOUND = 0xC00E0003
SHARING_VIOLATION = 0xC00E0009
UNSUPPORTED_OPERATION = 0xC00E0020
ACCESS_DENIED = 0xC00E0025
UNSUPPORTED_ACCESS_MODE = 0xC00E0045
INVALID_HANDLE = 0xC00E0007


@pytest.fixture
def box(world: World) -> Box:
    return world.create("q")


def open_by_name(world: World, name: str, access: QueueAccess, share: ShareMode = DENY_NONE) -> OpenQueue:
    return world.box(name).open(access, share)


def outgoing(world: World) -> list[OutgoingQueue]:
    return [each.queue for each in world.engine.queues.all() if isinstance(each.queue, OutgoingQueue)]


class TestOpenQueueDescriptor:
    """3.1.1.16."""

    @pytest.mark.conformance("DMPR-108", "DMPR-182")
    def test_handles_and_context_values_are_unique(self, world: World, box: Box) -> None:
        other = world.create("other")
        opened = [each.open(access) for each in (box, other) for access in (RECEIVE, SEND) * 250]
        assert len({each.handle for each in opened}) == 1000
        assert len({each.context_value for each in opened}) == 1000
        for each in opened[:500]:
            world.run(lambda each=each: world.engine.opening.close(each))  # type: ignore[misc]
        again = box.open(RECEIVE)
        assert again.handle not in {each.handle for each in opened}
        assert again.context_value not in {each.context_value for each in opened}

    @pytest.mark.conformance("DMPR-109")
    @pytest.mark.parametrize("share", ShareMode)
    def test_it_keeps_what_was_asked_for(self, box: Box, share: ShareMode) -> None:
        opened = box.open(RECEIVE, share)
        assert (opened.access, opened.share, opened.state) == (RECEIVE, share, box.state)
        assert (opened.format_name, opened.children) == (box.name, ())
        assert opened.remote_read_state is RemoteReadState.NONE

    @pytest.mark.conformance("DMPR-182", "DMPR-043")
    def test_the_queue_is_active_while_it_is_open(self, world: World, box: Box) -> None:
        assert not box.state.queue.active
        one, two = box.open(RECEIVE), box.open(SEND)
        assert (box.state.handles, box.state.queue.active) == ({one.handle: one, two.handle: two}, True)
        world.run(lambda: world.engine.opening.close(one))
        assert box.state.queue.active
        world.run(lambda: world.engine.opening.close(two))
        assert (box.state.handles, box.state.queue.active) == ({}, False)

    @pytest.mark.conformance("DMPR-043")
    @pytest.mark.parametrize(
        ("is_outgoing", "has_messages", "is_open", "active"),
        [
            (False, False, False, False),
            (False, False, True, True),
            (False, True, False, False),
            (False, True, True, True),
            (True, False, False, False),
            (True, False, True, True),
            (True, True, False, True),
            (True, True, True, True),
        ],
    )
    def test_when_a_queue_is_active(
        self, world: World, box: Box, is_outgoing: bool, has_messages: bool, is_open: bool, active: bool
    ) -> None:
        each = world.box(r"DIRECT=OS:there\private$\q") if is_outgoing else box
        each.handle(SEND)
        if has_messages:
            each.send(b"1")
        if not is_open:
            each.close()
        assert each.state.queue.active is active


class TestMultipleElementNames:
    NAMES = r"DIRECT=OS:HERE\private$\q,DIRECT=OS:there\private$\q"

    @pytest.mark.conformance("DMPR-110")
    def test_a_list_opens_each_of_its_queues(self, world: World, box: Box) -> None:
        opened = open_by_name(world, self.NAMES, SEND)
        assert opened.is_multiple
        assert (opened.access, opened.state, opened.remote_read_state) == (SEND, None, RemoteReadState.NONE)
        names = [str(child.format_name) for child in opened.children]
        assert sorted(names) == sorted(self.NAMES.split(","))
        assert not any(child.is_multiple or child.state is None for child in opened.children)
        assert not box.open(SEND).is_multiple

    @pytest.mark.conformance("DMPR-171")
    @pytest.mark.parametrize(
        ("access", "share", "code"),
        [
            (RECEIVE, DENY_NONE, UNSUPPORTED_OPERATION),
            (PEEK, DENY_NONE, UNSUPPORTED_OPERATION),
            (RECEIVE, DENY_RECEIVE, UNSUPPORTED_OPERATION),
            (SEND, DENY_RECEIVE, UNSUPPORTED_ACCESS_MODE),
        ],
    )
    def test_a_list_is_for_sending_only(
        self, world: World, box: Box, access: QueueAccess, share: ShareMode, code: int
    ) -> None:
        with refused(code):
            open_by_name(world, self.NAMES, access, share)
        assert not box.state.handles

    @pytest.mark.conformance("DMPR-172")
    def test_when_one_cannot_be_opened_none_is(self, world: World, box: Box) -> None:
        with refused(NOT_FOUND):
            open_by_name(world, r"DIRECT=OS:HERE\private$\q,DIRECT=OS:HERE\private$\zzz", SEND)
        assert (box.state.handles, box.state.queue.active) == ({}, False)

    @pytest.mark.conformance("DMPR-184")
    def test_closing_a_list_closes_each(self, world: World, box: Box) -> None:
        """T-06: the list has no queue of its own, and is closed all the same."""
        opened = open_by_name(world, self.NAMES, SEND)
        world.run(lambda: world.engine.opening.close(opened))
        assert not any(child.is_open for child in opened.children)
        assert (box.state.handles, box.state.queue.active) == ({}, False)

    @pytest.mark.conformance("DMPR-268")
    def test_the_same_queue_twice_is_once(self, world: World, box: Box) -> None:
        twice = open_by_name(world, r"DIRECT=OS:HERE\private$\q,direct=os:here\PRIVATE$\Q", SEND)
        assert (twice.is_multiple, twice.state) == (False, box.state)
        names = r"DIRECT=OS:b\private$\q,DIRECT=OS:a\private$\q,DIRECT=OS:B\private$\Q"
        several = open_by_name(world, names, SEND)
        assert [str(child.format_name) for child in several.children] == [
            r"DIRECT=OS:a\private$\q",
            r"DIRECT=OS:b\private$\q",
        ]

    @pytest.mark.conformance("DMPR-194")
    def test_each_queue_gets_a_copy_under_its_own_name(self, world: World, box: Box) -> None:
        other = world.create("other")
        names = r"DIRECT=OS:.\private$\q,DIRECT=OS:.\private$\other"
        opened = open_by_name(world, names, SEND)
        world.run(lambda: world.engine.sending.send(opened, Message(b"x")))
        (one,), (two,) = box.messages(), other.messages()
        assert (one.body, two.body) == (b"x", b"x")
        assert (one.destination_queue, two.destination_queue) == (box.name, other.name)
        assert set(one.destination_queues) == set(two.destination_queues) == {box.name, other.name}

    @pytest.mark.conformance("DMPR-194")
    def test_the_first_that_fails_ends_it_and_earlier_copies_stay(self, world: World, box: Box) -> None:
        world.create("zzz", quota_kib=0)
        opened = open_by_name(world, r"DIRECT=OS:.\private$\q,DIRECT=OS:.\private$\zzz", SEND)
        with refused(0xC00E0027):
            world.run(lambda: world.engine.sending.send(opened, Message(b"x")))
        assert (box.bodies(), world.box("zzz").bodies()) == ([b"x"], [])


class TestNameKindsAndAccess:
    @pytest.mark.conformance("DMPR-173")
    @pytest.mark.parametrize(
        ("name", "access", "code"),
        [
            ("DIRECT=HTTP://there/msmq/q", RECEIVE, UNSUPPORTED_OPERATION),
            ("DIRECT=HTTP://there/msmq/q", PEEK, UNSUPPORTED_OPERATION),
            ("DIRECT=HTTPS://there/msmq/q", RECEIVE, UNSUPPORTED_OPERATION),
            ("DIRECT=HTTP://there/msmq/q", SEND, None),
            ("DIRECT=HTTPS://there/msmq/q", SEND, None),
            ("MULTICAST=224.1.1.1:8001", RECEIVE, UNSUPPORTED_OPERATION),
            ("MULTICAST=224.1.1.1:8001", PEEK, UNSUPPORTED_OPERATION),
            ("MULTICAST=224.1.1.1:8001", SEND, None),
            ("MACHINE={};DEADLETTER", SEND, UNSUPPORTED_OPERATION),
            ("MACHINE={};DEADXACT", SEND, UNSUPPORTED_OPERATION),
            ("MACHINE={};JOURNAL", SEND, UNSUPPORTED_OPERATION),
            ("MACHINE={};DEADLETTER", RECEIVE, None),
            ("MACHINE={};DEADXACT", PEEK, None),
            ("MACHINE={};JOURNAL", RECEIVE, None),
        ],
    )
    def test_what_a_kind_of_name_can_be_opened_for(
        self, world: World, name: str, access: QueueAccess, code: int | None
    ) -> None:
        full = name.format(world.engine.queue_manager.identifier)
        if code is None:
            assert open_by_name(world, full, access).state is not None
        else:
            with refused(code):
                open_by_name(world, full, access)

    @pytest.mark.parametrize("suffix", [";JOURNAL", ";sub"])
    def test_journals_and_subqueues_cannot_be_sent_to(self, world: World, box: Box, suffix: str) -> None:
        assert box.state.journal is not None
        with refused(UNSUPPORTED_OPERATION):
            open_by_name(world, rf".\private$\q{suffix}", SEND)

    @pytest.mark.conformance("DMPR-170")
    def test_a_name_that_cannot_be_expanded_opens_nothing(self, world: World) -> None:
        with refused(UNSUPPORTED_OPERATION):
            open_by_name(world, "DL=11111111-2222-3333-4444-555555555555", SEND)
        assert outgoing(world) == []

    @pytest.mark.conformance("DMPR-176")
    def test_while_the_directory_is_offline_a_public_queue_elsewhere_leads_nowhere(
        self, world: World
    ) -> None:
        manager = world.engine.queue_manager
        manager.directory_integrated = manager.directory_offline = True
        here = world.create(r".\public").state.queue.identifier
        assert open_by_name(world, f"PUBLIC={here}", SEND).state is not None
        with refused(UNSUPPORTED_OPERATION):
            open_by_name(world, "PUBLIC=11111111-2222-3333-4444-555555555555", SEND)
        assert outgoing(world) == []

    @pytest.mark.parametrize("suffix", ["", ";XACTONLY"])
    def test_nothing_is_sent_to_a_connector_by_its_name(self, world: World, suffix: str) -> None:
        with refused(UNSUPPORTED_OPERATION):
            open_by_name(world, f"CONNECTOR=11111111-2222-3333-4444-555555555555{suffix}", SEND)
        assert outgoing(world) == []

    def test_without_a_directory_a_public_queue_elsewhere_leads_nowhere(self, world: World) -> None:
        with refused(UNSUPPORTED_OPERATION):
            open_by_name(world, "PUBLIC=11111111-2222-3333-4444-555555555555", SEND)
        assert outgoing(world) == []
        assert not world.engine.queue_manager.directory_offline

    @pytest.mark.conformance("DMPR-229")
    def test_the_path_of_a_queue(self, world: World, box: Box) -> None:
        public, own = world.create(r".\public"), world.engine.queue_manager.identifier
        number = box.state.queue.private_queue_number
        known = {
            rf"PRIVATE={own}\{number:08x}": (r"HERE\private$\q", "HERE"),
            f"PUBLIC={public.state.queue.identifier}": (r"HERE\public", "HERE"),
            r"DIRECT=OS:there\private$\q": (r"there\private$\q", "there"),
        }
        for name, expected in known.items():
            assert world.engine.queues.path(FormatName.parse(name)) == expected
        stranger = "11111111-2222-3333-4444-555555555555"
        for name in (rf"PRIVATE={own}\0000ffff", rf"PRIVATE={stranger}\00000001", f"PUBLIC={stranger}"):
            with refused(0xC00E001E):
                world.engine.queues.path(FormatName.parse(name))

    @pytest.mark.conformance("DMPR-174")
    @pytest.mark.parametrize("access", [RECEIVE, PEEK, MOVE, RECEIVE_ADMIN, PEEK_ADMIN])
    @pytest.mark.parametrize("name", [r".\private$\zzz", r"there\private$\q", r".\private$\zzz;sub"])
    def test_a_missing_queue_is_not_found(self, world: World, name: str, access: QueueAccess) -> None:
        with refused(NOT_FOUND):
            open_by_name(world, name, access)

    @pytest.mark.conformance("DMPR-175")
    @pytest.mark.parametrize(
        "name",
        [
            r"DIRECT=OS:HERE\private$\zzz",
            r"DIRECT=OS:here\private$\zzz",
            r"DIRECT=OS:here.example.test\private$\zzz",
            r"DIRECT=OS:.\private$\zzz",
            r"DIRECT=OS:localhost\private$\zzz",
            r"DIRECT=TCP:192.0.2.1\private$\zzz",
            r"PRIVATE={}\00000fff",
        ],
    )
    def test_every_name_of_this_computer_is_local(self, world: World, name: str) -> None:
        """T-32."""
        with refused(NOT_FOUND):
            open_by_name(world, name.format(world.engine.queue_manager.identifier), SEND)
        assert outgoing(world) == []

    @pytest.mark.conformance("DMPR-175")
    @pytest.mark.parametrize(
        "name",
        [
            r"DIRECT=OS:there\private$\zzz",
            r"DIRECT=TCP:192.0.2.2\private$\zzz",
            r"PRIVATE=11111111-2222-3333-4444-555555555555\00000001",
        ],
    )
    def test_other_names_are_not(self, world: World, name: str) -> None:
        opened = open_by_name(world, name, SEND)
        assert opened.state is not None
        assert opened.state.is_outgoing

    @pytest.mark.parametrize("computer", ["AVERYLONGCOMPUTERNAME", "SHORT"])
    def test_the_name_that_a_queue_gives_itself_is_local(self, computer: str) -> None:
        world = World(name=computer)
        box = world.create("q")
        name = world.engine.queues.format_name(box.state)
        assert world.engine.queues.is_local(name)
        world.name = "RENAMED"
        world.restart()
        assert world.engine.queues.is_local(world.engine.queues.format_name(box.state))

    @pytest.mark.conformance("DMPR-266")
    @pytest.mark.parametrize(
        "name",
        [
            r"DIRECT=OS:there\private$\q",
            r"PRIVATE=11111111-2222-3333-4444-555555555555\00000001",
            "MULTICAST=224.1.1.1:8001",
        ],
    )
    def test_a_single_name_stays_as_it_is(self, world: World, name: str) -> None:
        assert str(open_by_name(world, name, SEND).format_name) == name

    @pytest.mark.conformance("DMPR-266")
    @pytest.mark.parametrize("kind", ["PUBLIC={0}", "MACHINE={1};JOURNAL"])
    def test_so_do_names_of_queues_here(self, world: World, kind: str) -> None:
        public = world.create(r".\public")
        name = kind.format(public.state.queue.identifier, world.engine.queue_manager.identifier)
        assert open_by_name(world, name, RECEIVE).format_name == FormatName.parse(name)


class TestOutgoingQueues:
    @pytest.mark.conformance("DMPR-177")
    def test_opening_a_queue_of_another_computer_makes_one(self, world: World) -> None:
        name = r"DIRECT=OS:there\private$\q"
        first, second = open_by_name(world, name, SEND), open_by_name(world, name, SEND)
        assert first.state is second.state
        (queue,) = outgoing(world)
        assert (queue.label, str(queue.destination_format_name)) == (name, name)
        assert (queue.next_hops, queue.state, queue.multicast) == (None, OutgoingQueueState.INACTIVE, False)
        assert queue.queue_manager is world.engine.queue_manager
        assert queue.base_priority == 0, "only a directory could tell another"
        open_by_name(world, r"DIRECT=OS:elsewhere\private$\q", SEND)
        identifiers = [each.queue.identifier for each in world.engine.queues.all()]
        assert len(set(identifiers)) == len(identifiers)
        assert NULL_GUID not in identifiers
        world.restart()
        again = open_by_name(world, name, SEND).state
        assert again is not None
        assert again.queue.identifier == queue.identifier, "it is used again after a restart too"

    @pytest.mark.conformance("DMPR-052")
    def test_each_name_has_its_own(self, world: World) -> None:
        for name in (r"DIRECT=OS:h\q", r"DIRECT=TCP:192.0.2.9\q", r"DIRECT=OS:H\Q"):
            world.box(name).send(b"1")
        assert [str(queue.destination_format_name) for queue in outgoing(world)] == [
            r"DIRECT=OS:h\q",
            r"DIRECT=TCP:192.0.2.9\q",
        ]

    @pytest.mark.conformance("DMPR-051")
    def test_it_is_there_after_a_restart_with_its_messages(self, durable_world: World) -> None:
        name = r"DIRECT=OS:there\private$\q"
        box = durable_world.box(name)
        box.send(b"recoverable")
        box.send(b"express", delivery=0)
        durable_world.kill()
        (queue,) = outgoing(durable_world)
        assert str(queue.destination_format_name) == name
        opened = box.open(RECEIVE_ADMIN)
        walk = Walk(box, opened)
        assert walk.peek().body == b"recoverable"
        assert box.state.count == 1

    @pytest.mark.conformance("DMPR-054")
    def test_a_multicast_address_stays_one_over_a_restart(self, durable_world: World) -> None:
        name = "MULTICAST=224.1.1.1:8001"
        open_by_name(durable_world, name, SEND)
        durable_world.restart()
        (queue,) = outgoing(durable_world)
        assert (str(queue.destination_format_name), queue.multicast) == (name, True)

    @pytest.mark.conformance("DMPR-150")
    def test_pause_and_resume_are_told_to_the_protocols(self, world: World, box: Box) -> None:
        away = world.box(r"DIRECT=OS:there\private$\q")
        away.send(b"1")
        (queue,) = outgoing(world)
        told: list[tuple[QueueState, bool]] = []

        class Listening(AbsentCarrier):
            def paused(self, queue: QueueState) -> None:
                told.append((queue, True))

            def resumed(self, queue: QueueState) -> None:
                told.append((queue, False))

        world.engine.carriers.register(Listening(lambda _name: True, ()))
        world.run(lambda: world.engine.outgoing.pause(away.state))
        assert told == [(away.state, True)]
        states = [queue.state]
        world.run(lambda: world.engine.outgoing.resume(away.state))
        assert told[1:] == [(away.state, False)]
        assert [*states, queue.state] == [OutgoingQueueState.ON_HOLD, OutgoingQueueState.INACTIVE]
        for call in (world.engine.outgoing.pause, world.engine.outgoing.resume):
            with refused(0xC00E0064):
                call(box.state)


class TestSystemQueues:
    """3.1.3."""

    @pytest.mark.conformance("DMPR-128")
    @pytest.mark.parametrize("name", ["JOURNAL", "DEADLETTER", "DEADXACT"])
    def test_applications_read_them_under_every_name_and_never_send(self, world: World, name: str) -> None:
        own = world.engine.queue_manager.identifier
        for spelled in (rf"DIRECT=OS:.\system$;{name}", f"MACHINE={own};{name}"):
            assert open_by_name(world, spelled, RECEIVE).state is not None
            with refused(UNSUPPORTED_OPERATION):
                open_by_name(world, spelled, SEND)

    @pytest.mark.conformance("DMPR-129")
    @pytest.mark.parametrize("name", ["order_queue$", "notify_queue$"])
    @pytest.mark.parametrize("access", [RECEIVE, PEEK, SEND])
    def test_the_internal_ones_are_closed_to_applications(
        self, world: World, name: str, access: QueueAccess
    ) -> None:
        box = world.box(name)
        with refused(ACCESS_DENIED):
            box.open(access)
        opened = world.run(lambda: world.engine.opening.open(box.name, access, token=SYSTEM, internal=True))
        assert opened.state is box.state
