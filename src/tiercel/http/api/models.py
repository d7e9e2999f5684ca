"""What requests bring and answers hold, for FastAPI to check and OpenAPI to show."""

from typing import Annotated, Any, Literal
from urllib.parse import unquote

from fastapi import Path
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from tiercel.http.leases import MAX_LEASE_S, MAX_LIMIT

MAX_WAIT_MS = 60_000
MOVED_MAX = 100_000

QueueName = Annotated[
    str,
    Path(
        description=r"a queue in one percent-encoded segment: `orders`, `private$\orders`, "
        r"`.\private$\orders`, `orders;subqueue`, `orders;journal`, `;deadletter`, `;deadxact`, `;journal`, or a format name",
        examples=["orders"],
        max_length=4000,
    ),
    AfterValidator(unquote),
]
LookupId = Annotated[str, Path(pattern="^[0-9]{1,20}$", description="the lookup id of a message, in digits")]
LeaseId = Annotated[str, Path(max_length=100), AfterValidator(unquote)]


class Given(BaseModel):
    """What a request brings: exact types, and nothing that nobody asked for."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Told(BaseModel):
    """What an answer holds."""

    model_config = ConfigDict(extra="allow")


class QueueProperties(Given):
    label: str = Field(default="", description="at most 124 UTF-16 units")
    journaling: bool = Field(default=False, description="keep a copy of what is received")
    quota_kib: int | None = Field(default=None, description="null: no limit")
    journal_quota_kib: int | None = None
    authentication: bool = Field(default=False, description="take signed messages only")
    privacy_level: Literal["none", "optional", "body"] = "optional"
    base_priority: int = 0
    multicast_address: str | None = None
    type: str = Field(default="00000000-0000-0000-0000-000000000000", description="a GUID of the application")
    security: str = Field(default="", description="a security descriptor in SDDL")


class NewQueue(QueueProperties):
    path_name: str = Field(examples=[r".\private$\orders"], max_length=1000)
    transactional: bool = False
    exist_ok: bool = Field(default=False, description="a queue that is there already is taken as it is")

    @property
    def properties(self) -> dict[str, Any]:
        return self.model_dump(exclude_unset=True, exclude={"path_name", "transactional", "exist_ok"})


class QueueRow(Told):
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


class Queue(QueueRow):
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


class QueueList(Told):
    queues: list[QueueRow]


class Counts(Told):
    count: int
    bytes: int
    dry_run: bool


class Sent(Told):
    id: str


class SentMany(Told):
    count: int
    ids: list[str]


class Receive(Given):
    limit: int = Field(default=1, ge=1, le=MAX_LIMIT)
    wait_ms: int = Field(default=0, ge=0, le=MAX_WAIT_MS, description="how long to wait for the first")
    lease_s: float = Field(default=30, gt=0, le=MAX_LEASE_S, strict=False)
    acknowledge: Literal["lease", "now"] = Field(
        default="lease", description="now: received with the answer, and lost if the answer is"
    )
    lookup_id: str | None = Field(
        default=None, pattern="^[0-9]{1,20}$", description="this message, and no other"
    )
    bodies: bool = True
    decode: bool = False


class Extend(Given):
    lease_s: float = Field(default=30, gt=0, le=MAX_LEASE_S, strict=False, description="seconds from now")


class Ended(Told):
    lease: str
    already: bool


class Extended(Told):
    lease: str
    lease_s: float


class Lease(Told):
    lease: str
    queue: str
    lookup_id: str
    who: str
    lease_s: float
    seconds_left: float
    ends: str | None


class LeaseList(Told):
    leases: list[Lease]


class Discard(Told):
    line: int
    time: str | None
    queue: str
    id: str
    label: str
    size: int
    reason: str


class DiscardList(Told):
    discards: list[Discard]
    next: str | None


class Problem(Told):
    """RFC 9457, with the code of MSMQ and what to do."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    number: int
    fix: str
