"""Invariants that must hold after the faults, when the world has come to rest.

The evidence: the records of the applications, the contents of the queues, and the ledgers of the machines.

- A transactional message arrives once, in the order of its stream, or the ledger of its sender or its
  receiver says why not. What a router drops arrives all the same.
- A recoverable message arrives at least once, and only once as long as the history of the receiver reaches
  back (which it does in these worlds); or a ledger says why not.
- An express message arrives at most once in each life of its receiver: a receiver that dies forgets the
  messages that it had not acknowledged. It may be lost with any machine on its way that dies, but only then.
- Journals, dead letters and administration acknowledgements report exactly what happened.
- A machine that ran out of space may keep no copies and send no acknowledgements, and may count discarded
  messages instead of naming them; then only surplus copies are errors.
- Over HTTP, a message that can never be delivered ends at its sender. Receipts are express messages, and of
  negative arrival acknowledgements only that of a purged outgoing queue exists. The receiver keeps the dead
  letters of plain messages; the sender of a stream hears of the end of those that ask for a dead letter, and
  of no others.
- Nothing is in transit, no connection is left open, and every store is sound.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from tiercel.binary.incoming import CAME_BACK
from tiercel.engine.acknowledgements import INSECURE_NACKS
from tiercel.engine.check import Checker
from tiercel.engine.core import COUNTER_BLOCK
from tiercel.engine.discards import Discard
from tiercel.engine.queue_state import QueueState
from tiercel.engine.records import Record, decode_record, split_message_key
from tiercel.model.codes import Acknowledgements, MessageClass
from tiercel.model.identifiers import MessageId
from tiercel.sim.machine import Machine
from tiercel.sim.recorded_lives import disagreements
from tiercel.sim.sent_messages import SentMessage, SentMessages
from tiercel.sim.setup import ADMIN_QUEUE, SMALL_QUEUES, TRANSACTIONAL_QUEUES
from tiercel.store.interface import Keyspace
from tiercel.wire.message import decode_message
from tiercel.wire.order_ack import LABEL
from tiercel.wire.structure import encode_guid
from tiercel.wire.user_message import UserMessage

_NO_RECEIPT = "dropped: its kind is unknown"  # a negative arrival acknowledgement that came over HTTP
_REPORTED = "another queue manager reports"
_JOURNAL = "system$;JOURNAL"
_AWAITING = "private$\\awaiting_final_ack$"
_DEAD_LETTERS = {False: "system$;DEADLETTER", True: "system$;DEADXACT"}
_CLASSES = {int(kind): kind for kind in MessageClass}
_ANYWHERE = (MessageClass.NACK_REACH_QUEUE_TIMEOUT, MessageClass.NACK_DELETED)  # at any machine on the way


@dataclass(slots=True)
class Evidence:
    """The traces of one message in the whole world."""

    waiting: list[int] = field(default_factory=list)  # lookup ids in its queue
    on_its_way: list[Machine] = field(default_factory=list)  # in outgoing queues
    journaled: int = 0
    dead: int = 0
    dead_at_target: int = 0
    ambiguous: Counter[int] = field(default_factory=Counter)  # by class
    awaiting: int = 0  # waits at the sender for a final acknowledgement
    elsewhere: list[str] = field(default_factory=list)
    lines: list[tuple[Machine, Discard]] = field(default_factory=list)
    acknowledgements: Counter[MessageClass] = field(default_factory=Counter)


class Invariants:
    def __init__(
        self, machines: list[Machine], sent_messages: SentMessages, *, history_holds: bool = True
    ) -> None:
        self._machines = machines
        self._sent_messages = sent_messages
        self._history_holds = history_holds
        self._evidence: defaultdict[str, Evidence] = defaultdict(Evidence)
        self._by_id: dict[bytes, SentMessage] = {}
        # Classes of acknowledgements from elsewhere, by the machine that got them and the message id.
        self._told: defaultdict[tuple[Machine, str], set[int]] = defaultdict(set)
        self._problems: list[str] = []
        self._expired_acknowledgements = 0
        self._is_exact = not any(machine.was_short for machine in machines)
        self._ledgers_name_all = True

    def problems(self) -> list[str]:
        self._index()
        for machine in self._machines:
            self._collect(machine)
        for sent in self._sent_messages.all.values():
            self._judge(sent)
        for label in self._evidence.keys() - self._sent_messages.all.keys() - self._foreign_labels():
            self._report(f"{label or 'a message without a label'}: was never sent: {self._evidence[label]}")
        self._judge_order()
        for machine in self._machines:
            with machine.store.snapshot() as view:
                self._problems += [f"{machine}: {problem}" for problem in Checker(view).problems()]
                # Without room the record has gaps, and enemies give several messages the same id.
                if not machine.was_short and not self._sent_messages.foreign:
                    wrong = disagreements(view, self._is_recoverable)
                    self._problems += [f"{machine}: {each}" for each in wrong]
        return self._problems

    def _is_recoverable(self, identity: bytes) -> bool:
        sent = self._by_id.get(identity)
        return sent is not None and not sent.is_express

    def _foreign_labels(self) -> set[str]:
        """Of messages of hostile machines, and of acknowledgements that answer them."""
        foreign = self._sent_messages.foreign
        return {*foreign, LABEL, ""} if foreign else set()

    def _report(self, problem: str) -> None:
        self._problems.append(problem)

    # Evidence.

    def _index(self) -> None:
        for sent in self._sent_messages.all.values():
            if not sent.is_sent or sent.id is None:
                continue
            if (other := self._by_id.setdefault(_key(sent.id), sent)) is not sent:
                self._report(f"{sent.label}: has the same message id as {other.label}")

    def _collect(self, machine: Machine) -> None:
        for data in machine.store.spaces[Keyspace.DISCARDS].values():
            line = Discard(**json.loads(data))
            self._expired_acknowledgements += _is_expired_acknowledgement(line)
            if line.reason.startswith(_REPORTED):
                self._told[machine, line.message_id].add(line.message_class)
            if _is_no_evidence(line) or self._is_of_a_receipt(line):
                continue
            if machine.was_short and not line.label:
                self._ledgers_name_all = self._ledgers_name_all and bool(line.message_id)
                continue
            if machine.was_short and (line.label == LABEL or line.reason.startswith("no copy was kept")):
                continue  # a stream receipt comes again with its messages
            self._evidence[line.label].lines.append((machine, line))
        for state, lookup_id, record in contents(machine):
            packet = UserMessage(record.packet)
            if packet.message_class != MessageClass.NORMAL:
                self._file_acknowledgement(machine, state, packet)
            else:
                self._file(machine, state, lookup_id, packet.label)

    def _is_of_a_receipt(self, line: Discard) -> bool:
        """Receipts over HTTP have the labels of the messages that they speak of."""
        sent = self._sent_messages.all.get(line.label)
        if sent is None or sent.id is None:  # published ones are not known by id, and ask for no receipts
            return False
        return sent.is_over_http and line.message_id != str(sent.id)

    def _file(self, machine: Machine, state: QueueState, lookup_id: int, label: str) -> None:
        evidence, sent = self._evidence[label], self._sent_messages.all.get(label)
        name = local_name(state)
        if sent is None:
            evidence.elsewhere.append(f"{machine} {name}")
        elif state.is_outgoing:
            evidence.on_its_way.append(machine)
        elif machine is sent.source and name == _JOURNAL:
            evidence.journaled += 1
        elif machine is sent.source and name == _DEAD_LETTERS[sent.is_transactional]:
            evidence.dead += 1
        elif machine is sent.source and name == _AWAITING:
            evidence.awaiting += 1
        elif machine is sent.target and name == _DEAD_LETTERS[sent.is_transactional]:
            evidence.dead_at_target += 1
        elif machine is sent.target and name == f"private$\\{sent.queue}":
            evidence.waiting.append(lookup_id)
        elif machine is not sent.target or name != f"private$\\{sent.queue};JOURNAL":
            evidence.elsewhere.append(f"{machine} {name}")

    def _file_acknowledgement(self, machine: Machine, state: QueueState, packet: UserMessage) -> None:
        kind = _CLASSES[packet.message_class]
        sent = self._by_id.get(decode_message(packet).correlation_id)
        where = f"{machine} {local_name(state)}"
        if sent is None:
            if not self._sent_messages.foreign:
                self._report(f"an acknowledgement {kind.name} in {where} speaks of no message")
        elif machine is not sent.admin or local_name(state) != f"private$\\{ADMIN_QUEUE}":
            self._report(f"{sent}: its acknowledgement {kind.name} is in {where}")
        else:
            self._evidence[sent.label].acknowledgements[kind] += 1

    # One message.

    def _judge(self, sent: SentMessage) -> None:
        evidence = self._evidence[sent.label]
        if not sent.is_sent:
            if sent.is_refused:  # the sender's ledger may mention it
                evidence.lines.clear()
            if evidence != Evidence() or sent.receipts:
                self._report(f"{sent}: was never sent, and yet there is {evidence}, received {sent.receipts}")
            return
        at_target = [
            (machine, line) for machine, line in evidence.lines if _is_at_target(sent, machine, line)
        ]
        at_source = [each for each in evidence.lines if each not in at_target]
        was_told = self._drop_echo(sent, evidence, at_source, at_target)
        refused = [line for _, line in at_target if not _CLASSES[line.message_class].is_receive]
        ended = [line for _, line in at_target if _CLASSES[line.message_class].is_receive]
        is_in_binary_stream = sent.is_transactional and not sent.is_over_http
        if sent.queue in {"nowhere", *sent.target.deleted} and not is_in_binary_stream:
            refused = refused[:1]  # repeated refusals there are not remembered, and need not be
        arrivals = len(sent.receipts) + len(ended) + len(evidence.waiting)
        if evidence.elsewhere:
            self._report(f"{sent}: is in {', '.join(evidence.elsewhere)}")
        if evidence.on_its_way:
            self._report(f"{sent}: is still on its way at {', '.join(map(str, evidence.on_its_way))}")
        for _, line in evidence.lines if self._ledgers_name_all else ():
            self._judge_line(sent, line)
        sent_back = was_told or any(machine is sent.source for machine, _ in at_source)
        # A router is no end of a transactional message: its sender keeps it until the receiver confirms it.
        has_ended = sent_back or self._is_told(sent) if sent.is_transactional else bool(at_source)
        self._judge_count(sent, arrivals + len(refused), lost=not has_ended and not evidence.on_its_way)
        if not self._ledgers_name_all:
            return
        self._judge_copies(sent, evidence, refused + ended, sent_back=sent_back)
        self._judge_acknowledgements(sent, evidence, arrivals)

    def _is_told(self, sent: SentMessage) -> bool:
        """Whether the sender was told of a refusal that the ledger of another machine has, too.

        A router that refuses a message sends no OrderAck, so without journaling the FinalAck ends the message
        (MQQB T17).
        """
        lines = self._evidence[sent.label].lines
        elsewhere = {line.message_class for machine, line in lines if machine is not sent.source}
        return not elsewhere.isdisjoint(self._told[sent.source, str(sent.id)])

    def _drop_echo(
        self,
        sent: SentMessage,
        evidence: Evidence,
        at_source: list[tuple[Machine, Discard]],
        at_target: list[tuple[Machine, Discard]],
    ) -> bool:
        """Remove the sender's ledger lines that repeat another machine's negative final acknowledgement."""
        elsewhere = [*at_target, *(each for each in at_source if each[0] is not sent.source)]
        kinds = [line.message_class for _, line in elsewhere]
        was_told = False
        for machine, line in list(at_source):
            is_final = line.queue.endswith(_AWAITING) or line.message_class in kinds
            if sent.is_transactional and machine is sent.source and is_final:
                if line.message_class not in kinds and self._ledgers_name_all:
                    self._report(f"{sent}: a final acknowledgement of nothing: {line}")
                # It may also have expired or been purged in both places, and both have reported it.
                evidence.ambiguous[line.message_class] += line.message_class in _ANYWHERE
                at_source.remove((machine, line))
                evidence.lines.remove((machine, line))
                was_told = True
        return was_told

    def _judge_line(self, sent: SentMessage, line: Discard) -> None:
        """Check that the reason in a ledger is possible."""
        kind = _CLASSES[line.message_class]
        is_for_transactions = sent.queue in TRANSACTIONAL_QUEUES or sent.queue == SMALL_QUEUES[1]
        is_wrong_kind = sent.is_transactional != is_for_transactions
        limit = sent.time_to_be_received
        if kind is MessageClass.NACK_REACH_QUEUE_TIMEOUT:
            limit = min(limit, sent.time_to_reach_queue)
        possible = {
            MessageClass.NACK_REACH_QUEUE_TIMEOUT: line.time >= sent.sent_time + limit,
            MessageClass.NACK_RECEIVE_TIMEOUT: line.time >= sent.sent_time + limit,
            MessageClass.NACK_BAD_DST_Q: sent.queue == "nowhere"
            or sent.queue in sent.target.deleted
            or (sent.is_over_http and is_wrong_kind),
            MessageClass.NACK_Q_DELETED: sent.queue in sent.target.deleted,
            MessageClass.NACK_NOT_TRANSACTIONAL_Q: sent.is_transactional and not is_for_transactions,
            MessageClass.NACK_NOT_TRANSACTIONAL_MSG: not sent.is_transactional and is_for_transactions,
            MessageClass.NACK_Q_EXCEED_QUOTA: sent.queue in SMALL_QUEUES,
            MessageClass.NACK_Q_PURGED: not line.queue.startswith("outgoing queue"),
            MessageClass.NACK_DELETED: line.queue.startswith("outgoing queue"),
        }
        if not possible.get(kind, False):
            self._report(f"{sent}, sent at {sent.sent_time}: ended without a reason: {line}")

    def _judge_count(self, sent: SentMessage, count: int, *, lost: bool) -> None:
        lost = lost and self._ledgers_name_all
        if sent.is_express:
            # By the life in which it arrived, not the one in which it was received: a claim outlives a crash.
            lives = Counter(receipt.lookup_id // COUNTER_BLOCK for receipt in sent.receipts)
            is_twice = (count > 1 and not sent.target.crashes) or any(each > 1 for each in lives.values())
            if is_twice and self._history_holds:
                self._report(f"{sent}: came {count} times: {self._evidence[sent.label]}, {sent.receipts}")
            if not count and lost and not any(machine.crashes for machine in self._machines):
                self._report(f"{sent}: is lost, and no machine died")
            return
        if not count and lost:
            self._report(f"{sent}: is lost")
        if sent.queue in sent.target.deleted and not sent.is_transactional:
            # Its history may be over, and a refused message may arrive again.
            count = min(count, 1 + len(self._evidence[sent.label].lines))
            count -= bool(self._evidence[sent.label].lines) and count > 1
        if count > 1 and (sent.is_transactional or self._history_holds):
            self._report(f"{sent}: came {count} times: {self._evidence[sent.label]}, {sent.receipts}")

    def _judge_copies(
        self, sent: SentMessage, evidence: Evidence, negative: list[Discard], *, sent_back: bool
    ) -> None:
        """Check the system journal and the dead-letter queues of the sender."""
        failures = [line for line in negative if sent.is_transactional or _is_dead_letter(sent, line)]
        if sent.is_over_http and not sent.is_transactional:
            self._judge_dead_at_target(sent, evidence, negative)
        dead = sent.negative_journaling and (sent_back or bool(failures))
        if not sent.positive_journaling:
            journaled = False
        elif sent.has_final_ack:
            journaled = bool(sent.receipts)
        else:
            journaled = not sent_back or sent.is_local  # a local message arrives at once
        if evidence.awaiting and not evidence.waiting:
            self._report(f"{sent}: no final acknowledgement has come: {evidence}, {sent.receipts}")
        is_full = any(line.message_class == MessageClass.NACK_Q_EXCEED_QUOTA for line in negative)
        kept = sent.negative_journaling and is_full and not sent.is_transactional and not sent.is_local
        if not sent.is_over_http and (
            (evidence.dead_at_target > kept or self._is_exact)
            and evidence.dead_at_target != kept
            and not (sent.is_express and sent.target.crashes)
            and (self._history_holds or not kept)  # a duplicate is refused twice
        ):
            self._report(
                f"{sent}: {evidence.dead_at_target} dead letters at the receiver instead of {kept:d}"
            )
        found = (evidence.dead, evidence.journaled)
        wanted = (int(dead), int(journaled))
        is_exact = self._is_exact and (not sent.is_express or not sent.source.crashes)
        late = sent.is_transactional and sent.receipts and sent_back  # the journal copy came too late
        # Received, then refused as a duplicate after its queue was deleted: the first result counts.
        was_first = sent.is_transactional and sent.receipts and sent.queue in sent.target.deleted
        if found[0] > wanted[0] or (found[0] < wanted[0] and is_exact and not was_first):
            self._report(
                f"{sent}: {found[0]} dead letters instead of {wanted[0]}: {evidence}, {sent.receipts}"
            )
        if found[1] > wanted[1] or (found[1] < wanted[1] and is_exact and not late):
            self._report(
                f"{sent}: {found[1]} in the journal instead of {wanted[1]}: {evidence}, {sent.receipts}"
            )

    def _judge_dead_at_target(self, sent: SentMessage, evidence: Evidence, negative: list[Discard]) -> None:
        """Check the receiver's dead letters of a plain message over HTTP."""
        failures = [line for line in negative if line.message_class != MessageClass.NACK_Q_DELETED]
        wanted = len(failures) if sent.negative_journaling else 0
        is_short = evidence.dead_at_target < wanted and self._is_exact and not sent.is_express
        if evidence.dead_at_target > wanted or is_short:
            self._report(
                f"{sent}: {evidence.dead_at_target} dead letters at the receiver instead of {wanted}"
            )

    def _judge_acknowledgements(self, sent: SentMessage, evidence: Evidence, arrivals: int) -> None:
        wanted = _acknowledgements_asked_for(sent, evidence, arrivals)
        found = evidence.acknowledgements
        for each in _ANYWHERE:
            if found[each] == wanted[each] + evidence.ambiguous[each]:
                wanted[each] = found[each]
        # After a crash, an express message may be lost while its acknowledgement is not, or the reverse.
        has_crashed = any(machine.crashes for machine in self._machines)
        is_known = not sent.is_express or not has_crashed
        if sent.is_over_http and has_crashed:
            wanted &= found
        if not self._history_holds:  # an acknowledgement may arrive twice
            found = Counter({kind: min(count, wanted[kind]) for kind, count in found.items() if wanted[kind]})
        missing = wanted - found
        if sent.admin is not sent.source or (sent.target.crashes and not sent.is_transactional):
            # Nobody knows where to find the administration queue but the sessions that claim its GUID.
            missing -= self._stolen_from(sent)
        if is_known and missing.total() <= self._expired_acknowledgements:  # because a clock has leapt
            self._expired_acknowledgements -= missing.total()
            missing.clear()
        if is_known and (found - wanted or (self._is_exact and missing)):
            self._report(f"{sent}: acknowledged {_names(found)} instead of {_names(wanted)}: {evidence}")

    def _stolen_from(self, sent: SentMessage) -> Counter[MessageClass]:
        stolen = self._sent_messages.stolen
        classes = Counter[int]() if sent.id is None else stolen.get(_key(sent.id), Counter())
        return Counter({_CLASSES[each]: count for each, count in classes.items()})

    # Streams.

    def _judge_order(self) -> None:
        """Check that arrival numbers of a stream rise in the order of sending."""
        streams: defaultdict[tuple[Machine, str], list[SentMessage]] = defaultdict(list)
        for sent in self._sent_messages.all.values():
            if sent.is_transactional and sent.is_sent:
                streams[sent.source, sent.name.casefold()].append(sent)
        for stream in streams.values():
            stream.sort(key=lambda sent: sent.order)
            last: tuple[int, str] = (-1, "")
            for sent in stream:
                evidence = self._evidence[sent.label]
                places = [receipt.lookup_id for receipt in sent.receipts] + evidence.waiting
                for place in sorted(places):
                    if place < last[0]:
                        self._report(f"{sent}: arrived before {last[1]}, which was sent before it")
                    last = max(last, (place, sent.label))


def _key(identifier: MessageId) -> bytes:
    """The id as in the records of the queue managers."""
    return encode_guid(identifier.lineage) + identifier.uniquifier.to_bytes(4, "little")


def _is_expired_acknowledgement(line: Discard) -> bool:
    """Or an expired OrderAck, of which a newer one says the same.

    A line without an id is the summary of a store without room, and may stand for any message.
    """
    is_late = line.message_class == MessageClass.NACK_REACH_QUEUE_TIMEOUT
    return is_late and line.label in {LABEL, ""} and bool(line.message_id)


def _is_no_evidence(line: Discard) -> bool:
    """Whether a line of a ledger says nothing about a message of an application."""
    return (
        _is_expired_acknowledgement(line)
        or (line.label == LABEL and line.reason == CAME_BACK)
        or line.queue.endswith(";JOURNAL")  # a copy that was deleted with its queue
        # An administration acknowledgement: the line of that machine counts.
        or line.reason.startswith(_REPORTED)
        or line.queue.startswith("stage ")  # rows that were not published in time
        or line.reason == _NO_RECEIPT
    )


def _acknowledgements_asked_for(
    sent: SentMessage, evidence: Evidence, arrivals: int
) -> Counter[MessageClass]:
    """Those that the administration queue must have, by class."""
    asked = sent.acknowledgements
    wanted: Counter[MessageClass] = Counter()
    if sent.admin is None:
        return wanted
    if asked & Acknowledgements.POS_ARRIVAL:
        wanted[MessageClass.ACK_REACH_QUEUE] = arrivals
    if asked & Acknowledgements.POS_RECEIVE:
        wanted[MessageClass.ACK_RECEIVE] = len(sent.receipts)
    for _, line in evidence.lines:
        kind = _CLASSES[line.message_class]
        flag = Acknowledgements.NEG_RECEIVE if kind.is_receive else Acknowledgements.NEG_ARRIVAL
        is_carried = not sent.is_over_http or kind.is_receive or kind is MessageClass.NACK_DELETED
        is_told = kind not in INSECURE_NACKS and is_carried
        if asked & flag and is_told:
            wanted[kind] += 1
    return wanted


def contents(machine: Machine) -> Iterator[tuple[QueueState, int, Record]]:
    """Every message in every queue of a machine, journals and outgoing queues included."""
    states = {}
    for state in machine.engine.queues.all():
        states[state.slot] = state
        if state.journal is not None:
            states[state.journal.slot] = state.journal
    for key, data in machine.store.spaces[Keyspace.MESSAGES].items():
        slot, lookup_id = split_message_key(key)
        yield states[slot], lookup_id, decode_record(data)
    for state in states.values():
        for lookup_id, record in state.express.items():
            yield state, lookup_id, record


def local_name(state: QueueState) -> str:
    path = state.queue.pathname
    return str(state) if path is None else path.local_name


def _is_at_target(sent: SentMessage, machine: Machine, line: Discard) -> bool:
    is_inside = line.queue.startswith("outgoing queue") or line.queue.endswith(_AWAITING)
    return machine is sent.target and not is_inside


def _is_dead_letter(sent: SentMessage, line: Discard) -> bool:
    """Only the sender's own machine keeps a dead letter for a non-transactional message."""
    kind = _CLASSES[line.message_class]
    return sent.is_local and (not kind.is_receive or kind is MessageClass.NACK_RECEIVE_TIMEOUT)


def _names(kinds: Counter[MessageClass]) -> str:
    return ", ".join(f"{kind.name} {count}" for kind, count in sorted(kinds.items()) if count) or "nothing"
