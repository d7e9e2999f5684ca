"""The settings of the protocol; the defaults are those of Windows."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from tiercel.model.limits import ACK_TIMEOUT_MIN_MS, DEFAULT_WINDOW_SIZE, TIERCEL_WINDOW_SIZE

# SeqResend13Time, 46, 79 and 10, in seconds (MQQB-138).
RESEND_TABLE_S = (30, 30, 30, 300, 300, 300, 1800, 1800, 1800, 21600)


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """What is known about another queue manager.

    With a GUID and addresses, the GUID is pinned to them. With `tls`, it must prove its GUID by a
    certificate, whatever its address is; the addresses are then the names by which we send to it.
    """

    name: str = ""
    guid: UUID | None = None
    addresses: tuple[str, ...] = ()  # names, addresses or networks
    signers: tuple[str, ...] = ()  # whose certificates sign its messages over HTTP, by name
    tls: tuple[str, int] | None = None  # host and port; both sides must use TLS
    fingerprint: str = ""  # of its certificate; otherwise the certificate has to name the GUID
    url: str = ""  # of its HTTP API, which `why --hops` and `explain` ask
    token_file: str = ""  # with the token for that


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    port: int = 1801
    window_size: int = DEFAULT_WINDOW_SIZE  # MaxUnackedPacket
    tiercel_window_size: int = TIERCEL_WINDOW_SIZE  # with another Tiercel, unless the other is below 64
    ack_timeout_ms: int = ACK_TIMEOUT_MIN_MS
    round_trip_delay_ms: int = 0
    retry_ms: int = 5_000  # TryConnectInterval, for the first retries
    retry_max_ms: int = 60_000  # upper limit of the back-off
    cleanup_ms: int | None = None  # CleanupInterval; None is 300,000, or 120,000 on a routing server
    max_in_sessions: int | None = None  # MaxInSessions; None is unlimited
    ping: bool = False  # EnablePingService: whether we ping, and answer pings
    ping_port: int = 3527
    resend_table_s: tuple[int, ...] = RESEND_TABLE_S
    order_ack_delay_ms: int = 500
    order_ack_delay_max_s: int = 10  # SeqMaxAckDelay
    history_size: int = 10_000  # RemoveDuplicateSize
    history_lifetime_ms: int = 1_800_000  # RemoveDuplicateCleanup
    partial_packet_bytes: int = 64 << 20  # memory for packets that have not arrived completely
    check_counts: bool = True  # close a session if the peer's message counts differ from ours (MQQB T45)
    # Hosts of queue managers that are known only by their GUID, and hosts for messages to other
    # computers: names or addresses, tried in order ([MS-MQBR] without a directory).
    machines: Mapping[UUID, tuple[str, ...]] = field(default_factory=dict)
    out_routing_servers: tuple[str, ...] = ()
    in_routing_servers: tuple[str, ...] | None = None  # which may pass on messages to us; None: those above
    peers: tuple[Peer, ...] = ()
    only_peers: bool = False  # whether to accept sessions of `peers` only
    routing_server: bool = False  # whether to forward messages for other queue managers
