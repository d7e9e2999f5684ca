"""The records of the applications: every message that was sent, and every one that was received."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from enum import Enum

from tiercel.engine.queue_state import QueueState
from tiercel.model.identifiers import MessageId
from tiercel.sim.machine import Machine


class Kind(Enum):
    EXPRESS = "express"
    RECOVERABLE = "recoverable"
    TRANSACTIONAL = "transactional"


@dataclass(slots=True)
class Receipt:
    """A receive that counts: its transaction, if any, was committed."""

    life: int  # of the machine where it was received
    lookup_id: int
    state: QueueState = field(repr=False)


@dataclass(slots=True, eq=False)
class SentMessage:
    """A message that an application sent, with its options."""

    label: str
    kind: Kind
    source: Machine
    target: Machine
    queue: str
    name: str  # the destination format name
    time_to_reach_queue: int
    time_to_be_received: int
    acknowledgements: int
    admin: Machine | None
    positive_journaling: bool
    negative_journaling: bool
    is_over_http: bool = False  # by SRMP
    is_signed: bool = False
    is_encrypted: bool = False
    life: int = 0  # of the sender
    id: MessageId | None = None
    sent_time: int = 0
    order: int = 0  # position of its commit among all
    is_sent: bool = False  # and durable, unless express
    is_refused: bool = False  # by the sender's own queue manager, with an error
    receipts: list[Receipt] = field(default_factory=list)

    @property
    def is_express(self) -> bool:
        return self.kind is Kind.EXPRESS

    @property
    def is_transactional(self) -> bool:
        return self.kind is Kind.TRANSACTIONAL

    @property
    def has_final_ack(self) -> bool:
        """Whether its sender waits to hear of its end; with an HTTP name only if it asks for dead letters."""
        has_http_name = self.name.upper().startswith("DIRECT=HTTP:")
        return self.is_transactional and (self.negative_journaling or not has_http_name)

    @property
    def is_local(self) -> bool:
        return self.source is self.target

    def __str__(self) -> str:
        return f"{self.label} ({self.kind.value}, {self.source} to {self.target}\\{self.queue}, {self.name})"


def foreign(label: str, kind: Kind, target: Machine, queue: str) -> SentMessage:
    """A message of a hostile machine; only its label means anything."""
    return SentMessage(
        label,
        kind,
        target,
        target,
        queue,
        "",
        0,
        0,
        0,
        None,
        positive_journaling=False,
        negative_journaling=False,
    )


class SentMessages:
    """All messages by label; labels are unique."""

    def __init__(self) -> None:
        self.all: dict[str, SentMessage] = {}
        self.foreign: dict[str, SentMessage] = {}  # of hostile machines: nothing is promised about them
        # Acknowledgements that a hostile machine got in the name of another, by the id of the message.
        self.stolen: defaultdict[bytes, Counter[int]] = defaultdict(Counter)
        self._commits = 0

    def new_label(self, source: Machine) -> str:
        return f"{source.name[0]}{len(self.all) + 1}"

    def add(self, sent: SentMessage) -> None:
        self.all[sent.label] = sent

    def find(self, label: str) -> SentMessage:
        return self.all.get(label) or self.foreign[label]

    def next_order(self) -> int:
        self._commits += 1
        return self._commits
