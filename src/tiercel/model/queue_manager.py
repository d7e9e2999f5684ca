"""The queue manager, its enterprise, sites, routing links, networks and users ([MS-MQDMPR] 3.1.1).

Only attributes, their defaults and the rules that the model itself sets; the engine acts on them. The
transactions are the engine's own and stand there.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

from tiercel.model.codes import DirectoryServerType, OperatingSystemType, QueueManagerState
from tiercel.model.errors import IllegalPropertySizeError, IllegalPropertyValueError, PropertiesConflictError
from tiercel.model.identifiers import NULL_GUID
from tiercel.model.limits import (
    CERTIFICATE_DIGEST_BYTES,
    INFINITE,
    INITIALIZATION_RETRY_DEFAULT_S,
    JOURNAL_QUOTA_DEFAULT_KIB,
    NETBIOS_NAME_MAX_CHARACTERS,
    QUEUE_MANAGER_QUOTA_DEFAULT_KIB,
    ROUTING_LINK_COST_MAX,
    ROUTING_LINK_COST_MIN,
    TIME_TO_REACH_QUEUE_DEFAULT_S,
)
from tiercel.model.queue import DIRECTORY, PERSISTENT, VOLATILE, DirectoryObject, Queue, check_range
from tiercel.model.sid import SecurityIdentifier


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicKey:
    """One key of a computer and the provider that made it: MQDSPUBLICKEY ([MS-MQMQ] 2.2.1)."""

    provider_name: str
    provider_type: int
    key: bytes


@dataclass(slots=True, kw_only=True, eq=False)
class QueueManager(DirectoryObject):
    """A queue manager, this one or another in the directory ([MS-MQDMPR] 3.1.1.1)."""

    computer_name: str = field(metadata=DIRECTORY)  # NetBIOS
    qualified_computer_name: str = field(default="", metadata=DIRECTORY)
    queue_manager_version: str = field(default="", metadata=DIRECTORY)  # empty, as on Windows since XP
    operating_system_version: str = field(default="", metadata=DIRECTORY)
    operating_system_type: OperatingSystemType = field(
        default=OperatingSystemType.FOREIGN, metadata=DIRECTORY
    )
    create_time: int = field(default=0, metadata=DIRECTORY)  # seconds since 1970, like every time here
    modify_time: int = field(default=0, metadata=DIRECTORY)
    queue_manager_quota_kib: int = field(default=QUEUE_MANAGER_QUOTA_DEFAULT_KIB, metadata=DIRECTORY)
    journal_quota_kib: int = field(default=JOURNAL_QUOTA_DEFAULT_KIB, metadata=DIRECTORY)
    foreign_system: bool = field(default=False, metadata=DIRECTORY)
    full_path: str = field(default="", metadata=DIRECTORY)  # set by the directory
    site_identifier_list: list[UUID] = field(default_factory=list, metadata=DIRECTORY)
    connected_network_identifier_list: list[UUID] = field(default_factory=list, metadata=DIRECTORY)
    out_routing_server_identifier_list: list[UUID] = field(default_factory=list, metadata=DIRECTORY)
    in_routing_server_identifier_list: list[UUID] = field(default_factory=list, metadata=DIRECTORY)
    # None if it is not a directory server: the type has no meaning then (DMPR-014).
    directory_server_type: DirectoryServerType | None = field(default=None, metadata=DIRECTORY)
    remote_access_server: bool = field(default=False, metadata=DIRECTORY)
    routing_server: bool = field(default=False, metadata=DIRECTORY)
    supporting_server: bool = field(default=False, metadata=DIRECTORY)
    public_encryption_key_list: list[PublicKey] = field(default_factory=list, metadata=DIRECTORY)
    public_signing_key_list: list[PublicKey] = field(default_factory=list, metadata=DIRECTORY)
    security: bytes | None = field(default=None, metadata=DIRECTORY)  # with QueueManagerAccessMask bits
    clustered: bool = field(default=False, metadata=DIRECTORY)

    last_domain: UUID | None = field(default=None, metadata=PERSISTENT)  # None: never joined one
    directory_server_list: list[str] = field(default_factory=list, metadata=PERSISTENT)
    directory_integrated: bool = field(default=False, metadata=PERSISTENT)
    srmp_http_support: bool = field(default=False, metadata=PERSISTENT)
    srmp_pgm_support: bool = field(default=False, metadata=PERSISTENT)
    hardened_security: bool = field(default=False, metadata=PERSISTENT)
    # SendInsecureNacks: whether unknown senders learn why their messages were refused ([MS-MQQB] 3.1.1.3).
    send_insecure_nacks: bool = field(default=False, metadata=PERSISTENT)
    initialization_retry_timer_duration_s: int = field(
        default=INITIALIZATION_RETRY_DEFAULT_S, metadata=PERSISTENT
    )
    sequential_id: int = field(default=0, metadata=PERSISTENT)  # 64 bits; counts every enqueued message

    machine_domain_id: UUID | None = field(default=None, metadata=VOLATILE)
    directory_offline: bool = field(default=False, metadata=VOLATILE)
    throttled: bool = field(default=False, metadata=VOLATILE)
    connection_active: bool = field(default=True, metadata=VOLATILE)
    queue_manager_state: QueueManagerState = field(default=QueueManagerState.STOPPED, metadata=VOLATILE)
    system_deadletter_queue: Queue | None = field(default=None, repr=False, metadata=VOLATILE)
    system_transactional_deadletter_queue: Queue | None = field(default=None, repr=False, metadata=VOLATILE)
    system_journal_queue: Queue | None = field(default=None, repr=False, metadata=VOLATILE)
    queue_collection: dict[UUID, Queue] = field(default_factory=dict, repr=False, metadata=VOLATILE)
    enterprise: "Enterprise | None" = field(default=None, repr=False, metadata=VOLATILE)
    site_collection: list["Site"] = field(default_factory=list, repr=False, metadata=VOLATILE)
    connected_network_collection: list["ConnectedNetwork"] = field(
        default_factory=list, repr=False, metadata=VOLATILE
    )
    out_routing_server_collection: list["QueueManager"] = field(
        default_factory=list, repr=False, metadata=VOLATILE
    )
    in_routing_server_collection: list["QueueManager"] = field(
        default_factory=list, repr=False, metadata=VOLATILE
    )
    # By user identifier; at most one per user.
    internal_certificate_collection: dict[UUID, "InternalCertificate"] = field(
        default_factory=dict, repr=False, metadata=VOLATILE
    )

    def __post_init__(self) -> None:
        self.validate()

    def __str__(self) -> str:
        return f"queue manager {self.computer_name}"

    @property
    def directory_server(self) -> bool:
        return self.directory_server_type is not None

    def validate(self) -> None:
        """Raise an `MqError` if the attributes violate [MS-MQDMPR] 3.1.1.1."""
        check_range(f"the quota of {self}, in KiB,", self.queue_manager_quota_kib, 0, INFINITE)
        check_range(f"the journal quota of {self}, in KiB,", self.journal_quota_kib, 0, INFINITE)
        check_range(f"the sequential id of {self}", self.sequential_id, 0, 2**64 - 1)
        length = len(self.computer_name)
        check_range(f"the length of the NetBIOS name of {self}", length, 1, NETBIOS_NAME_MAX_CHARACTERS)
        if self.directory_offline and not self.directory_integrated:
            problem = "it cannot be cut off from a directory that it does not use"
            raise PropertiesConflictError(str(self), problem=problem, fix="clear directory_offline")
        _check_listed(self, "site", self.site_collection, self.site_identifier_list)
        names = [site.name.casefold() for site in self.site_collection]
        if len(set(names)) < len(names):
            problem = "two sites have the same name"
            raise IllegalPropertyValueError(str(self), problem=problem, present=", ".join(sorted(names)))
        outgoing, incoming = self.out_routing_server_collection, self.in_routing_server_collection
        _check_listed(self, "out-routing server", outgoing, self.out_routing_server_identifier_list)
        _check_listed(self, "in-routing server", incoming, self.in_routing_server_identifier_list)
        networks = self.connected_network_collection
        _check_listed(self, "connected network", networks, self.connected_network_identifier_list)
        missing = set(self.connected_network_identifier_list) - {each.identifier for each in networks}
        if missing:
            problem = "connected networks are listed but not in the collection"
            raise IllegalPropertyValueError(str(self), problem=problem, present=_text(missing))


@dataclass(slots=True, kw_only=True, eq=False)
class Enterprise(DirectoryObject):
    """All queue managers that share a directory ([MS-MQDMPR] 3.1.1.6)."""

    name: str = field(metadata=DIRECTORY)
    weakened_security: bool = field(default=False, metadata=DIRECTORY)
    non_ldap_capable_queue_manager_notification: bool = field(default=False, metadata=DIRECTORY)
    default_time_to_live_s: int = field(default=TIME_TO_REACH_QUEUE_DEFAULT_S, metadata=DIRECTORY)
    old_directory: bool = field(default=False, metadata=DIRECTORY)  # of MSMQ 1.0
    security: bytes | None = field(default=None, metadata=DIRECTORY)  # with EnterpriseAccessMask bits


@dataclass(slots=True, kw_only=True, eq=False)
class Site(DirectoryObject):
    """Computers with fast connections ([MS-MQDMPR] 3.1.1.7); the name is unique in the enterprise."""

    name: str = field(metadata=DIRECTORY)
    primary_site_controller: str = field(default="", metadata=DIRECTORY)
    intra_site_replication_interval_s: int = field(default=0, metadata=DIRECTORY)
    inter_site_replication_interval_s: int = field(default=0, metadata=DIRECTORY)
    full_path: str = field(default="", metadata=DIRECTORY)
    foreign_site: bool = field(default=False, metadata=DIRECTORY)
    public_signing_key_list: list[PublicKey] = field(default_factory=list, metadata=DIRECTORY)
    migrated_from_msmq10: bool = field(default=False, metadata=DIRECTORY)
    security: bytes | None = field(default=None, metadata=DIRECTORY)  # with SiteAccessMask bits
    site_gate_collection: list[QueueManager] = field(default_factory=list, repr=False, metadata=VOLATILE)

    def __str__(self) -> str:
        return f"site {self.name}"


@dataclass(slots=True, kw_only=True, eq=False)
class RoutingLink(DirectoryObject):
    """A link between two sites, and its cost ([MS-MQDMPR] 3.1.1.8)."""

    description: str = field(default="", metadata=DIRECTORY)
    full_path: str = field(default="", metadata=DIRECTORY)
    actual_cost: int = field(default=ROUTING_LINK_COST_MIN, metadata=DIRECTORY)
    site1_identifier: UUID = field(default=NULL_GUID, metadata=DIRECTORY)
    site2_identifier: UUID = field(default=NULL_GUID, metadata=DIRECTORY)
    site_gate_identifier_list: list[UUID] = field(default_factory=list, metadata=DIRECTORY)
    site1: Site | None = field(default=None, repr=False, metadata=VOLATILE)
    site2: Site | None = field(default=None, repr=False, metadata=VOLATILE)
    site_gate_collection: list[QueueManager] = field(default_factory=list, repr=False, metadata=VOLATILE)

    def __post_init__(self) -> None:
        self.validate()

    def __str__(self) -> str:
        return f"routing link {self.description or self.identifier}"

    def validate(self) -> None:
        """Raise an `MqError` if the attributes violate [MS-MQDMPR] 3.1.1.8."""
        subject = f"the cost of {self}"
        check_range(subject, self.actual_cost, ROUTING_LINK_COST_MIN, ROUTING_LINK_COST_MAX)
        for site, identifier in ((self.site1, self.site1_identifier), (self.site2, self.site2_identifier)):
            if site is not None:
                _check_listed(self, "site", [site], [identifier])
        _check_listed(self, "site gate", self.site_gate_collection, self.site_gate_identifier_list)


@dataclass(slots=True, kw_only=True, eq=False)
class ConnectedNetwork(DirectoryObject):
    """Directly connected computers, only used by Windows NT and 2000 ([MS-MQDMPR] 3.1.1.9)."""

    name: str = field(metadata=DIRECTORY)
    security: bytes | None = field(default=None, metadata=DIRECTORY)  # with ConnectedNetworkAccessMask bits

    def __str__(self) -> str:
        return f"connected network {self.name}"


@dataclass(slots=True, kw_only=True, eq=False)
class User(DirectoryObject):
    """A user and their certificates ([MS-MQDMPR] 3.1.1.15)."""

    security_identifier: SecurityIdentifier = field(metadata=DIRECTORY)
    certificate_digest_list: tuple[bytes, ...] = field(default=(), metadata=DIRECTORY)  # MD5 of each
    certificates: bytes = field(default=b"", metadata=DIRECTORY)  # MQUSERSIGNCERTS ([MS-MQMQ] 2.2.21)

    def __post_init__(self) -> None:
        for digest in self.certificate_digest_list:
            if len(digest) != CERTIFICATE_DIGEST_BYTES:
                subject = f"a certificate digest of {self}"
                limit = f"{CERTIFICATE_DIGEST_BYTES} bytes"
                raise IllegalPropertySizeError(subject, present=f"{len(digest)} bytes", limit=limit)

    def __str__(self) -> str:
        return f"user {self.security_identifier}"


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalCertificate:
    """A certificate created by the queue manager for a user ([MS-MQDMPR] 3.1.1.19)."""

    user: User
    certificate: bytes  # X.509 in DER


def _check_listed(
    owner: DirectoryObject, what: str, members: Iterable[DirectoryObject], identifiers: list[UUID]
) -> None:
    unlisted = {member.identifier for member in members} - set(identifiers)
    if unlisted:
        raise IllegalPropertyValueError(
            str(owner),
            problem=f"the identifier of a {what} is not in its list",
            present=_text(unlisted),
            limit=_text(identifiers) or "none listed",
            fix="list the identifier first",
        )


def _text(identifiers: Iterable[UUID]) -> str:
    return ", ".join(sorted(map(str, identifiers)))
