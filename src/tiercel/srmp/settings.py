"""The settings of the protocol; the defaults are those of Windows where it has them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

# Seconds to wait for a stream receipt: three times each of the first three, then always the last (SRMP-105).
RESEND_TABLE_S = (30, 30, 30, 300, 300, 300, 1800, 1800, 1800, 21600)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    aliases: tuple[str, ...] = ()  # more names of this computer, as the public one behind a proxy
    # Where others reach our listeners, as in `http://host:8080`; empty without such a listener.
    http_url: str = ""
    https_url: str = ""
    token_required: bool = True  # whether a stream receipt has to come to the very URL that was given out
    drop_expired: bool = False  # whether to drop messages that arrive after their time (SRMP-053)
    xml_signatures: bool = False  # whether messages are signed and signatures verified, with SHA-1 (trap 32)
    # The names of the trusted certificates that the messages of a queue manager may be signed with.
    signers: Mapping[UUID, tuple[str, ...]] = field(default_factory=dict)
    trusted_proxies: tuple[str, ...] = ()  # networks of reverse proxies that say who their clients are
    proxy: tuple[str, int] | None = None  # host and port of the HTTP proxy for our requests

    retry_ms: int = 20_000  # the retransmission timer (SRMP-103)
    cleanup_ms: int = 300_000  # until an idle connection is closed (SRMP-110)
    answer_timeout_ms: int = 60_000  # ours: the text has no length
    resend_table_s: tuple[int, ...] = RESEND_TABLE_S
    receipt_delay_ms: int = 500  # stream receipts wait for more messages (SRMP-108)
    receipt_delay_max_ms: int = 10_000  # but not longer than this (SRMP-109)

    # Of connections that others open: without a request, and with one that does not become complete.
    idle_ms: int = 300_000
    request_timeout_ms: int = 60_000
    partial_request_bytes: int = 64 << 20  # memory for requests that have not arrived completely

    history_lifetime_ms: int = 1_800_000  # of the ids of messages (SRMP-100)
