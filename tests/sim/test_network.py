"""The simulated network, with hosts that only write down what they hear."""

from collections.abc import Callable
from random import Random
from typing import cast

from tiercel.binary.actions import Action, Dial, Resolve, SendDatagram
from tiercel.binary.inputs import Inputs
from tiercel.engine.machine import Close, Write
from tiercel.model.codes import ConnectionStatus
from tiercel.sim.network import NOBODY, End, Network, Weather
from tiercel.sim.schedule import Schedule
from tiercel.sim.trace import Trace

CONNECTION = 7


class Ear:
    """Stands in for a protocol: keeps what it was told."""

    def __init__(self) -> None:
        self.heard: list[tuple[object, ...]] = []
        self.data: dict[int, bytes] = {}
        self.pieces = 0
        self._accepted = 100

    def accepted(self, address: str) -> int:
        self._accepted += 1
        self.heard.append(("accepted", address))
        return self._accepted

    def connected(self, connection: int) -> None:
        self.heard.append(("connected", connection))

    def connect_failed(self, connection: int, status: ConnectionStatus) -> None:
        self.heard.append(("failed", connection, status))

    def received(self, connection: int, data: bytes) -> None:
        self.data[connection] = self.data.get(connection, b"") + data
        self.pieces += 1

    def disconnected(self, connection: int) -> None:
        self.heard.append(("disconnected", connection))

    def resolved(self, host: str, addresses: list[str]) -> None:
        self.heard.append(("resolved", host, addresses))

    def datagram(self, address: str, port: int, data: bytes, *, is_reply: bool) -> None:
        self.heard.append(("datagram", address, port, data, is_reply))


class Host:
    def __init__(self, name: str, address: str) -> None:
        self.name = name
        self.addresses: tuple[str, ...] = (address,)
        self.is_up = True
        self.life = 1
        self.ends: dict[int, End] = {}
        self.ear = Ear()
        self.protocol = cast("Inputs", self.ear)

    def post(self, command: Callable[[], None]) -> None:
        if self.is_up:
            command()


class Wire:
    """Two hosts and what is between them."""

    def __init__(self, seed: int = 1) -> None:
        self.schedule = Schedule()
        self.network = Network(self.schedule, Random(seed), Trace(self.schedule, None))
        self.one, self.other = Host("ONE", "10.0.0.1"), Host("OTHER", "10.0.0.2")
        self.network.add(self.one, "one")
        self.network.add(self.other, "other")

    def do(self, host: Host, *actions: Action, seconds: float = 100.0) -> None:
        self.network.perform(host, list(actions))
        self.schedule.run_until(self.schedule.now + seconds)

    def connect(self) -> End:
        self.do(self.one, Dial(CONNECTION, "10.0.0.2", 1801))
        return self.one.ends[CONNECTION]


def test_a_connection_is_accepted_and_carries_bytes_both_ways() -> None:
    wire = Wire()
    wire.connect()
    assert wire.one.ear.heard == [("connected", CONNECTION)]
    assert wire.other.ear.heard == [("accepted", "10.0.0.1")]
    wire.do(wire.one, Write(CONNECTION, b"to"))
    wire.do(wire.other, Write(101, b"fro"))
    assert wire.other.ear.data == {101: b"to"}
    assert wire.one.ear.data == {CONNECTION: b"fro"}


def test_bytes_come_in_pieces_and_in_order() -> None:
    wire = Wire()
    wire.network.weather = Weather(jitter=5.0, split=1.0)
    wire.connect()
    for number in range(50):
        wire.do(wire.one, Write(CONNECTION, bytes([number]) * 10), seconds=0.01)
    wire.schedule.run_until(1000.0)
    assert wire.other.ear.data[101] == b"".join(bytes([number]) * 10 for number in range(50))
    assert wire.other.ear.pieces > 50


def test_nobody_answers_at_an_unknown_address() -> None:
    wire = Wire()
    wire.do(wire.one, Dial(CONNECTION, NOBODY, 1801))
    assert wire.one.ear.heard == [("failed", CONNECTION, ConnectionStatus.SOCKET_CONNECT_FAILURE)]


def test_a_machine_that_is_down_refuses() -> None:
    wire = Wire()
    wire.other.is_up = False
    wire.do(wire.one, Dial(CONNECTION, "10.0.0.2", 1801))
    assert wire.one.ear.heard[0][0] == "failed"


def test_a_close_comes_after_what_was_written() -> None:
    wire = Wire()
    wire.connect()
    wire.do(wire.one, Write(CONNECTION, b"last words"), Close(CONNECTION))
    assert wire.other.ear.data == {101: b"last words"}
    assert wire.other.ear.heard[-1] == ("disconnected", 101)
    assert ("disconnected", CONNECTION) not in wire.one.ear.heard
    assert not wire.network.connections


def test_both_sides_hear_of_a_cut() -> None:
    wire = Wire()
    wire.network.cut(wire.connect(), dialer_hears=True, acceptor_hears=True)
    wire.schedule.run_until(1000.0)
    assert wire.one.ear.heard[-1] == ("disconnected", CONNECTION)
    assert wire.other.ear.heard[-1] == ("disconnected", 101)


def test_a_half_open_connection_carries_nothing() -> None:
    wire = Wire()
    end = wire.connect()
    wire.network.cut(end, dialer_hears=False, acceptor_hears=True)
    end.hears_reset = False
    wire.do(wire.one, Write(CONNECTION, b"hello?"))
    assert wire.other.ear.heard[-1] == ("disconnected", 101)
    assert wire.one.ear.heard == [("connected", CONNECTION)]
    assert not wire.other.ear.data


def test_who_writes_into_a_cut_connection_may_learn_of_it() -> None:
    wire = Wire()
    end = wire.connect()
    wire.network.cut(end, dialer_hears=False, acceptor_hears=False)
    end.hears_reset = True
    wire.do(wire.one, Write(CONNECTION, b"hello?"))
    assert wire.one.ear.heard[-1] == ("disconnected", CONNECTION)


def test_bytes_wait_while_the_machines_cannot_reach_each_other() -> None:
    wire = Wire()
    wire.connect()
    wire.network.block(wire.one, wire.other)
    wire.do(wire.one, Write(CONNECTION, b"a"))
    wire.do(wire.one, Write(CONNECTION, b"b"))
    assert not wire.other.ear.data
    wire.network.unblock(wire.one, wire.other)
    wire.do(wire.one, Write(CONNECTION, b"c"))
    assert wire.other.ear.data == {101: b"abc"}


def test_no_connection_is_made_between_machines_that_cannot_reach_each_other() -> None:
    wire = Wire()
    wire.network.block(wire.one, wire.other)
    wire.do(wire.one, Dial(CONNECTION, "10.0.0.2", 1801))
    assert wire.one.ear.heard[0][0] == "failed"


def test_a_process_that_dies_ends_its_connections() -> None:
    wire = Wire()
    wire.connect()
    wire.other.is_up = False
    wire.network.stopped(wire.other, is_silent=False)
    wire.schedule.run_until(1000.0)
    assert wire.one.ear.heard[-1] == ("disconnected", CONNECTION)


def test_a_machine_that_dies_says_nothing_until_it_is_back() -> None:
    wire = Wire()
    wire.connect()
    wire.other.is_up = False
    wire.network.stopped(wire.other, is_silent=True)
    wire.do(wire.one, Write(CONNECTION, b"a"))
    assert wire.one.ear.heard == [("connected", CONNECTION)]
    wire.other.is_up, wire.other.life = True, 2
    wire.do(wire.one, Write(CONNECTION, b"b"))
    assert wire.one.ear.heard[-1] == ("disconnected", CONNECTION)
    assert not wire.other.ear.data


def test_names_have_addresses() -> None:
    wire = Wire()
    wire.do(wire.one, Resolve("Other"), Resolve("10.0.0.2"), Resolve("nobody"))
    heard = sorted(wire.one.ear.heard, key=str)
    assert heard == [
        ("resolved", "10.0.0.2", ["10.0.0.2"]),
        ("resolved", "Other", ["10.0.0.2"]),
        ("resolved", "nobody", []),
    ]


def test_a_name_may_have_a_dead_address_beside_the_right_one() -> None:
    wire = Wire()
    wire.network.weather = Weather(wrong_address=1.0)
    wire.do(wire.one, Resolve("other"))
    assert sorted(cast("list[str]", wire.one.ear.heard[0][2])) == ["10.0.0.2", NOBODY]


def test_a_stranger_connects_and_goes() -> None:
    wire = Wire()
    stranger = Host("STRANGER", "10.9.9.9")
    wire.network.intrude(stranger, wire.other, b"what is this?", stays=False)
    wire.schedule.run_until(100.0)
    assert wire.other.ear.data == {101: b"what is this?"}
    assert wire.other.ear.heard == [("accepted", "10.9.9.9"), ("disconnected", 101)]


def test_datagrams_arrive_or_not() -> None:
    wire = Wire()
    wire.do(wire.one, SendDatagram("10.0.0.2", 3527, b"ping", is_reply=False))
    assert wire.other.ear.heard == [("datagram", "10.0.0.1", 50_000, b"ping", False)]
    wire.network.weather = Weather(lose_datagram=1.0)
    wire.do(wire.one, SendDatagram("10.0.0.2", 3527, b"ping", is_reply=False))
    assert len(wire.other.ear.heard) == 1


def test_a_host_behind_a_gateway_can_dial_and_cannot_be_dialled() -> None:
    wire = Wire()
    wire.network.hide(wire.one, "10.0.9.1")
    wire.connect()
    assert wire.other.ear.heard == [("accepted", "10.0.9.1")]
    for number, address in enumerate(("10.0.0.1", "10.0.9.1"), 1):
        wire.do(wire.other, Dial(number, address, 1801))
    failed = [event[:2] for event in wire.other.ear.heard[1:]]
    assert failed == [("failed", 1), ("failed", 2)]


def test_nobody_answers_at_the_old_address_of_a_host() -> None:
    wire = Wire()
    wire.network.move(wire.other, "10.7.0.2")
    wire.do(wire.one, Dial(CONNECTION, "10.0.0.2", 1801))
    wire.do(wire.one, Dial(CONNECTION + 1, "10.7.0.2", 1801))
    assert [event[0] for event in wire.one.ear.heard] == ["failed", "connected"]
    wire.do(wire.one, Resolve("other"))
    assert wire.one.ear.heard[-1] == ("resolved", "other", ["10.7.0.2"])
