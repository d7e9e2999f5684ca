"""Consumers in addition to the workload: they lease, claim, stage and read remotely, and lose answers or die.

Each is a client that may crash or miss an answer. Three invariants must hold, whatever fails:

- An acknowledged message is never handed out again, and acknowledging it twice changes nothing.
- A stale client (an expired lease, a consumer that was taken over) changes nothing.
- Acknowledged messages count as received, and published ones as sent: the checkers of the world find lost
  and doubled ones.
"""

from functools import partial
from random import Random

from tiercel.sim.consumers.claims import ClaimClient
from tiercel.sim.consumers.client import Book, Client, Surroundings
from tiercel.sim.consumers.leases import LeaseClient
from tiercel.sim.consumers.remote_readers import RemoteReader
from tiercel.sim.consumers.stages import StageClient
from tiercel.sim.machine import Machine
from tiercel.sim.schedule import Schedule
from tiercel.sim.trace import Trace
from tiercel.sim.workload import Workload

_KINDS: tuple[type[LeaseClient | ClaimClient | RemoteReader | StageClient], ...] = (
    LeaseClient,
    ClaimClient,
    RemoteReader,
    StageClient,
)
_REQUESTS = (3, 10, 30)


class Consumers:
    """Some kinds of consumers, on every machine; in many worlds there are none."""

    def __init__(
        self,
        machines: list[Machine],
        schedule: Schedule,
        random: Random,
        trace: Trace,
        workload: Workload,
        duration: float,
    ) -> None:
        self._random = random
        self._duration = duration
        self._surroundings = Surroundings(schedule, random, trace, Book(workload.sent_messages, trace))
        self._clients: list[Client] = []
        if random.random() < 0.5:
            return
        kinds = random.sample(_KINDS, random.choice((1, 1, 2, 3)))
        for machine in machines:
            for kind in kinds:
                self._clients.append(kind(machine, self._surroundings, workload))

    def plan(self) -> None:
        for client in self._clients:
            for _ in range(self._random.choice(_REQUESTS)):
                time = self._random.random() * self._duration
                self._surroundings.schedule.at(time, partial(client.machine.post, client.act))

    def settle(self) -> None:
        """The faults are over: no more answers are lost, and all held messages are given back."""
        self._surroundings.is_over = True
        for client in self._clients:
            client.machine.post(client.settle)

    @property
    def problems(self) -> list[str]:
        return self._surroundings.book.problems
