"""The simulator with a second transport beside the first: exactly once, whatever fails."""

from functools import partial
from random import Random
from typing import cast

import pytest

from carrier import Answer, HttpCarrier, Post
from tiercel.engine.arrivals import Source
from tiercel.engine.incoming_streams import IncomingStream
from tiercel.server.transports import Transports
from tiercel.sim.machine import Machine, Parts
from tiercel.sim.network import Network
from tiercel.sim.simulation import run

SEEDS = 40
_TIMEOUT_S = 30.0


class TwoTransports(Transports):
    """Posts and answers over the simulated network, where they are lost, late and doubled."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine.node, machine.settings, machine.perform)
        self.machine = machine
        self.http = HttpCarrier(machine.engine)
        self._life = machine.life
        self._random = Random(f"{machine.name} {machine.life}")
        machine.node.attach(self.http, self._perform)

    @property
    def _network(self) -> Network:
        return self.machine._network

    def _perform(self, actions: list[Post | Answer]) -> None:
        for action in actions:
            if isinstance(action, Post):
                self.machine.after_commit(partial(self._post, action))
            else:
                self.machine.after_commit(partial(self._answer, action))

    def _after(self, target: Machine, command: "partial[None]", chance: float) -> None:
        """Reaches the other machine, or is lost; now and then it comes twice."""
        if not self.machine.is_up or self._network.is_blocked(self.machine, target):
            return
        for _ in range(self._random.choices((0, 1, 2), (chance, 1.0, chance))[0]):
            delay = self._network._delay() + self._random.random() * self._random.choice((0.0, 0.0, 60.0))
            self.machine._schedule.after(delay, partial(target.post, command))

    def _post(self, post: Post) -> None:
        network = self._network
        network.last_write = self.machine._schedule.now
        target = network._names.get(post.host.casefold())
        assert isinstance(target, Machine)
        self.machine._schedule.after(
            _TIMEOUT_S, partial(self._if_alive, partial(self.http.failed, post.number))
        )
        self._after(target, partial(_receive, target, self, post), 0.1)

    def _answer(self, answer: Answer) -> None:
        sender, number = cast("tuple[TwoTransports, int]", answer.post)
        heard = partial(sender.http.answered, number, answer.count, answer.streams)
        self._after(sender.machine, partial(sender._if_alive_now, heard), 0.1)

    def _if_alive(self, command: "partial[None]") -> None:
        self.machine.post(partial(self._if_alive_now, command))

    def _if_alive_now(self, command: "partial[None]") -> None:
        if self.machine.is_up and self.machine.life == self._life:
            command()


def _receive(target: Machine, sender: TwoTransports, post: Post) -> None:
    transports = target.transports
    assert isinstance(transports, TwoTransports)
    manager = sender.machine.engine.queue_manager.identifier
    source = Source(manager, sender.machine.addresses[0], is_direct=False)
    transports.http.received((sender, post.number), source, post.packets)


PARTS = Parts(transports=TwoTransports, forms=("http", "http", "http"))


@pytest.mark.parametrize("seed", range(1, SEEDS + 1))
def test_nothing_is_lost_doubled_or_reordered(seed: int) -> None:
    result = run(seed, PARTS)
    assert not result.problems, str(result)


def test_a_broken_stream_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same with a receiver that takes what it has taken already."""
    monkeypatch.setattr(IncomingStream, "accepts", lambda *_arguments: True)
    assert any(run(seed, PARTS).problems for seed in range(1, SEEDS + 1))


def test_a_lost_answer_that_counts_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same with a sender that takes silence for an answer."""

    def believe(self: HttpCarrier, number: int) -> None:
        self.engine.outgoing.delivered(self._posts.pop(number, []))

    monkeypatch.setattr(HttpCarrier, "failed", believe)
    assert any(run(seed, PARTS).problems for seed in range(1, SEEDS + 1))
