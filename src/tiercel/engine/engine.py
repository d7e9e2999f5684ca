"""The queue manager's rules behind one front.

    engine = Engine(store, identity, now=now, owner=token)
    engine.begin(now); ...commands...; effects = engine.commit()

The commands are those of the parts: `engine.queues.create(...)`, `engine.opening.open(...)`,
`engine.sending.send(...)`, `engine.reading.receive(...)` and so on; each part is a file of this folder.

Commands check before they change anything: one that raises has done nothing. Between `begin` and `commit`
many commands may run; their results count, and their effects leave, only when `commit` has returned.
"""

from collections.abc import Callable
from uuid import UUID, uuid4

from tiercel.engine import restoring
from tiercel.engine.access import Access, system_descriptor
from tiercel.engine.administration import Administration, load_queue_manager
from tiercel.engine.admission import Admission
from tiercel.engine.arrivals import Arrivals
from tiercel.engine.audit import Audit
from tiercel.engine.browsing import Browsing
from tiercel.engine.carriers import Carriers
from tiercel.engine.catalog import Catalog
from tiercel.engine.claims import Claims
from tiercel.engine.core import Core, Effect, earliest
from tiercel.engine.deadlines import Deadlines
from tiercel.engine.delivery import Delivery
from tiercel.engine.expiry import Expiry
from tiercel.engine.handles import Waiter
from tiercel.engine.identity import Identity
from tiercel.engine.incoming_streams import IncomingStreams
from tiercel.engine.moving import Moving
from tiercel.engine.notes import Notes
from tiercel.engine.numbering import Numbering
from tiercel.engine.opening import Opening
from tiercel.engine.operations import Operations
from tiercel.engine.outgoing import Outgoing
from tiercel.engine.outgoing_index import OutgoingIndex
from tiercel.engine.peers import Peers
from tiercel.engine.preflight import Preflight
from tiercel.engine.purging import Purging
from tiercel.engine.queues import Queues
from tiercel.engine.quotas import Quotas
from tiercel.engine.reading import Reading
from tiercel.engine.resolver import Resolver
from tiercel.engine.resource_manager import Outcome, ResourceManager
from tiercel.engine.sending import Sending
from tiercel.engine.stages import Stages
from tiercel.engine.subscriptions import Subscriptions
from tiercel.engine.tracing import Tracing
from tiercel.engine.transactions import Transactions
from tiercel.message_security.encryption import Encryption
from tiercel.message_security.verifier import Verifier
from tiercel.model.codes import QueueManagerState
from tiercel.model.errors import OperationCancelledError, ServiceNotAvailableError, StoreFailedError
from tiercel.model.limits import TIME_TO_REACH_QUEUE_DEFAULT_S
from tiercel.model.path_name import PathKind, PathName, SystemQueue
from tiercel.security.access import Token
from tiercel.store.interface import Batch, Store
from tiercel.wire.structure import encode_guid

_READY = QueueManagerState.READY


class Engine:
    def __init__(
        self,
        store: Store,
        identity: Identity,
        *,
        now: float,
        owner: Token,
        new_guid: Callable[[], UUID] = uuid4,
        long_lived_s: int = TIME_TO_REACH_QUEUE_DEFAULT_S,
        everyone_may_send: bool = True,
        believe_unsigned_senders: bool = False,
        verifier: Verifier | None = None,
        encryption: Encryption | None = None,
        outcome_of: Callable[[UUID], Outcome] | None = None,
        tells_removed: bool = False,
        hardened: bool | None = None,
        life_bytes: int = 0,
    ) -> None:
        """Queue Manager Started ([MS-MQDMPR] 3.1.4.1).

        `verifier` decides which signatures count; by default it knows no sender. `encryption` has the keys
        that encrypt and decrypt bodies; by default there are none.
        `outcome_of` asks a coordinator how a transaction ended; without it, prepared transactions stay in
        doubt. With `tells_removed`, every message that leaves its queue is an effect too. `hardened` sets
        HardenedSecurity, which counts from the start on; None keeps what is stored. `life_bytes` bounds the
        record of what happened to each message; 0 keeps none.
        """
        core = self._core = Core(store, new_guid, tells_removed=tells_removed, life_bytes=life_bytes)
        core.advance(now)
        restoring.leap(core.batch)
        manager = self.queue_manager = load_queue_manager(core, identity, hardened=hardened)
        manager.queue_manager_state = QueueManagerState.INITIALIZING

        # The order is that of dependence: a part gets those above it.
        self.ledger, self.life = core.ledger, core.life
        self.notes, self.audit, self.operations = Notes(core), Audit(core), Operations(core)
        self.administration = Administration(core, manager)
        self.peers = Peers(core)
        streams = IncomingStreams(core, self.peers)
        self.numbering = Numbering(core, manager.identifier)
        catalog = self._catalog = Catalog(core, manager)
        self.carriers = Carriers(core)
        resolver = Resolver(catalog, self.carriers, identity)
        self.verifier, self.encryption = verifier or Verifier(), encryption or Encryption()
        access = Access(
            catalog,
            self.verifier,
            everyone_may_send=everyone_may_send,
            believe_unsigned_senders=believe_unsigned_senders,
        )
        self.quotas = Quotas(core, catalog)
        self._deadlines = Deadlines(core)
        admission = Admission(
            core, access, self.quotas, self._deadlines, self.verifier, self.encryption.opener
        )
        outgoing_index = OutgoingIndex(core, encode_guid(manager.identifier))
        self.delivery = Delivery(
            core,
            catalog,
            resolver,
            self.quotas,
            admission,
            self.numbering,
            self._deadlines,
            outgoing_index,
            self.peers,
            streams,
        )
        self.final_acks, self.waiting = self.delivery.final_acks, self.delivery.waiting
        self._expiry = Expiry(core, catalog, self._deadlines, self.delivery)
        self.reading = Reading(core, self.delivery, self.waiting)
        self.outgoing = Outgoing(
            core,
            catalog,
            self.numbering,
            self.delivery,
            self._deadlines,
            outgoing_index,
            self.carriers,
            self.encryption,
        )
        self.transactions = Transactions(
            core, catalog, self.delivery, self.waiting, self.outgoing, self.numbering
        )
        self.resource_manager = ResourceManager(core, self.transactions)
        self.browsing, self.tracing = Browsing(core, self.numbering), Tracing(core, catalog)
        self.claims = Claims(core, catalog, self.delivery, self._deadlines)
        self.purging = Purging(core, catalog, self.numbering, self._deadlines, self.delivery)
        self.moving = Moving(core, admission, self.delivery, self.transactions)
        self.queues = Queues(
            core,
            catalog,
            resolver,
            access,
            self.waiting,
            self.transactions,
            self.claims,
            self.purging,
            streams,
        )
        self.arrivals = Arrivals(
            core, admission, self.delivery, self.final_acks, self.peers, self.queues, self.quotas, streams
        )
        self.opening, self.preflight = (
            Opening(core, catalog, resolver, self.waiting, access),
            Preflight(catalog, resolver, access, self.quotas, admission),
        )
        self.sending = Sending(
            core,
            resolver,
            access,
            self.quotas,
            admission,
            self.numbering,
            self.delivery,
            self.transactions,
            self.encryption,
            long_lived_s,
        )
        catalog.load()
        if catalog.find(PathName(".", PathKind.SYSTEM, SystemQueue.JOURNAL)) is None:
            catalog.create_system_queues(system_descriptor(owner))
        self.claims.load()
        self.transactions.load()
        self.outgoing.load()
        self.stages = Stages(core, self.quotas, self.transactions, self.opening, self.sending)
        if outcome_of is not None:
            self.resource_manager.reenlist(outcome_of)
        for state in list(catalog.all()):
            catalog.drop_empty_subqueue(state)
        self._set_system_queues()
        manager.queue_manager_state = QueueManagerState.READY
        self.begin(now)
        core.effects = self.commit()  # reports what ended while the engine was down

    def _set_system_queues(self) -> None:
        manager, system = self.queue_manager, self._catalog.system
        manager.system_journal_queue = system(SystemQueue.JOURNAL).queue
        manager.system_deadletter_queue = system(SystemQueue.DEADLETTER).queue
        manager.system_transactional_deadletter_queue = system(SystemQueue.DEADXACT).queue

    # Batches and time.

    def begin(self, now: float) -> None:
        """Starts a batch."""
        if self._core.failure is not None:
            raise self._core.failure
        if self.queue_manager.queue_manager_state is not _READY:
            state = self.queue_manager.queue_manager_state.value
            raise ServiceNotAvailableError(str(self.queue_manager), present=state)
        self._core.advance(now)
        self._expire()

    def commit(self) -> list[Effect]:
        """Makes the batch durable; returns the effects that may leave now."""
        self.arrivals.flush()  # first: an expiry may write a part of the batch
        self.outgoing.flush()
        self._expire()
        return self._core.commit()

    def _expire(self) -> None:
        self.waiting.expire()
        self.stages.reap_due()
        self._expiry.expire()

    @property
    def subscriptions(self) -> Subscriptions:
        """The queues that listen to multicast addresses."""
        return self._catalog.subscriptions

    @property
    def next_deadline(self) -> float | None:
        """When something is due by itself; call `begin` and `commit` then."""
        return earliest(self._deadlines.next_deadline, self.waiting.next_deadline, self.stages.next_deadline)

    @property
    def seconds(self) -> int:
        """The time of the batch, in whole seconds."""
        return self._core.seconds

    @property
    def has_changes(self) -> bool:
        """Whether the batch has changed a queue, so that its commit has to be made durable in any case."""
        return self._core.has_changes

    @property
    def batch(self) -> Batch:
        """The open batch of the store: protocols keep their own state in keyspaces of their own."""
        return self._core.batch

    def new_guid(self) -> UUID:
        """From the source of random numbers that the engine was given."""
        return self._core.new_guid()

    @property
    def total_bytes(self) -> int:
        """The size of all messages, which the quota of the queue manager limits."""
        return self._core.total_bytes

    # Failing and stopping.

    @property
    def has_failed(self) -> bool:
        return self._core.failure is not None

    @property
    def failure(self) -> StoreFailedError | None:
        return self._core.failure

    def fail(self, problem: str) -> None:
        """For the driver of the engine: a command ended half-way, so nothing of its batch may count."""
        self._core.fail(problem)

    def end_waits(self) -> list[Waiter]:
        """Ends every wait with the failure of the engine."""
        waiters = [waiter for state in self._catalog.by_slot.values() for waiter in state.waiters]
        for waiter in waiters:
            waiter.error = self._core.failure
        for state in self._catalog.by_slot.values():
            state.waiters.clear()
        return waiters

    def stop(self) -> list[Effect]:
        """Queue Manager Stopped ([MS-MQDMPR] 3.1.4.2): every wait ends, and no command is taken."""
        if self._core.failure is not None:
            return []
        self.queue_manager.queue_manager_state = QueueManagerState.STOPPING
        states = list(self._catalog.by_slot.values())
        for state in states:  # first: a message that is given back below must not go to a waiter
            for waiter in list(state.waiters):
                self.waiting.stop(waiter, OperationCancelledError(str(state)))
        for state in states:
            for opened in list(state.handles.values()):
                self.opening.close(opened)
        self.arrivals.flush()  # of a batch that is still open
        self.outgoing.flush()
        effects = self._core.commit()
        self.queue_manager.queue_manager_state = QueueManagerState.STOPPED
        return effects
