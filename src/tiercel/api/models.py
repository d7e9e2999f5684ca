"""Request and response models, for validation and for OpenAPI."""

from typing import Annotated, Any, Literal
from urllib.parse import unquote

from fastapi import Path
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from tiercel.admin.leases import MAX_LEASE_S, MAX_LIMIT
from tiercel.admin.message_filter import MAX_FILTER
from tiercel.admin.searching import MAX_PATTERN
from tiercel.admin.transfers import MAX_NAMED

MAX_WAIT_MS = 60_000
MOVED_MAX = 100_000

QueueName = Annotated[
    str,
    Path(
        description=r"the queue, percent-encoded into one path segment: `orders`, `private$\orders`, "
        r"`.\private$\orders`, `orders;subqueue`, `orders;journal`, "
        r"`;deadletter`, `;deadxact`, `;journal`, or a format name",
        examples=["orders"],
        max_length=4000,
    ),
    AfterValidator(unquote),
]
LookupId = Annotated[str, Path(pattern="^[0-9]{1,20}$", description="the lookup id of a message, in digits")]
LeaseId = Annotated[str, Path(max_length=100), AfterValidator(unquote)]


class RequestModel(BaseModel):
    """A request body: strict types, no unknown properties."""

    model_config = ConfigDict(extra="forbid", strict=True)


class ResponseModel(BaseModel):
    """A response body."""

    model_config = ConfigDict(extra="allow")


class QueueProperties(RequestModel):
    label: str = Field(default="", description="at most 124 UTF-16 units")
    journaling: bool = Field(default=False, description="keep copies of received messages")
    quota_kib: int | None = Field(default=None, description="null: no limit")
    journal_quota_kib: int | None = None
    authentication: bool = Field(default=False, description="accept signed messages only")
    privacy_level: Literal["none", "optional", "body"] = "optional"
    base_priority: int = 0
    multicast_address: str | None = None
    type: str = Field(default="00000000-0000-0000-0000-000000000000", description="a GUID of the application")
    security: str = Field(
        default="", description="a security descriptor in SDDL; entries may name accounts of `[accounts]`"
    )


class NewQueue(QueueProperties):
    path_name: str = Field(examples=[r".\private$\orders"], max_length=1000)
    transactional: bool = False
    exist_ok: bool = Field(default=False, description="return an existing queue unchanged")

    @property
    def properties(self) -> dict[str, Any]:
        return self.model_dump(exclude_unset=True, exclude={"path_name", "transactional", "exist_ok"})


class QueueSummary(ResponseModel):
    path_name: str
    name: str
    format_name: str
    kind: Literal["private", "public", "system", "outgoing", "subqueue", "journal"]
    label: str
    transactional: bool
    authentication: bool
    privacy_level: str
    journaling: bool
    quota_kib: int | None
    count: int
    bytes: int
    journal_count: int
    journal_bytes: int
    oldest_arrival: str | None
    claimed: int
    locked: int
    paused: bool


class QueueDetails(QueueSummary):
    guid: str
    created: str | None
    modified: str | None
    type: str
    journal_quota_kib: int | None
    base_priority: int
    multicast_address: str | None
    security: str | None
    subqueues: list[str]
    open_handles: int
    waiting_readers: int


class ListedQueue(QueueSummary):
    in_total: int  # since the start
    out_total: int
    in_rate: float  # messages per second
    out_rate: float
    depths: list[int] | None = None


class QueueList(ResponseModel):
    queues: list[ListedQueue]


class Sample(ResponseModel):
    time: str | None
    count: int


class SampleList(ResponseModel):
    step_s: int
    samples: list[Sample]  # with `in` and `out`: totals since the start


class Counts(ResponseModel):
    count: int
    bytes: int
    dry_run: bool


class Sent(ResponseModel):
    id: str


class Row(ResponseModel):
    row: int


class SentMany(ResponseModel):
    count: int
    ids: list[str]


class Receive(RequestModel):
    limit: int = Field(default=1, ge=1, le=MAX_LIMIT)
    wait_ms: int = Field(
        default=0, ge=0, le=MAX_WAIT_MS, description="how long to wait for the first message"
    )
    lease_s: float = Field(default=30, gt=0, le=MAX_LEASE_S, strict=False)
    acknowledge: Literal["lease", "now"] = Field(
        default="lease", description="now: received with the response, and lost if the response is lost"
    )
    lookup_id: str | None = Field(default=None, pattern="^[0-9]{1,20}$", description="only this message")
    bodies: bool = True
    decode: bool = False


class Extend(RequestModel):
    lease_s: float = Field(default=30, gt=0, le=MAX_LEASE_S, strict=False, description="seconds from now")


class Ended(ResponseModel):
    lease: str
    already: bool


class Extended(ResponseModel):
    lease: str
    lease_s: float


class Lease(ResponseModel):
    lease: str | None = Field(description="null if another client holds it, except for administrators")
    queue: str
    lookup_id: str
    who: str
    lease_s: float
    seconds_left: float
    ends: str | None


class LeaseList(ResponseModel):
    leases: list[Lease]


class Discard(ResponseModel):
    line: int
    time: str | None
    queue: str
    id: str
    label: str
    size: int
    reason: str


class DiscardList(ResponseModel):
    discards: list[Discard]
    next: str | None


class DeadLetterGroup(ResponseModel):
    reason: str
    fix: str
    destination: str
    count: int
    bytes: int
    first: str | None
    last: str | None
    lookup_ids: dict[str, list[str]]  # by dead-letter queue, at most 1,000 each
    queues: dict[str, int]  # by dead-letter queue, the number of messages
    filter: str | None = Field(description="what finds all of the group; null if it would be too long")


class DeadLetterGroups(ResponseModel):
    groups: list[DeadLetterGroup]
    looked: int  # dead letters that were looked at: the newest ones
    total: int


class WhyEvent(ResponseModel):
    time: str | None
    text: str


class WhyPlace(ResponseModel):
    queue: str
    kind: str
    lookup_id: str


class WhyAnswer(ResponseModel):
    """With label, size, sent, sender, sent_by, destination, recoverable, transactional, as far as known."""

    id: str
    state: Literal[
        "waiting",
        "held",
        "claimed",
        "outgoing",
        "delivered",
        "dead",
        "trash",
        "received",
        "ended",
        "unknown",
    ]
    events: list[WhyEvent]
    places: list[WhyPlace]
    fix: str | None
    commands: list[str]
    discards_since: str | None  # how far the ledger goes back
    life_since: str | None  # how far the record of all events goes back; null: it is switched off, or empty


class DeleteMessages(RequestModel):
    lookup_ids: list[str] | None = Field(
        default=None, max_length=MAX_NAMED, description="only these messages"
    )
    limit: int | None = Field(default=None, ge=1, description="at most so many, from the front of the queue")
    plan: str | None = Field(default=None, pattern="^[0-9]{1,18}$", description="of the dry run")
    dry_run: bool = False


class Operation(ResponseModel):
    """Of a dry run: `plan`, `count`, `bytes`, `undoable`, and `first`, the first lookup ids.

    Others have id, kind, queue, who, time, note, restored, undo_until, request, looked, total, next, and
    state: running, paused, failed (see note; it can be resumed), finished, cancelled, done (it can be
    undone), undone, or over (its trash was emptied).
    """

    count: int
    bytes: int


class NewOperation(RequestModel):
    """Bulk work that runs in the background, on all messages or those that filter, since and until name."""

    action: Literal["move", "copy", "replay", "delete", "purge"]
    to: str | None = Field(default=None, max_length=4000, description="of move, copy and replay")
    filter: str | None = Field(default=None, max_length=MAX_FILTER, description="only messages that it finds")
    pattern: str | None = Field(
        default=None, max_length=MAX_PATTERN, description="a regular expression instead of a filter"
    )
    since: str | None = Field(
        default=None, max_length=40, description="arrived at this time or later, in ISO 8601"
    )
    until: str | None = Field(default=None, max_length=40, description="arrived before this time")
    limit: int | None = Field(default=None, ge=1, le=2**53)
    rate: float | None = Field(default=None, gt=0, le=1_000_000, description="messages per second, at most")
    plan: str | None = Field(
        default=None, pattern="^[0-9]{1,18}$", description="of a dry run: later messages are left alone"
    )
    keep: bool = Field(default=False, description="of replay: the originals stay")
    transactional: bool | None = None
    same_id: bool = Field(
        default=False, description="of move and replay: stop at a message that would get a new id"
    )
    dry_run: bool = Field(default=False, description="only count, and return a plan")


class OperationList(ResponseModel):
    operations: list[Operation]


class Edit(RequestModel):
    changes: dict[str, Any] = Field(description="properties of the new message; null: the default")
    to: str | None = Field(default=None, max_length=4000)
    keep: bool = Field(default=False, description="leave the original where it is")
    transactional: bool | None = None


class Edited(ResponseModel):
    id: str
    edited_from: str
    changed: dict[str, list[Any]]  # old and new value of each property
    operation: str | None  # which undo takes


class AuditLines(ResponseModel):
    lines: list[dict[str, Any]]
    next: str | None


class ExplainFinding(ResponseModel):
    result: Literal["ok", "warn", "fail", "unknown"]
    text: str


class Explanation(ResponseModel):
    would_go: bool
    error: str | None  # that sending would give
    fix: str | None
    findings: list[ExplainFinding]


class Account(ResponseModel):
    name: str
    sid: str


class AccountList(ResponseModel):
    accounts: list[Account]


class AccessToken(ResponseModel):
    name: str
    roles: list[Literal["read", "send", "receive", "admin"]]
    last_used: str | None  # for the API, since the start
    logins: int  # browsers that are logged in with it
    is_own: bool  # the one of this request


class AccessTokenList(ResponseModel):
    file: str | None  # null: there are no tokens, and every program of this computer has access
    tokens: list[AccessToken]


class Revoked(ResponseModel):
    revoked: str


class Me(ResponseModel):
    name: str
    roles: list[Literal["read", "send", "receive", "admin"]]
    computer: str
    logged_in: bool  # with a browser


class Problem(ResponseModel):
    """RFC 9457, with the MSMQ error code and a fix."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    number: int
    fix: str


class ManagerProperties(RequestModel):
    queue_manager_quota_kib: int | None = Field(default=None, description="null: no limit")
    journal_quota_kib: int | None = None
    hardened_security: bool = False
    send_insecure_nacks: bool = False
    srmp_http_support: bool = False
    srmp_pgm_support: bool = False
    routing_server: bool = False
    out_routing_server_identifier_list: list[str] = Field(default_factory=list)
    in_routing_server_identifier_list: list[str] = Field(default_factory=list)


class Totals(ResponseModel):
    queues: int
    messages: int
    bytes: int


class QueueManager(ResponseModel):
    name: str
    qualified_name: str
    guid: str
    version: str
    data: str
    is_running: bool
    started: str | None
    addresses: list[str]
    properties: dict[str, Any]
    totals: Totals


class PublicKeys(ResponseModel):
    guid: str
    name: str
    keys: str = Field(description="MQDSPUBLICKEYS, base64")
    fingerprint: str = Field(description="SHA-256 of the keys, to compare with `tiercel key show --exchange`")


class Chosen(RequestModel):
    """Which messages of a queue to move, copy or replay, and how."""

    lookup_ids: list[str] | None = Field(default=None, max_length=1000, description="only these messages")
    after: str = Field(default="start", max_length=40, description="value of `next` in the previous response")
    limit: int = Field(default=1000, ge=1, le=10_000)
    transactional: bool | None = Field(
        default=None, description="for queues of other computers; default: as each message is"
    )
    dry_run: bool = False


class _CanBeUndone(Chosen):
    undo: bool = Field(
        default=False,
        description="of moves and replays: keep the old places, so that the operation can be undone",
    )
    operation: str | None = Field(
        default=None,
        pattern="^[0-9]{1,18}$",
        description="with `undo`: the operation of the previous response, which this request goes on with",
    )


class Transfer(_CanBeUndone):
    to: str = Field(max_length=4000, description="destination queue", examples=["orders;poison"])


class Replay(_CanBeUndone):
    to: str | None = Field(
        default=None, max_length=4000, description="default: the queue that each message was sent to"
    )
    keep: bool = Field(default=False, description="the originals stay, and copies are sent")
    same_id: bool = Field(
        default=False,
        description="refuse a message that would get a new id, as in a queue of another computer",
    )


class Transferred(ResponseModel):
    count: int
    bytes: int
    next: str | None
    dry_run: bool
    operation: str | None = Field(description="which undo takes; of a move or replay that asks for it")


class HistoryEntry(ResponseModel):
    time: str | None
    status: str
    error: int
    error_name: str | None
    addresses: list[str]


class OutgoingQueueDetails(ResponseModel):
    format_name: str
    state: str
    paused: bool
    count: int
    bytes: int
    locked: int
    oldest_arrival: str | None
    next_hops: list[str]
    reason: str
    why: str  # a sentence; empty if it has not tried to connect
    error_name: str | None  # of the last try
    last_try: str | None
    next_try: str | None  # when it connects again, if it failed
    unacknowledged: int
    history: list[HistoryEntry]


class OutgoingList(ResponseModel):
    outgoing: list[OutgoingQueueDetails]


class Connection(ResponseModel):
    transport: Literal["binary", "http"]
    connection: int
    address: str
    peer: str | None  # GUID; null over HTTP, and before it is known
    state: str
    direction: Literal["in", "out"]
    in_flight: int
    window: int


class ConnectionList(ResponseModel):
    connections: list[Connection]


class Stream(ResponseModel):
    direction: Literal["in", "out"]
    queue: str
    peer: str | None  # GUID; null for an outgoing stream of which nothing was sent
    name: str  # the name by which the sender addresses the queue
    sequence: str
    number: int  # the last one accepted, or assigned
    sent: int | None  # of outgoing streams, as the next two
    acknowledged: int | None
    unread: int | None  # messages that await their final acknowledgement
    rejected: int  # since the last message that was accepted
    last_change: str | None
    problem: str | None


class StreamList(ResponseModel):
    streams: list[Stream]


class LearnedPeer(ResponseModel):
    guid: str
    address: str | None  # null if its messages come through a router
    is_direct: bool  # whether it reaches this computer by direct names


class PeerList(ResponseModel):
    peers: list[LearnedPeer]


class ForgottenPeer(ResponseModel):
    guid: str


class MulticastSource(ResponseModel):
    address: str
    session: str  # transport session identifier: global source id and port
    packets: int  # since it was first heard, as are the others
    duplicates: int
    repaired: int
    lost: int  # packets that could not be repaired
    naks: int  # requests for repair that were sent
    missing: int  # packets that are being repaired now


class MulticastGroup(ResponseModel):
    address: str
    queues: list[str]
    sources: list[MulticastSource]


class MulticastSending(ResponseModel):
    address: str
    session: str
    state: str
    packets: int
    repairs: int
    naks: int  # requests for repair that were received
    waiting_bytes: int
    window_bytes: int  # that can still be repaired


class Multicast(ResponseModel):
    enabled: bool
    interface: str | None
    groups: list[MulticastGroup]
    sending: list[MulticastSending]


class StreamReset(ResponseModel):
    queue: str
    peer: str
    reset: int


RedirectionKind = Literal["inbound", "outbound", "exception", "receipts"]


class Redirection(ResponseModel):
    kind: RedirectionKind
    pattern: str  # a URL; a * at the end stands for any rest
    to: str | None  # null for exceptions


class RedirectionList(ResponseModel):
    store_and_forward: bool
    receipts_default: str | None
    redirections: list[Redirection]  # of each kind, the first that matches counts


class RedirectionSettings(RequestModel):
    store_and_forward: bool = Field(
        default=False, description="pass on messages to other computers (TransparentStoreAndForward)"
    )
    receipts_default: str | None = Field(
        default=None, max_length=2048, description="URL for stream receipts; null: the order queue here"
    )


class NewRedirection(RequestModel):
    kind: RedirectionKind
    pattern: str = Field(max_length=2048, examples=["http://public.example/msmq/*"])
    to: str | None = Field(default=None, max_length=2048, examples=["http://inside/msmq/private$/orders"])


class Transaction(ResponseModel):
    id: str
    state: str
    is_in_doubt: bool
    began: str | None  # null for one that an older version has prepared
    sends: int
    receives: int
    moves: int
    queues: list[str]


class TransactionList(ResponseModel):
    transactions: list[Transaction]


class Decided(ResponseModel):
    id: str
    outcome: Literal["committed", "aborted"]


class Claim(ResponseModel):
    consumer: str
    queue: str
    guid: str
    epoch: int
    floor: int
    hi: int
    count: int
    bytes: int
    age: int | None
    last_seen: int
    lag: int  # messages of the queue that nobody has claimed
    oldest_unclaimed: str | None


class ClaimList(ResponseModel):
    claims: list[Claim]


class Release(RequestModel):
    consumer: str = Field(max_length=200)
    queue: str | None = Field(default=None, max_length=4000)


class Released(ResponseModel):
    released: int


class Forgotten(ResponseModel):
    forgotten: str


class Stage(ResponseModel):
    stage: str
    created: int
    changed: int
    rows: int
    bytes: int
    chunks: int
    age: int


class StageList(ResponseModel):
    stages: list[Stage]


class Backup(RequestModel):
    directory: str = Field(max_length=4000, description="destination: an empty or new directory")


class BackupMade(ResponseModel):
    directory: str
    size_bytes: int
    queues: int
    messages: int
    problems: list[str]


class Health(ResponseModel):
    status: Literal["ok", "failed"]


class Ready(ResponseModel):
    status: Literal["ready", "stopping", "failed"]
