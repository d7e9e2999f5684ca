"""Clients of the API: they acknowledge, give back, extend or forget their leases."""

from contextlib import suppress
from functools import partial

from tiercel.admin.leases import Leases, Receipt
from tiercel.engine.handles import Waiter
from tiercel.model.errors import LeaseEndedError, MqError
from tiercel.sim.consumers.client import QUEUES, Held, Surroundings
from tiercel.sim.machine import OWNER, Machine
from tiercel.sim.workload import Workload
from tiercel.wire.user_message import UserMessage

_SECONDS = (0.5, 5.0, 60.0)


class LeaseClient:
    def __init__(self, machine: Machine, surroundings: Surroundings, _workload: Workload) -> None:
        self.machine = machine
        self._around = surroundings
        self._leases: Leases
        self._acknowledged: set[str] = set()
        machine.starting.append(self._started)

    def _started(self) -> None:
        machine = self.machine
        self._leases = Leases(machine.engine, OWNER, lambda: machine.new_guid().hex)
        machine.node.attach(self._leases, lambda _actions: None)

    def act(self) -> None:
        random = self._around.random
        try:
            receipt = self._leases.open(random.choice(QUEUES))
        except MqError:
            return
        self._leases.take(receipt, random.choice((1, 3, 10)))
        if receipt.taken or random.random() < 0.5:
            self._lease(receipt)
            return
        result = self._leases.wait(receipt, random.choice((1.0, 30.0)))
        assert isinstance(result, Waiter)
        self._wait(receipt, result)

    def _wait(self, receipt: Receipt, waiter: Waiter) -> None:
        def look(_is_durable: bool) -> bool:
            if not waiter.is_done:
                return False
            if waiter.found is not None:
                receipt.taken.append(waiter.found)
            is_gone = self._around.loses_answer()  # the client has given up
            self.machine.post(partial(self._leases.abandon if is_gone else self._lease, receipt))
            return True

        self.machine.watch(look)

    def _lease(self, receipt: Receipt) -> None:
        machine, around = self.machine, self._around
        held = [
            around.book.handed(machine, found.queue, found.lookup_id, UserMessage(found.record.packet).label)
            for found in receipt.taken
        ]
        leases = self._leases.lease(receipt, around.random.choice(_SECONDS), "client")

        def answered(is_durable: bool) -> None:
            if is_durable and not around.loses_answer():  # otherwise the leases expire
                for lease, each in zip(leases, held, strict=True):
                    around.later(machine, partial(self._decide, lease, each))

        machine.note(answered)

    def _decide(self, lease: str, held: Held) -> None:
        draw = self._around.random.random()
        if draw < 0.6:
            self._acknowledge(lease, held)
            return
        with suppress(LeaseEndedError):
            if draw < 0.75:
                self._leases.give_back(lease)
            elif draw < 0.85:
                self._leases.extend(lease, self._around.random.choice(_SECONDS))
                self._around.later(self.machine, partial(self._decide, lease, held))

    def _acknowledge(self, lease: str, held: Held) -> None:
        """Repeat until the answer is received."""
        machine, book = self.machine, self._around.book
        is_of_this_life = held.life == machine.life
        try:
            is_first = self._leases.acknowledge(lease)
        except LeaseEndedError:
            if lease in self._acknowledged and is_of_this_life:
                book.report(f"{held.sent}: its lease was acknowledged, and the second time refused")
            return
        if not is_of_this_life:
            book.report(f"{held.sent}: a lease outlived the queue manager that gave it")
        if is_first and lease in self._acknowledged:
            book.report(f"{held.sent}: its lease was acknowledged twice")

        def done(is_durable: bool) -> None:
            if is_durable and is_first:
                self._acknowledged.add(lease)
                book.acknowledged(held)
            if self._around.loses_answer():
                self._around.later(machine, partial(self._acknowledge, lease, held))

        machine.note(done)

    def settle(self) -> None:
        """Nothing to do: leases expire by themselves."""
