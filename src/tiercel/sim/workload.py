"""The applications: they send, receive, purge, pause and resume as the seed says, and record it."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from random import Random
from uuid import UUID

from tiercel.engine.handles import Found, OpenQueue
from tiercel.engine.queue_state import QueueState
from tiercel.engine.transaction import Transaction, TransactionState
from tiercel.model.codes import Acknowledgements, DeliveryGuarantee, QueueAccess
from tiercel.model.errors import (
    IllegalOperationError,
    IoTimeoutError,
    MqError,
    QueueNotFoundError,
    StoreFullError,
)
from tiercel.model.format_name import FormatName
from tiercel.model.limits import INFINITE, TIME_TO_REACH_QUEUE_DEFAULT_S
from tiercel.model.message import Message
from tiercel.model.queue import OutgoingQueue
from tiercel.sim.http_links import HttpLinks
from tiercel.sim.machine import OWNER, Machine
from tiercel.sim.protection import Protection
from tiercel.sim.schedule import Schedule
from tiercel.sim.sent_messages import Kind, Receipt, SentMessage, SentMessages
from tiercel.sim.setup import (
    ADMIN_QUEUE,
    PLAIN_QUEUES,
    SMALL_QUEUES,
    TRANSACTIONAL_QUEUES,
    create,
    installed,
)
from tiercel.sim.trace import Trace
from tiercel.wire.user_message import UserMessage

_FORMS = ("tcp", "os", "private")
_RECEIVE_ADMIN = QueueAccess.RECEIVE | QueueAccess.ADMIN


@dataclass(slots=True)
class WorkloadOptions:
    """How the applications of this seed behave."""

    actions: int = 40
    bursts: tuple[int, ...] = (1, 1, 2, 5)  # number of messages sent at once
    duration: float = 120.0
    forms: tuple[str, ...] = _FORMS
    local: float = 0.15  # probability of sending to a queue of the same machine
    expiring: float = 0.15
    journaling: float = 0.4
    acknowledged: float = 0.3
    refused: float = 0.05  # probability of sending to a queue that will refuse
    misspelt: float = 0.1  # probability of writing a name in capitals, which means the same queue
    addresses: int = 2  # how many addresses of a machine appear in names
    router_purges: int = 0  # how often an administrator purges what waits at a router
    http: HttpLinks = field(default_factory=HttpLinks)
    protection: Protection | None = None
    transactional_queues: tuple[str, ...] = TRANSACTIONAL_QUEUES
    plain_queues: tuple[str, ...] = PLAIN_QUEUES
    weights: dict[str, int] = field(
        default_factory=lambda: {
            "send": 30,
            "transact": 30,
            "receive": 15,
            "receive_in_transaction": 12,
            "wait": 6,
            "prepare": 4,
            "purge": 1,
            "purge_outgoing": 1,
            "pause": 3,
            "delete": 1,
        }
    )


@lru_cache(1000)
def parse(name: str) -> FormatName:
    return FormatName.parse(name)


@dataclass(slots=True, eq=False)
class _Decision:
    """The coordinator's decision about a prepared transaction."""

    id: UUID
    commits: bool
    sent: list[SentMessage]
    receipts: list[tuple[SentMessage, Receipt]]
    is_over: bool = False


class Workload:
    def __init__(
        self,
        machines: list[Machine],
        schedule: Schedule,
        random: Random,
        trace: Trace,
        sent_messages: SentMessages,
        options: WorkloadOptions,
    ) -> None:
        self._machines = machines
        self._schedule = schedule
        self._random = random
        self._trace = trace
        self.sent_messages = self._sent_messages = sent_messages
        self._options = options
        self._handles: dict[Machine, tuple[int, dict[tuple[str, QueueAccess], OpenQueue]]] = {}
        self._in_doubt: list[tuple[Machine, _Decision]] = []

    def plan(self) -> None:
        for _ in range(self._options.actions):
            time = self._random.random() * self._options.duration
            self._schedule.at(time, self._act)
        for _ in range(self._options.router_purges):
            time = self._random.random() * self._options.duration
            self._schedule.at(time, self._purge_router)

    def _act(self) -> None:
        machine = self._random.choice(self._machines)
        weights = self._options.weights
        action = self._random.choices(list(weights), list(weights.values()))[0]
        command: Callable[[Machine], None] = getattr(self, f"_{action}")
        machine.post(partial(command, machine))

    # Sending.

    def _send(self, machine: Machine) -> None:
        for _ in range(self._random.choice(self._options.bursts)):
            recoverable = self._random.random() < 0.6
            kind = Kind.RECOVERABLE if recoverable else Kind.EXPRESS
            sent, message = self._compose(machine, kind)
            if self._try_to_send(sent, message, None):
                sent.order = self._sent_messages.next_order()
                machine.note(partial(self._mark_sent, [sent]))

    def _transact(self, machine: Machine) -> None:
        """Send several messages to several queues; a transaction is sent completely or not at all."""
        transaction = machine.engine.transactions.begin()
        sent: list[SentMessage] = []
        receipts = self._receive_some(machine, transaction) if self._random.random() < 0.2 else []
        for _ in range(self._random.choice(self._options.bursts)):
            each, message = self._compose(machine, Kind.TRANSACTIONAL)
            if self._try_to_send(each, message, transaction):
                sent.append(each)
        self._end_transaction(machine, transaction, sent, receipts)

    def new_burst(self, machine: Machine, kind: Kind, other_shapes: float) -> Callable[[int], None]:
        """A command that sends as many messages as it is told, all to one queue and like the first.

        `other_shapes` is the probability that another message comes in place of one of them.
        """
        first: list[tuple[SentMessage, Message]] = []

        def send(count: int) -> None:
            first[:] = first or [self._compose(machine, kind)]
            transaction = machine.engine.transactions.begin() if kind is Kind.TRANSACTIONAL else None
            sent: list[SentMessage] = []
            for _ in range(count):
                is_other = self._random.random() < other_shapes
                each, message = self._compose_after(first[0][0]) if is_other else self._like(*first[0])
                if self._try_to_send(each, message, transaction):
                    sent.append(each)
            if transaction is None or self._commit(machine, transaction):
                self.number(sent)
                machine.note(partial(self._mark_sent, sent))

        return send

    def _like(self, earlier: SentMessage, message: Message) -> tuple[SentMessage, Message]:
        label = self._sent_messages.new_label(earlier.source)
        body = label.encode().ljust(len(message.body), b".")
        return replace(earlier, label=label, receipts=[]), replace(message, label=label, body=body)

    def _compose_after(self, earlier: SentMessage) -> tuple[SentMessage, Message]:
        """Another message from the same sender to the same queue."""
        sent, _ = self._compose(earlier.source, earlier.kind)
        sent.target, sent.queue, sent.name = earlier.target, earlier.queue, earlier.name
        sent.is_over_http = earlier.is_over_http  # in the names of its administration queue, too
        self._keep_first_alive(sent)
        return sent, self._message(sent)

    def _end_transaction(
        self,
        machine: Machine,
        transaction: Transaction,
        sent: list[SentMessage],
        receipts: list[tuple[SentMessage, Receipt]],
    ) -> None:
        """End it now, or in a later batch."""
        commits, life = self._random.random() < 0.8, machine.life

        def end() -> None:
            if machine.life != life or transaction.state is not TransactionState.ACTIVE:
                return
            transactions = machine.engine.transactions
            labels = " ".join(each.label for each in sent)
            there = [each for each in receipts if not each[1].state.is_deleted]
            taken = " ".join(sent.label for sent, _ in there)
            self._trace(machine.name, f"{'commit' if commits else 'abort'} sends [{labels}] takes [{taken}]")
            if not commits:
                transactions.abort(transaction.id)
                return
            if not self._commit(machine, transaction):
                return
            self.number(sent)
            machine.note(partial(self._mark_sent, sent))
            machine.note(partial(self._received, there))

        if self._random.random() < 0.7:
            end()
        else:
            delay = self._random.choice((0.001, 0.1, 5.0))
            self._schedule.after(delay, partial(machine.post, end))

    def _try_to_send(self, sent: SentMessage, message: Message, transaction: Transaction | None) -> bool:
        machine = sent.source
        self._sent_messages.add(sent)
        try:
            opened = self._open(machine, sent.name, QueueAccess.SEND)
            if self._options.protection is not None:
                is_transactional = transaction is not None
                self._options.protection.protect(sent, opened, message, is_transactional=is_transactional)
            sent.id = machine.engine.sending.send(opened, message, transaction)
        except MqError as error:
            self._trace(machine.name, f"cannot send {sent.label}: {error}")
            sent.is_refused = True
            return False
        sent.sent_time, sent.life = message.sent_time, machine.life
        self._trace(machine.name, f"sends {sent} id {sent.id.uniquifier} {self._wishes(sent)}".rstrip())
        return True

    def _mark_sent(self, sent: list[SentMessage], is_durable: bool) -> None:
        for each in sent:
            each.is_sent = is_durable
            if not is_durable:
                self._trace(each.source.name, f"{each.label} was never sent")

    def _compose(self, machine: Machine, kind: Kind) -> tuple[SentMessage, Message]:
        random, options = self._random, self._options
        target = machine
        if random.random() >= options.local:
            target = random.choice(self._others(machine) or [machine])
        queue = self._choose_queue(kind)
        if self._options.http.has(machine.name, target.name):
            queue = self._queue_over_http(machine, target, kind, queue)
        admin: Machine | None = None
        if random.random() < options.acknowledged:
            admin = random.choice(
                [each for each in (machine, machine, machine, *self._machines) if not each.is_hidden]
            )
        acknowledgements = random.randrange(1, 16) if admin is not None else 0
        is_expiring = random.random() < options.expiring
        sent = SentMessage(
            self._sent_messages.new_label(machine),
            kind,
            machine,
            target,
            queue,
            self._destination(machine, target, queue),
            random.choice((1, 10, 60)) if is_expiring else TIME_TO_REACH_QUEUE_DEFAULT_S,
            random.choice((10, 100)) if random.random() < options.expiring else INFINITE,
            acknowledgements,
            admin,
            positive_journaling=random.random() < options.journaling,
            negative_journaling=random.random() < options.journaling,
            is_over_http=options.http.has(machine.name, target.name),
        )
        self._keep_first_alive(sent)
        return sent, self._message(sent)

    def _keep_first_alive(self, sent: SentMessage) -> None:
        """If an HTTP router has the first message of a stream when it expires, the rest waits for days."""
        if sent.is_transactional and self._options.http.is_routed(sent.source.name, sent.target.name):
            sent.time_to_reach_queue, sent.time_to_be_received = TIME_TO_REACH_QUEUE_DEFAULT_S, INFINITE

    def _others(self, machine: Machine) -> list[Machine]:
        """The machines that this one can send to."""
        return [each for each in self._machines if each is not machine and not each.is_hidden]

    def compose_plain(self, machine: Machine, target: Machine | None = None) -> tuple[SentMessage, Message]:
        """A transactional message without special options, for callers that send it in another way."""
        random, options = self._random, self._options
        target = target or random.choice([machine, *self._others(machine)])
        queue = random.choice(options.transactional_queues)
        sent = SentMessage(
            self._sent_messages.new_label(machine),
            Kind.TRANSACTIONAL,
            machine,
            target,
            queue,
            self._destination(machine, target, queue),
            TIME_TO_REACH_QUEUE_DEFAULT_S,
            INFINITE,
            0,
            None,
            positive_journaling=False,
            negative_journaling=False,
            is_over_http=options.http.has(machine.name, target.name),
        )
        self._sent_messages.add(sent)
        return sent, self._message(sent)

    def number(self, sent: list[SentMessage]) -> None:
        """Record the order in which messages are committed."""
        for each in sent:
            each.order = self._sent_messages.next_order()

    def _choose_queue(self, kind: Kind) -> str:
        draw = self._random.random()
        transactional = kind is Kind.TRANSACTIONAL
        if draw < self._options.refused / 2:
            return self._random.choice(
                ("nowhere", *(PLAIN_QUEUES if transactional else TRANSACTIONAL_QUEUES))
            )
        if draw < self._options.refused:
            return SMALL_QUEUES[transactional]
        return self._random.choice(
            self._options.transactional_queues if transactional else self._options.plain_queues
        )

    def _queue_over_http(self, machine: Machine, target: Machine, kind: Kind, queue: str) -> str:
        """Not one that keeps messages at their sender for days, and with them those that follow.

        These are full queues and, behind a router, queues that can never take the message: the router alone
        hears of that.
        """
        is_transactional = kind is Kind.TRANSACTIONAL
        valid = TRANSACTIONAL_QUEUES if is_transactional else PLAIN_QUEUES
        is_hopeless = queue not in valid and self._options.http.is_routed(machine.name, target.name)
        return valid[0] if is_hopeless or queue in SMALL_QUEUES else queue

    def _message(self, sent: SentMessage) -> Message:
        size = self._random.choice((0, 20, 20, 200, 200, 1000, 9000))
        is_recoverable = sent.kind is Kind.RECOVERABLE
        return Message(
            sent.label.encode().ljust(size, b"."),
            label=sent.label,
            delivery=DeliveryGuarantee.RECOVERABLE if is_recoverable else DeliveryGuarantee.EXPRESS,
            priority=self._random.choice((0, 3, 3, 7)),
            time_to_reach_queue=sent.time_to_reach_queue,
            time_to_be_received=sent.time_to_be_received,
            acknowledgements=sent.acknowledgements,
            administration_queue=None if sent.admin is None else self._admin_name(sent),
            positive_journaling=sent.positive_journaling,
            negative_journaling=sent.negative_journaling,
        )

    def _admin_name(self, sent: SentMessage) -> FormatName:
        assert sent.admin is not None
        if sent.is_over_http:  # receipts can only go to an HTTP name
            return parse(self._url(sent.target, sent.admin, ADMIN_QUEUE))
        return parse(self._name(sent.admin, ADMIN_QUEUE, self._random.choice(self._options.forms)))

    def _destination(self, machine: Machine, target: Machine, queue: str) -> str:
        if self._options.http.has(machine.name, target.name):
            return self._url(machine, target, queue)
        return self._name(target, queue, self._form(machine, target))

    def _url(self, machine: Machine, target: Machine, queue: str) -> str:
        """The name by which one machine sends to a queue of another over HTTP."""
        url = self._options.http.url(machine.name, target.name, queue)
        return f"DIRECT={url.upper() if self._random.random() < self._options.misspelt else url}"

    def _form(self, machine: Machine, target: Machine) -> str:
        """The form of a name; HTTP names leave the machine even if they lead back to it."""
        form = self._random.choice(self._options.forms)
        return "os" if form == "http" and target is machine else form

    def _name(self, target: Machine, queue: str, form: str) -> str:
        identifier, numbers, _ = installed(self._machines.index(target))
        if form == "http":
            return f"DIRECT=HTTP://{target.name}/msmq/private$/{queue}"
        if form == "private":
            return f"PRIVATE={identifier}\\{numbers.get(queue, 0xFFFF):08x}"
        host = target.name.lower()
        if form == "tcp":
            host = self._random.choice(target.addresses[: self._options.addresses])
        if self._random.random() < self._options.misspelt:
            host, queue = host.upper(), queue.upper()
        return rf"DIRECT={form.upper()}:{host}\private$\{queue}"

    @staticmethod
    def _wishes(sent: SentMessage) -> str:
        words = []
        if sent.time_to_reach_queue != TIME_TO_REACH_QUEUE_DEFAULT_S:
            words.append(f"reach in {sent.time_to_reach_queue} s")
        if sent.time_to_be_received != INFINITE:
            words.append(f"receive in {sent.time_to_be_received} s")
        if sent.positive_journaling:
            words.append("journal")
        if sent.negative_journaling:
            words.append("dead letter")
        if sent.admin is not None:
            words.append(f"tell {sent.admin} {Acknowledgements(sent.acknowledgements)!r}")
        return ", ".join(words)

    # Receiving.

    def _receive(self, machine: Machine) -> None:
        queue = self._random.choice((*PLAIN_QUEUES, *TRANSACTIONAL_QUEUES, *SMALL_QUEUES))
        receipts = self._take(machine, queue, self._random.randint(1, 4), None)
        machine.note(partial(self._received, receipts))

    def _receive_in_transaction(self, machine: Machine) -> None:
        transaction = machine.engine.transactions.begin()
        self._end_transaction(machine, transaction, [], self._receive_some(machine, transaction))

    def _receive_some(self, machine: Machine, transaction: Transaction) -> list[tuple[SentMessage, Receipt]]:
        queue = self._random.choice(TRANSACTIONAL_QUEUES)
        return self._take(machine, queue, self._random.randint(1, 5), transaction)

    def _take(
        self, machine: Machine, queue: str, most: int, transaction: Transaction | None
    ) -> list[tuple[SentMessage, Receipt]]:
        taken: list[tuple[SentMessage, Receipt]] = []
        with suppress(IoTimeoutError, QueueNotFoundError):
            opened = self._open(machine, rf"DIRECT=OS:.\private$\{queue}", QueueAccess.RECEIVE)
            for _ in range(most):
                found = machine.engine.reading.receive(opened, 0, transaction=transaction)
                assert isinstance(found, Found)
                label = UserMessage(found.record.packet).label
                self._trace(
                    machine.name, f"takes {label} from {queue}{' in a transaction' * bool(transaction)}"
                )
                receipt = Receipt(machine.life, found.lookup_id, found.queue)
                sent = self._sent_messages.find(label)
                self._check(machine, sent, found)
                taken.append((sent, receipt))
        return taken

    def _check(self, machine: Machine, sent: SentMessage, found: Found) -> None:
        if self._options.protection is not None and sent.label in self._sent_messages.all:
            self._options.protection.check(machine, sent, found)

    def _received(self, receipts: list[tuple[SentMessage, Receipt]], is_durable: bool) -> None:
        for sent, receipt in receipts:
            if is_durable:
                sent.receipts.append(receipt)

    def _wait(self, machine: Machine) -> None:
        """A read that waits: it counts if the batch that brings the message is durable."""
        queue = self._random.choice((*PLAIN_QUEUES, *TRANSACTIONAL_QUEUES))
        try:
            opened = self._open(machine, rf"DIRECT=OS:.\private$\{queue}", QueueAccess.RECEIVE)
        except QueueNotFoundError:
            return
        waiter = machine.engine.reading.receive(opened, self._random.choice((1.0, 30.0, 300.0)))
        life = machine.life

        def look(is_durable: bool) -> bool:
            if isinstance(waiter, Found):
                found: Found | None = waiter
            elif waiter.is_done:
                found = waiter.found
            else:
                return False
            if found is not None:
                label = UserMessage(found.record.packet).label
                self._trace(machine.name, f"waited for {label} from {queue}")
                receipt = Receipt(life, found.lookup_id, found.queue)
                sent = self._sent_messages.find(label)
                self._check(machine, sent, found)
                self._received([(sent, receipt)], is_durable)
            return True

        machine.watch(look)

    # Coordinators.

    def _prepare(self, machine: Machine) -> None:
        """A transaction with an external coordinator: once prepared, it survives a crash."""
        transaction = machine.engine.transactions.begin()
        sent: list[SentMessage] = []
        receipts = self._receive_some(machine, transaction) if self._random.random() < 0.5 else []
        for _ in range(self._random.choice((0, 1, 3))):
            each, message = self._compose(machine, Kind.TRANSACTIONAL)
            if self._try_to_send(each, message, transaction):
                sent.append(each)
        try:
            machine.engine.transactions.prepare(transaction.id)
        except MqError as error:
            self._trace(machine.name, f"cannot prepare: {error}")
            machine.engine.transactions.abort(transaction.id)
            return
        self._trace(machine.name, f"prepares {' '.join(each.label for each in sent)}")
        decision = _Decision(transaction.id, self._random.random() < 0.7, sent, receipts)
        machine.note(lambda is_durable: self._prepared(machine, decision) if is_durable else None)

    def _prepared(self, machine: Machine, decision: "_Decision") -> None:
        self._in_doubt.append((machine, decision))
        delay = self._random.choice((0.001, 1.0, 30.0, 100_000.0))
        self._schedule.after(delay, partial(machine.post, partial(self._decide, machine, decision)))

    def _decide(self, machine: Machine, decision: "_Decision") -> None:
        """Announce the coordinator's decision, repeatedly if necessary."""
        transactions = machine.engine.transactions
        if decision.is_over or all(each.id != decision.id for each in transactions.in_doubt()):
            return
        labels = " ".join(sent.label for sent in decision.sent)
        self._trace(machine.name, f"{'commits' if decision.commits else 'aborts'} the prepared [{labels}]")
        if not decision.commits:
            transactions.abort(decision.id)
            return
        for sent in decision.sent:
            sent.order = self._sent_messages.next_order()
        transactions.commit(decision.id)

        def done(is_durable: bool) -> None:
            decision.is_over = decision.is_over or is_durable
            if is_durable:
                self._mark_sent(decision.sent, is_durable)
                self._received(decision.receipts, is_durable)

        machine.note(done)

    def settle(self) -> None:
        """Recreate all queues, and let all coordinators decide, so that nothing is in doubt."""
        for machine in self._machines:
            for queue in sorted(machine.deleted):
                machine.post(partial(self._create, machine, queue))
        for machine, decision in self._in_doubt:
            machine.post(partial(self._decide, machine, decision))

    def speak(self, machine: Machine) -> None:
        """Send something to every other machine, so that answers find the way back on its connections."""
        for target in self._others(machine):
            machine.post(partial(self._speak, machine, target))

    def _speak(self, machine: Machine, target: Machine) -> None:
        sent, message = self.compose_plain(machine, target)
        self._send_alone(sent, message)

    # Administration.

    def _purge(self, machine: Machine) -> None:
        queue = self._random.choice((*PLAIN_QUEUES, *TRANSACTIONAL_QUEUES))
        with suppress(QueueNotFoundError):
            opened = self._open(machine, rf"DIRECT=OS:.\private$\{queue}", QueueAccess.RECEIVE)
            self._trace(machine.name, f"purges {queue}: {machine.engine.purging.purge(opened)}")

    def _delete(self, machine: Machine) -> None:
        """Delete a queue with all its messages; another of the same name is created after a while."""
        queue = self._random.choice((*PLAIN_QUEUES, *TRANSACTIONAL_QUEUES))
        if self._options.http.pairs and queue in TRANSACTIONAL_QUEUES:
            return  # a stream over HTTP cannot go on in the middle, and its messages would wait for days
        state = machine.engine.queues.find(parse(rf"DIRECT=OS:.\private$\{queue}"))
        if state is None:
            return
        machine.deleted.add(queue)
        try:
            machine.engine.queues.delete(state, OWNER)
        except IllegalOperationError as error:  # a prepared transaction needs it
            self._trace(machine.name, f"cannot delete {queue}: {error}")
            return
        self._trace(machine.name, f"deletes {queue}")
        delay = self._random.choice((0.001, 1.0, 30.0))
        self._schedule.after(delay, partial(machine.post, partial(self._create, machine, queue)))

    def _create(self, machine: Machine, queue: str) -> None:
        if machine.engine.queues.find(parse(rf"DIRECT=OS:.\private$\{queue}")) is None:
            self._trace(machine.name, f"creates {queue}")
            with suppress(StoreFullError):
                create(machine.engine, queue)

    def _purge_outgoing(self, machine: Machine) -> None:
        names = {
            sent.name.casefold() for sent in self._sent_messages.all.values()
        }  # acknowledgements are not purged
        for state in self._some_outgoing(machine):
            if state.queue.label.casefold() not in names:
                continue
            assert isinstance(state.queue, OutgoingQueue)
            opened = self._open(machine, str(state.queue.destination_format_name), _RECEIVE_ADMIN)
            self._trace(machine.name, f"purges {state}: {machine.engine.purging.purge(opened)}")

    def _purge_router(self) -> None:
        """Purge messages that wait at a router, while their sender goes on sending.

        The sender is not told. What follows leaves a gap in its stream until it sends the stream again.
        """
        routers = [
            machine
            for machine in self._machines
            if machine.is_up
            and (machine.settings.routing_server or machine.name == self._options.http.router)
        ]
        found = [
            (router, state, sent)
            for router in routers
            for state in outgoing_queues(router)
            for sent in self._sent_messages.all.values()
            if sent.is_transactional
            and sent.source is not router
            and sent.name.casefold() == state.queue.label.casefold()
        ]
        if not found:
            return
        router, state, sent = self._random.choice(found)
        life = router.life
        router.post(partial(self._hold, router, life, state))
        for delay in (1.0, 5.0, 9.0):
            self._schedule.after(delay, partial(sent.source.post, partial(self._send_another, sent)))
        self._schedule.after(3.0, partial(router.post, partial(self._purge_held, router, life, state)))
        self._schedule.after(7.0, partial(router.post, partial(self._resume, router, life, state)))

    def _hold(self, router: Machine, life: int, state: QueueState) -> None:
        if router.life == life and not state.is_deleted:
            self._trace(router.name, f"pauses {state}")
            router.engine.outgoing.pause(state)

    def _purge_held(self, router: Machine, life: int, state: QueueState) -> None:
        if router.life == life and not state.is_deleted:
            opened = self._open(router, state.queue.label, _RECEIVE_ADMIN)
            self._trace(router.name, f"purges {state}: {router.engine.purging.purge(opened)}")

    def _send_another(self, earlier: SentMessage) -> None:
        """Send a message after an earlier one of the same stream."""
        self._send_alone(*self._compose_after(earlier))

    def _send_alone(self, sent: SentMessage, message: Message) -> None:
        """Send one message in a transaction of its own."""
        machine = sent.source
        transaction = machine.engine.transactions.begin()
        if self._try_to_send(sent, message, transaction) and self._commit(machine, transaction):
            self.number([sent])
            machine.note(partial(self._mark_sent, [sent]))
        elif transaction.state is TransactionState.ACTIVE:
            machine.engine.transactions.abort(transaction.id)

    def _commit(self, machine: Machine, transaction: Transaction) -> bool:
        """Commit, or abort if there is no room."""
        transactions = machine.engine.transactions
        try:
            transactions.commit(transaction.id)
        except StoreFullError as error:
            self._trace(machine.name, f"cannot commit: {error}")
            transactions.abort(transaction.id)
            return False
        return True

    def _pause(self, machine: Machine) -> None:
        life = machine.life
        for state in self._some_outgoing(machine):
            self._trace(machine.name, f"pauses {state}")
            machine.engine.outgoing.pause(state)
            delay = self._random.choice((0.01, 3.0, 30.0))
            self._schedule.after(delay, partial(machine.post, partial(self._resume, machine, life, state)))

    def _resume(self, machine: Machine, life: int, state: QueueState) -> None:
        if machine.life == life and not state.is_deleted:
            self._trace(machine.name, f"resumes {state}")
            machine.engine.outgoing.resume(state)

    def _some_outgoing(self, machine: Machine) -> list[QueueState]:
        states = list(outgoing_queues(machine))
        return [self._random.choice(states)] if states else []

    # The end.

    def drain(self) -> None:
        """Receive everything that is left."""
        for machine in self._machines:
            for queue in (*PLAIN_QUEUES, *TRANSACTIONAL_QUEUES, *SMALL_QUEUES):
                machine.post(partial(self._drain, machine, queue))

    def _drain(self, machine: Machine, queue: str) -> None:
        receipts = self._take(machine, queue, 1_000_000, None)
        machine.note(partial(self._received, receipts))

    def _open(self, machine: Machine, name: str, access: QueueAccess) -> OpenQueue:
        life, handles = self._handles.get(machine, (0, {}))
        if life != machine.life:
            handles = {}
            self._handles[machine] = (machine.life, handles)
        opened = handles.get((name, access))
        if opened is None or opened.state is None or opened.state.is_deleted:
            opened = machine.engine.opening.open(parse(name), access, token=OWNER)
            handles[name, access] = opened
        return opened


def outgoing_queues(machine: Machine) -> Iterator[QueueState]:
    return (state for state in machine.engine.queues.all() if state.is_outgoing)
