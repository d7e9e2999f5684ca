"""[MS-MQDMPR] 3.1.1, 3.1.1.1 and 3.1.3: the queue manager itself, and its start."""

import dataclasses
import socket
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

import tiercel
from tiercel.engine.arrivals import Source
from tiercel.engine.attributes import decode_attributes, encode_attributes
from tiercel.engine.engine import Engine
from tiercel.engine.identity import Identity
from tiercel.model.codes import (
    Durability,
    OperatingSystemType,
    OutgoingQueueState,
    QueueAccess,
    QueueManagerState,
    QueueType,
)
from tiercel.model.errors import MqError
from tiercel.model.format_name import FormatName
from tiercel.model.identifiers import TxSequenceId
from tiercel.model.path_name import PathName
from tiercel.model.queue import DirectoryObject, OutgoingQueue, durability
from tiercel.model.queue_manager import ConnectedNetwork, QueueManager
from tiercel.store.interface import Keyspace
from tiercel.store.memory_store import MemoryStore, Write
from tiercel.wire.alike import Alike

from .harness import ALICE, NOW, RECOVERABLE, World, foreign_packet, refused

KEPT = {Durability.PERSISTENT, Durability.DIRECTORY}
# Made by parts that are not there yet (keys, streams of sessions), or kept as a counter of the store.
ELSEWHERE = {
    "incoming_transactional_transfer_infos",
    "transfer_info",
    "sequential_id",
    "public_encryption_key_list",
    "public_signing_key_list",
}
# What the path, the name or the kind of an object is made of: another value would be another object.
NAMES = {
    "identifier",
    "pathname",
    "qualified_pathname",
    "private_queue_number",
    "queue_type",
    "computer_name",
}
NAMES |= {"destination_format_name", "connected_network_identifier_list"}


def other_value(name: str, value: Any) -> Any:
    """Something that the attribute does not have now."""
    match value:
        case bool():
            return not value
        case Enum():
            return next(each for each in type(value) if each is not value)
        case int():
            return value + 7 if value < 2**31 else 77
        case str():
            return f"new {name}"
        case UUID():
            return uuid4()
        case bytes():
            return value
        case list():
            return ["one", "two"] if name == "directory_server_list" else [uuid4(), uuid4()]
        case None if name == "multicast_address":
            return "224.1.1.1:8001"
        case None if name == "last_domain":
            return uuid4()
    return value


def change_everything(entity: DirectoryObject) -> dict[str, Any]:
    """Writes into every field that is kept, and gives what was written."""
    written = {}
    for each in dataclasses.fields(entity):
        tag = durability(type(entity), each.name)
        if tag in KEPT and each.name not in ELSEWHERE | NAMES:
            setattr(entity, each.name, other_value(each.name, getattr(entity, each.name)))
        if tag in KEPT and each.name not in ELSEWHERE:
            written[each.name] = getattr(entity, each.name)
    return written


class TestDurability:
    """3.1.1."""

    @pytest.mark.conformance("DMPR-001")
    def test_what_is_kept_and_what_is_not(self, durable_world: World) -> None:
        world = durable_world
        box, away = world.create("q"), world.box(r"DIRECT=OS:there\private$\q")
        away.handle(QueueAccess.SEND)
        entities: list[DirectoryObject] = [world.engine.queue_manager, box.state.queue, away.state.queue]
        written = [change_everything(each) for each in entities]
        outgoing = away.state.queue
        assert isinstance(outgoing, OutgoingQueue)
        outgoing.state, outgoing.next_hops = OutgoingQueueState.CONNECTED, ["192.0.2.7"]
        manager = world.engine.queue_manager
        manager.throttled, manager.connection_active = True, False
        manager.machine_domain_id = uuid4()

        def save() -> None:
            world.engine.administration.save()
            world.engine._catalog.save(box.state)
            world.engine._catalog.save(away.state)

        world.run(save)
        world.kill()
        again = [world.engine.queue_manager, box.state.queue, away.state.queue]
        for entity, values in zip(again, written, strict=True):
            for name, value in values.items():
                assert getattr(entity, name) == value, f"{entity}: {name}"
        after, manager = again[2], world.engine.queue_manager
        assert isinstance(after, OutgoingQueue)
        assert (after.next_hops, after.connection_history, after.open_handles) == (None, [], set())
        assert after.state is not OutgoingQueueState.CONNECTED
        assert (manager.throttled, manager.connection_active, manager.machine_domain_id) == (
            False,
            True,
            None,
        )

    @pytest.mark.conformance("DMPR-001")
    def test_every_field_carries_its_tag(self) -> None:
        for entity in (QueueManager, OutgoingQueue):
            for each in dataclasses.fields(entity):
                assert durability(entity, each.name) in Durability


class TestQueueManagerAttributes:
    """3.1.1.1."""

    @pytest.mark.conformance("DMPR-005")
    @pytest.mark.parametrize(
        ("identity", "short", "full"),
        [
            (Identity("a.example.test"), "A", "a.example.test"),
            (Identity("a", "a.example.test"), "A", "a.example.test"),
            (Identity("alone"), "ALONE", "alone"),
            (Identity("averyveryverylongname", "long.test"), "AVERYVERYVERYLO", "long.test"),
        ],
    )
    def test_its_names(self, identity: Identity, short: str, full: str) -> None:
        store = MemoryStore()
        for _ in range(2):  # both are kept
            manager = Engine(store, identity, now=NOW, owner=ALICE).queue_manager
            assert (manager.computer_name, manager.qualified_computer_name) == (short, full)

    @pytest.mark.conformance("DMPR-006")
    def test_its_versions(self, durable_world: World) -> None:
        manager = durable_world.engine.queue_manager
        assert (manager.queue_manager_version, manager.operating_system_version) == ("", "")
        assert manager.operating_system_type is OperatingSystemType.FOREIGN
        names = {"OTHER", "FOREIGN", "WIN95", "WIN_CLIENT", "WIN_SERVER", "WIN_ENT"}
        assert {each.name for each in OperatingSystemType} == names
        old = QueueManager(
            identifier=uuid4(),
            computer_name="NT4",
            queue_manager_version="4.0.1381",
            operating_system_version="4.0",
            operating_system_type=OperatingSystemType.WIN_ENT,
        )
        again = QueueManager(**decode_attributes(encode_attributes(old)))
        assert (again.queue_manager_version, again.operating_system_version) == ("4.0.1381", "4.0")
        assert again.operating_system_type is OperatingSystemType.WIN_ENT

    @pytest.mark.conformance("DMPR-011")
    def test_its_connected_networks(self, durable_world: World) -> None:
        manager = durable_world.engine.queue_manager
        assert (manager.connected_network_identifier_list, manager.connected_network_collection) == ([], [])
        networks = [ConnectedNetwork(identifier=uuid4(), name=name) for name in ("lan", "wan")]
        identifiers = [each.identifier for each in networks]
        manager.connected_network_identifier_list = identifiers
        manager.connected_network_collection = networks
        durable_world.set(journal_quota_kib=5)
        for _ in range(2):
            durable_world.restart()
            manager = durable_world.engine.queue_manager
            assert manager.connected_network_identifier_list == identifiers
            loaded = manager.connected_network_collection
            assert [type(each) for each in loaded] == [ConnectedNetwork] * 2
            assert [each.identifier for each in loaded] == identifiers

    @pytest.mark.conformance("DMPR-007")
    def test_its_times(self, durable_world: World) -> None:
        durable_world.sleep(5)
        durable_world.set(journal_quota_kib=5)
        for _ in range(2):
            manager = durable_world.engine.queue_manager
            assert (manager.create_time, manager.modify_time) == (NOW, NOW + 5)
            assert (type(manager.create_time), type(manager.modify_time)) == (int, int)
            durable_world.restart()

    @pytest.mark.conformance("DMPR-013")
    def test_its_roles_are_none_at_first_and_stay_as_they_are_set(self, world: World) -> None:
        roles = ("directory_server", "remote_access_server", "routing_server", "supporting_server")
        assert not any(getattr(world.engine.queue_manager, role) for role in roles)
        manager = world.engine.queue_manager
        manager.remote_access_server = manager.supporting_server = manager.routing_server = True
        world.run(world.engine.administration.save)
        world.restart()
        kept = [getattr(world.engine.queue_manager, role) for role in roles]
        assert kept == [False, True, True, True]

    @pytest.mark.conformance("DMPR-018", "DMPR-020", "DMPR-045")
    def test_in_a_workgroup_nobody_is_asked(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[object] = []
        for name in ("socket", "create_connection", "getaddrinfo", "gethostbyname"):
            monkeypatch.setattr(socket, name, lambda *args, **_: asked.append(args))
        world.engine.queue_manager.directory_integrated = False
        world.run(world.engine.administration.save)
        world.restart()
        world.create("private").send(b"1")
        world.create(r".\public").send(b"1")
        with pytest.raises(MqError):
            world.box(f"PUBLIC={uuid4()}").open(QueueAccess.SEND)
        assert world.engine.queue_manager.directory_integrated is False
        assert (world.engine.queue_manager.directory_offline, asked) == (False, [])

    def test_only_some_attributes_can_be_set(self, world: World) -> None:
        for name, value in (("computer_name", "X"), ("nonsense", 1), ("queue_manager_quota_kib", -1)):
            with pytest.raises(MqError):
                world.set(**{name: value})
        assert world.engine.queue_manager.computer_name == "HERE"
        assert world.engine.queue_manager.queue_manager_quota_kib == 0x0010_0000

    @pytest.mark.conformance("DMPR-025", "DMPR-128")
    def test_its_system_queues(self, durable_world: World) -> None:
        before = None
        for _ in range(2):
            manager = durable_world.engine.queue_manager
            queues = [
                manager.system_deadletter_queue,
                manager.system_transactional_deadletter_queue,
                manager.system_journal_queue,
            ]
            found = [queue for queue in queues if queue is not None]
            assert [queue.queue_type for queue in found] == [QueueType.SYSTEM] * 3
            identifiers = [queue.identifier for queue in found]
            assert len(set(identifiers)) == 3
            assert before in {None, tuple(identifiers)}
            before = tuple(identifiers)
            durable_world.restart()

    def test_every_part_sees_the_same_queue_manager(self, world: World) -> None:
        box = world.create("q")
        engine, manager = world.engine, world.engine.queue_manager
        parts = [
            engine._catalog.queue_manager,
            box.state.queue.queue_manager,
            engine.opening._access._catalog.queue_manager,
        ]
        assert all(part is manager for part in parts)
        world.run(engine.administration.take_offline)
        assert not any(part is None or part.connection_active for part in parts)
        world.run(engine.administration.bring_online)
        assert manager.connection_active


class TestQueueManagerState:
    @pytest.mark.conformance("DMPR-024")
    def test_from_stopped_to_stopped(self) -> None:
        store = MemoryStore()
        Engine(store, Identity("HERE"), now=NOW, owner=ALICE).stop()
        seen: list[QueueManagerState] = []

        def watch(_write: Write, _number: int) -> None:
            manager = getattr(engine, "queue_manager", None)
            seen.append(QueueManagerState.STOPPED if manager is None else manager.queue_manager_state)

        engine = Engine.__new__(Engine)
        store.spaces[Keyspace.QUEUES].clear()  # so that starting has something to write
        store.faults = watch
        engine.__init__(store, Identity("HERE"), now=NOW, owner=ALICE)  # type: ignore[misc]
        engine.begin(NOW)
        engine.queues.create(PathName.parse(r".\private$\q"), ALICE)
        engine.commit()
        engine.begin(NOW)
        engine.queues.create(PathName.parse(r".\private$\r"), ALICE)
        engine.stop()
        assert list(dict.fromkeys(seen)) == [
            QueueManagerState.INITIALIZING,
            QueueManagerState.READY,
            QueueManagerState.STOPPING,
        ]
        assert engine.queue_manager.queue_manager_state is QueueManagerState.STOPPED

    @pytest.mark.conformance("DMPR-024")
    @pytest.mark.parametrize("state", [each for each in QueueManagerState if each.value != "Ready"])
    def test_only_a_ready_one_takes_commands(self, world: World, state: QueueManagerState) -> None:
        world.engine.queue_manager.queue_manager_state = state
        with refused(0xC00E000B):
            world.engine.begin(NOW)

    @pytest.mark.parametrize("transactional", [False, True])
    def test_a_message_that_came_in_the_last_batch_is_not_taken_twice(
        self, world: World, transactional: bool
    ) -> None:
        box = world.create("q", transactional=transactional)
        place = {"transaction_id": 1, "tx_sequence_id": TxSequenceId(1, 1), "tx_sequence_number": 1}
        how: dict[str, Any] = place if transactional else {"delivery": RECOVERABLE}
        packet = foreign_packet(b"1", destination_queue=box.name, **how)
        source = Source(packet.source_queue_manager, "192.0.2.9", is_direct=True)
        world.engine.begin(world.now)
        world.engine.arrivals.arrive([Alike(packet)], source)
        world.restart()
        world.run(lambda: world.engine.arrivals.arrive([Alike(packet)], source))
        assert box.bodies() == [b"1"]


class TestInitialization:
    """3.1.3."""

    @pytest.mark.conformance("DMPR-121")
    def test_provisioning_happens_once(self, durable_world: World) -> None:
        identifier = durable_world.engine.queue_manager.identifier
        system = {each.queue.identifier for each in durable_world.engine.queues.all()}
        durable_world.sleep(100)
        durable_world.restart()
        assert durable_world.engine.queue_manager.identifier == identifier
        assert durable_world.engine.queue_manager.create_time == NOW
        assert {each.queue.identifier for each in durable_world.engine.queues.all()} == system

    @pytest.mark.conformance("DMPR-129")
    def test_the_internal_queues_exist_and_protocols_can_write_to_them(self, world: World) -> None:
        for name, number in (("order_queue$", 4), ("notify_queue$", 5)):
            box = world.box(name)
            assert box.state.queue.private_queue_number == number
            assert box.arrive(b"1") is None
            assert box.state.count == 1
            own = world.engine.queue_manager.identifier
            assert world.engine.queues.find(FormatName.parse(rf"PRIVATE={own}\{number}")) is box.state

    @pytest.mark.conformance("DMPR-122")
    def test_without_a_name_of_the_computer_it_does_not_start(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail() -> str:
            raise OSError("no name")

        with monkeypatch.context() as patched:
            patched.setattr(socket, "gethostname", fail)
            with pytest.raises(OSError, match="no name"):
                tiercel.open(tmp_path / "data")
        for name, full in (("pc", "pc"), ("pc.example.test", "pc.example.test")):
            monkeypatch.setattr(socket, "gethostname", lambda name=name: name)
            with tiercel.open(tmp_path / name) as qm:
                manager = qm.driver.engine.queue_manager
                assert (manager.computer_name, manager.qualified_computer_name) == ("PC", full)
        with tiercel.open(tmp_path / "data"):
            pass  # nothing was left open

    @pytest.mark.conformance("DMPR-133")
    @pytest.mark.parametrize("space", [Keyspace.QUEUES, Keyspace.META])
    def test_a_damaged_store_does_not_start(self, space: Keyspace) -> None:
        world = World()
        world.create("q")
        world.engine.stop()
        assert isinstance(world.store, MemoryStore)
        key = b"queue_manager" if space is Keyspace.META else world.store.spaces[space].keys()[-1]
        world.store.spaces[space][key] = b"\x00garbage"
        engine = Engine.__new__(Engine)
        with pytest.raises(MqError) as caught:
            engine.__init__(world.store, Identity("HERE"), now=NOW, owner=ALICE)  # type: ignore[misc]
        assert str(caught.value)
        manager = getattr(engine, "queue_manager", None)
        assert manager is None or manager.queue_manager_state is not QueueManagerState.READY

    def test_a_start_that_failed_changed_nothing(self) -> None:
        world = World()
        world.create("q").send(b"1")
        world.engine.stop()
        assert isinstance(world.store, MemoryStore)
        good = dict(world.store.spaces[Keyspace.META])
        world.store.spaces[Keyspace.META][b"queue_manager"] = b"{}"
        with pytest.raises(MqError):
            world.start()
        world.store = world.store.crash()
        assert isinstance(world.store, MemoryStore)
        world.store.spaces[Keyspace.META].update(good)
        world.start()
        assert world.box("q").bodies() == [b"1"]


class TestHardenedSecurity:
    def state_of(self, world: World, name: str) -> OutgoingQueueState:
        queue = world.box(name).state.queue
        assert isinstance(queue, OutgoingQueue)
        return queue.state

    @pytest.mark.conformance("DMPR-056", "DMPR-130", "DMPR-178")
    def test_it_locks_what_does_not_go_over_http(self, world: World) -> None:
        direct, http = r"DIRECT=OS:there\private$\q", "DIRECT=HTTP://there/msmq/q"
        new, multicast = r"DIRECT=TCP:192.0.2.8\private$\new", "MULTICAST=224.1.1.1:8001"
        for name in (direct, http):
            world.box(name).open(QueueAccess.SEND)
            assert self.state_of(world, name) is OutgoingQueueState.INACTIVE
        world.set(hardened_security=True)
        assert self.state_of(world, direct) is OutgoingQueueState.INACTIVE, "only at the next start"
        world.restart()
        for name in (new, multicast):
            world.box(name).open(QueueAccess.SEND)
        assert self.state_of(world, direct) is OutgoingQueueState.LOCKED
        assert self.state_of(world, new) is OutgoingQueueState.LOCKED
        assert self.state_of(world, http) is not OutgoingQueueState.LOCKED
        queue = world.box(multicast).state.queue
        assert isinstance(queue, OutgoingQueue)
        assert queue.multicast
        world.set(hardened_security=False)
        assert self.state_of(world, direct) is OutgoingQueueState.LOCKED
        world.restart()
        assert self.state_of(world, direct) is not OutgoingQueueState.LOCKED
        assert self.state_of(world, new) is not OutgoingQueueState.LOCKED
