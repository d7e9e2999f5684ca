"""Bursts in addition to the workload: one sender, one queue, many messages of one shape.

Queue managers handle such messages as runs. Some bursts are sent in several batches, some have messages of
other shapes among them, and some lose their session in the middle.
"""

from functools import partial
from random import Random

from tiercel.sim.machine import Machine
from tiercel.sim.network import Network
from tiercel.sim.schedule import Schedule
from tiercel.sim.sent_messages import Kind
from tiercel.sim.workload import Workload

_SIZES = (2, 3, 8, 33, 65, 130, 300)  # around the bits of an acknowledgement, and around the window
_PAUSES_S = (0.0, 0.0, 0.001, 0.003, 1.0)  # between the parts of a burst


class Bursts:
    """In half of the worlds there are none."""

    def __init__(
        self,
        machines: list[Machine],
        schedule: Schedule,
        network: Network,
        random: Random,
        workload: Workload,
        duration: float,
    ) -> None:
        self._machines = machines
        self._schedule = schedule
        self._network = network
        self._random = random
        self._workload = workload
        self._duration = duration
        self.count = random.choice((0, 0, 0, 1, 1, 2))
        self._other_shapes = random.choice((0.0, 0.0, 0.02, 0.3))
        self._cuts = random.choice((0.0, 0.5, 1.0))

    def plan(self) -> None:
        for _ in range(self.count):
            self._schedule.at(self._random.random() * self._duration, self._start)

    def _start(self) -> None:
        random = self._random
        machine, kind = random.choice(self._machines), random.choice(list(Kind))
        left = random.choice(_SIZES)
        send = self._workload.new_burst(machine, kind, self._other_shapes)
        at, pause = 0.0, random.choice(_PAUSES_S)
        while left:
            part = min(left, random.choice((1, 10, 64, 300)))
            self._schedule.after(at, partial(machine.post, partial(send, part)))
            left, at = left - part, at + pause
        if random.random() < self._cuts:
            delay = random.choice((0.01, 0.05, at)) * random.random()
            self._schedule.after(delay, partial(self._cut, machine))

    def _cut(self, machine: Machine) -> None:
        """Lose a session of the machine, if the faults are not over yet."""
        ends = [
            end
            for end in self._network.connections
            if end.peer is not None and not end.is_cut and machine in {end.host, end.peer.host}
        ]
        if ends and self._schedule.now < self._duration:
            hears = self._random.choice(((True, True), (True, True), (True, False), (False, True)))
            self._network.cut(self._random.choice(ends), dialer_hears=hears[0], acceptor_hears=hears[1])
