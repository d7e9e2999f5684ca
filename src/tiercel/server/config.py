"""The configuration: read from TOML and validated. docs/operating.md explains every option.

The sections are data classes; their fields are the options, with types and defaults. An invalid option raises
`ConfigError`, whose text is one line.
"""

import hashlib
import ipaddress
import re
import tomllib
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, Self, get_args, get_origin, get_type_hints
from urllib.parse import urlsplit
from uuid import UUID

from tiercel.binary.settings import Peer, Settings
from tiercel.engine.life import DEFAULT_MAX_BYTES as LIFE_MAX_BYTES
from tiercel.message_security.body_encryption import EncryptionPolicy
from tiercel.message_security.signatures import DEFAULT_POLICY
from tiercel.message_security.verifier import VerificationPolicy
from tiercel.model.errors import MqError, TiercelError
from tiercel.model.limits import (
    ACK_TIMEOUT_MAX_MS,
    ACK_TIMEOUT_MIN_MS,
    MAX_PACKET_SIZE,
    WINDOW_SIZE_MAX,
)
from tiercel.model.path_name import PathKind, PathName
from tiercel.pgm.settings import Settings as PgmSettings
from tiercel.remote_read.settings import Settings as RemoteReadSettings
from tiercel.rpc.security import AuthenticationLevel
from tiercel.srmp.queue_urls import endpoint_of
from tiercel.srmp.settings import RESEND_TABLE_S
from tiercel.srmp.settings import Settings as SrmpSettings
from tiercel.store import DEFAULT_MAX_BYTES, MAX_MAX_BYTES, MIN_MAX_BYTES

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 1801

_NO_PORT: Final = -1
_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS
_HOST_NAME: Final = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,253}[A-Za-z0-9_])?")


class ConfigError(TiercelError):
    """An unknown or invalid option; the text is one line for the administrator."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A host and a port; port 0 means any port."""

    host: str
    port: int = 0

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}" if self.port else self.host

    @classmethod
    def parse(cls, text: str, default_port: int = 0) -> Self:
        """`host`, `host:port`, `address`, `[address]:port`; raises `ValueError`."""
        host: str = text
        port: str | None = None
        if text.startswith("["):
            host, bracket, rest = text[1:].partition("]")
            if not bracket or (rest and not rest.startswith(":")):
                raise ValueError("a closing bracket and a port are missing")
            ipaddress.IPv6Address(host)
            port = rest[1:] or None
        elif text.count(":") == 1:
            host, _, port = text.partition(":")
        if port is not None and not (port.isascii() and port.isdigit() and int(port) <= 65535):
            raise ValueError(f"{port!r} is not a valid port")
        if not _is_address(host) and not _HOST_NAME.fullmatch(host):
            raise ValueError(f"{host!r} is neither a name nor an address")
        return cls(host, default_port if port is None else int(port))


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions:
    data: str = ""
    computer_name: str = ""
    names: tuple[str, ...] = ()
    max_bytes: int = DEFAULT_MAX_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenOptions:
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    backlog: int = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsOptions:
    """TLS between queue managers."""

    listen: str = ""
    tls_certificate: str = ""
    tls_key: str = ""
    tls_ca: str = ""

    @property
    def endpoint(self) -> Endpoint | None:
        """Where to listen; None if only connections of our own use TLS."""
        return Endpoint.parse(self.listen) if self.listen else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitOptions:
    connections: int = 1000
    connections_per_address: int = 100
    handshake_s: int = 60
    connect_s: int = 30
    close_s: int = 5
    write_buffer_bytes: int = 1 << 20
    batch_bytes: int = 16 << 20
    partial_packet_bytes: int = 64 << 20
    idle_s: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingOptions:
    out_routing_servers: tuple[str, ...] = ()
    in_routing_servers: tuple[str, ...] | None = None  # None means the same as out_routing_servers
    routing_server: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessOptions:
    everyone_may_send: bool = True
    believe_unsigned_senders: bool = False
    only_peers: bool = False
    insecure_nacks: bool | None = None
    hardened: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountOptions:
    file: str = ""
    keytab: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityOptions:
    """The security of messages; that of connections is in other sections."""

    trust: str = ""
    verify_signatures: bool = True
    unknown_certificates: str = "auto"
    external_certificates: bool = False
    encrypt_direct_names: bool = False
    legacy: bool = False

    @property
    def verification(self) -> VerificationPolicy:
        return VerificationPolicy(
            verify_signatures=self.verify_signatures,
            signatures=DEFAULT_POLICY.with_legacy() if self.legacy else DEFAULT_POLICY,
            refuse_unknown_certificates=_UNKNOWN_CERTIFICATES[self.unknown_certificates],
            external_certificates=self.external_certificates,
        )

    @property
    def encryption(self) -> EncryptionPolicy:
        return EncryptionPolicy(legacy=self.legacy)


_UNKNOWN_CERTIFICATES: Final[Mapping[str, bool | None]] = {"auto": None, "accept": False, "refuse": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteReadOptions:
    enabled: bool = False
    host: str = ""
    port: int = 2103
    connections: int = 1000
    connections_per_address: int = 100
    logon_s: int = 30
    least_level: str = "privacy"
    least_level_local: str = "none"
    allow_unauthenticated: bool = False
    deny_workgroup_clients: bool = False
    allow_anonymous: bool = False
    cleanup_s: int = 300
    endpoint_mapper: bool = False
    endpoint_mapper_port: int = 135

    @property
    def settings(self) -> RemoteReadSettings:
        """The settings of the remote-read service."""
        return RemoteReadSettings(
            port=self.port,
            cleanup_s=self.cleanup_s,
            least_level=AuthenticationLevel[self.least_level.upper()],
            least_level_local=AuthenticationLevel[self.least_level_local.upper()],
            allow_unauthenticated=self.allow_unauthenticated,
            deny_workgroup_clients=self.deny_workgroup_clients,
            allow_anonymous=self.allow_anonymous,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SrmpOptions:
    enabled: bool = False
    host: str = DEFAULT_HOST
    http: bool = True
    port: int = 80
    https_port: int = 443
    tls_certificate: str = ""
    tls_key: str = ""
    tls_client_ca: str = ""
    http_url: str = ""
    https_url: str = ""
    aliases: tuple[str, ...] = ()
    ca: str = ""
    proxy: str = ""
    receipt_token: str = "required"  # noqa: S105  # a choice
    xml_signatures: bool = False
    drop_expired: bool = False
    connections: int = 1000
    connections_per_address: int = 100
    trusted_proxies: tuple[str, ...] = ()
    idle_s: int = 300
    request_s: int = 60
    answer_s: int = 60
    retry_ms: int = 20_000
    cleanup_ms: int = 300_000
    resend_table_s: tuple[int, ...] = RESEND_TABLE_S
    receipt_delay_ms: int = 500
    receipt_delay_max_ms: int = 10_000

    def settings(self, urls: tuple[str, str] = ("", "")) -> SrmpSettings:
        """The settings of the protocol; `urls` are those of the listeners, for HTTP and HTTPS."""
        proxy = Endpoint.parse(self.proxy) if self.proxy else None
        return SrmpSettings(
            aliases=(*self.aliases, *(endpoint_of(url).host for url in urls if url)),
            http_url=urls[0],
            https_url=urls[1],
            token_required=self.receipt_token == "required",  # noqa: S105
            drop_expired=self.drop_expired,
            xml_signatures=self.xml_signatures,
            trusted_proxies=self.trusted_proxies,
            proxy=None if proxy is None else (proxy.host, proxy.port),
            retry_ms=self.retry_ms,
            cleanup_ms=self.cleanup_ms,
            answer_timeout_ms=self.answer_s * 1000,
            resend_table_s=self.resend_table_s,
            receipt_delay_ms=self.receipt_delay_ms,
            receipt_delay_max_ms=self.receipt_delay_max_ms,
            idle_ms=self.idle_s * 1000,
            request_timeout_ms=self.request_s * 1000,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MulticastOptions:
    enabled: bool = False
    transport: str = "raw"
    interface: str = ""
    udp_port: int = 3055
    ttl: int = 16
    rate_bytes_s: int = 70_000
    window_s: int = 300
    window_bytes: int = 32 << 20
    packet_bytes: int = 1500
    multicast_naks: bool = True

    @property
    def settings(self) -> PgmSettings:
        """The settings of the protocol; the UDP header takes 8 bytes of each packet."""
        return PgmSettings(
            rate_bytes_s=self.rate_bytes_s,
            window_s=self.window_s,
            window_bytes=self.window_bytes,
            packet_bytes=self.packet_bytes - (8 if self.transport == "udp" else 0),
            multicast_naks=self.multicast_naks,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DataOptions:
    enabled: bool = False
    host: str = DEFAULT_HOST
    port: int = 8802
    tls_certificate: str = ""
    tls_key: str = ""
    tokens: str = ""
    processes: int = 1
    connections: int = 256
    connections_per_address: int = 128
    trusted_proxies: tuple[str, ...] = ()

    @property
    def scheme(self) -> str:
        return "https" if self.tls_certificate else "http"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiOptions:
    enabled: bool = False  # on TCP; the Unix socket beside the store always serves it
    host: str = DEFAULT_HOST
    port: int = 8801
    tls_certificate: str = ""
    tls_key: str = ""
    tokens: str = ""
    connections: int = 256
    connections_per_address: int = 128
    trusted_proxies: tuple[str, ...] = ()
    trusted_origins: tuple[str, ...] = ()
    audit: str = ""
    audit_messages: bool = False
    trash_s: int = 86_400
    trash_bytes: int = 256 << 20

    @property
    def scheme(self) -> str:
        return "https" if self.tls_certificate else "http"


@dataclass(frozen=True, slots=True, kw_only=True)
class LifeOptions:
    max_bytes: int = LIFE_MAX_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    level: str = "info"
    format: str = "text"
    file: str = "stderr"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    node: NodeOptions = field(default_factory=NodeOptions)
    listen: ListenOptions = field(default_factory=ListenOptions)
    tls: TlsOptions = field(default_factory=TlsOptions)
    limits: LimitOptions = field(default_factory=LimitOptions)
    binary: Settings = field(default_factory=Settings)
    hosts: Mapping[str, Endpoint] = field(default_factory=dict)  # by lower-case name
    machines: Mapping[UUID, tuple[str, ...]] = field(default_factory=dict)
    peers: tuple[Peer, ...] = ()
    routing: RoutingOptions = field(default_factory=RoutingOptions)
    access: AccessOptions = field(default_factory=AccessOptions)
    accounts: AccountOptions = field(default_factory=AccountOptions)
    security: SecurityOptions = field(default_factory=SecurityOptions)
    remote_read: RemoteReadOptions = field(default_factory=RemoteReadOptions)
    srmp: SrmpOptions = field(default_factory=SrmpOptions)
    multicast: MulticastOptions = field(default_factory=MulticastOptions)
    data: DataOptions = field(default_factory=DataOptions)
    api: ApiOptions = field(default_factory=ApiOptions)
    life: LifeOptions = field(default_factory=LifeOptions)
    log: LogOptions = field(default_factory=LogOptions)

    @property
    def settings(self) -> Settings:
        """The settings of the binary protocol: its own section, the machines, the peers and the routes."""
        return replace(
            self.binary,
            partial_packet_bytes=self.limits.partial_packet_bytes,
            machines=self.machines,
            peers=self.peers,
            only_peers=self.access.only_peers,
            out_routing_servers=self.routing.out_routing_servers,
            in_routing_servers=self.routing.in_routing_servers,
            routing_server=self.routing.routing_server,
        )

    def srmp_settings(self, urls: tuple[str, str] = ("", "")) -> SrmpSettings:
        """The settings of messages over HTTP: their own section, and the certificates of the peers."""
        signers = {peer.guid: peer.signers for peer in self.peers if peer.guid is not None and peer.signers}
        return replace(self.srmp.settings(urls), signers=signers)

    def with_listen(self, text: str) -> Self:
        """A copy that listens at HOST:PORT, HOST or :PORT, as given on a command line."""
        whole = f"{self.listen.host}{text}" if re.fullmatch(r":\d+", text) else text
        try:
            endpoint = Endpoint.parse(whole, self.listen.port)
        except ValueError as problem:
            raise ConfigError(f"--listen {text}: {problem}; use HOST:PORT") from problem
        return replace(self, listen=replace(self.listen, host=endpoint.host, port=endpoint.port))


# The options of [binary] that have sections of their own.
_ELSEWHERE: Final = frozenset(
    {
        "partial_packet_bytes",
        "machines",
        "peers",
        "only_peers",
        "out_routing_servers",
        "in_routing_servers",
        "routing_server",
    }
)

RANGES: Final[Mapping[str, tuple[int, int]]] = {
    "node.max_bytes": (MIN_MAX_BYTES, MAX_MAX_BYTES),
    "listen.port": (0, 65535),
    "listen.backlog": (1, 65535),
    "limits.connections": (1, 1_000_000),
    "limits.connections_per_address": (1, 1_000_000),
    "limits.handshake_s": (1, 3600),
    "limits.connect_s": (1, 3600),
    "limits.close_s": (0, 60),
    "limits.write_buffer_bytes": (4096, 1 << 30),
    "limits.batch_bytes": (65536, 1 << 30),
    "limits.partial_packet_bytes": (MAX_PACKET_SIZE, 1 << 40),
    "limits.idle_s": (0, 86400),
    "binary.port": (1, 65535),
    "binary.window_size": (1, WINDOW_SIZE_MAX),
    "binary.tiercel_window_size": (1, WINDOW_SIZE_MAX),
    "binary.ack_timeout_ms": (ACK_TIMEOUT_MIN_MS, ACK_TIMEOUT_MAX_MS),
    "binary.round_trip_delay_ms": (0, _HOUR_MS),
    "binary.retry_ms": (1, _HOUR_MS),
    "binary.retry_max_ms": (1, _DAY_MS),
    "binary.cleanup_ms": (1, _DAY_MS),
    "binary.max_in_sessions": (1, 1_000_000),
    "binary.ping_port": (1, 65535),
    "binary.resend_table_s": (1, 30 * 86400),
    "binary.order_ack_delay_ms": (0, _HOUR_MS),
    "binary.order_ack_delay_max_s": (0, 3600),
    "binary.history_size": (1, 10_000_000),
    "binary.history_lifetime_ms": (0, 30 * _DAY_MS),
    "remote_read.port": (0, 65535),
    "remote_read.connections": (1, 1_000_000),
    "remote_read.connections_per_address": (1, 1_000_000),
    "remote_read.logon_s": (1, 3600),
    "remote_read.cleanup_s": (1, 86400),
    "remote_read.endpoint_mapper_port": (1, 65535),
    "srmp.port": (0, 65535),
    "srmp.https_port": (0, 65535),
    "srmp.connections": (1, 1_000_000),
    "srmp.connections_per_address": (1, 1_000_000),
    "srmp.idle_s": (1, 86400),
    "srmp.request_s": (1, 3600),
    "srmp.answer_s": (1, 3600),
    "srmp.retry_ms": (1, _HOUR_MS),
    "srmp.cleanup_ms": (1, _DAY_MS),
    "srmp.resend_table_s": (1, 30 * 86400),
    "srmp.receipt_delay_ms": (0, _HOUR_MS),
    "srmp.receipt_delay_max_ms": (0, _HOUR_MS),
    "multicast.udp_port": (1, 65535),
    "multicast.ttl": (1, 255),
    "multicast.rate_bytes_s": (1_000, 10_000_000_000),
    "multicast.window_s": (1, 86400),
    "multicast.window_bytes": (1 << 20, 1 << 40),
    "multicast.packet_bytes": (576, 65_000),
    "data.port": (0, 65535),
    "data.processes": (1, 64),
    "data.connections": (1, 100_000),
    "data.connections_per_address": (1, 100_000),
    "api.port": (0, 65535),
    "api.connections": (1, 100_000),
    "api.connections_per_address": (1, 100_000),
    "api.trash_s": (0, 365 * 86_400),
    "api.trash_bytes": (0, 1 << 46),
    "life.max_bytes": (0, 1 << 40),
}
_LEVELS: Final = ("none", "connect", "packet", "integrity", "privacy")
CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "remote_read.least_level": _LEVELS,
    "remote_read.least_level_local": _LEVELS,
    "srmp.receipt_token": ("required", "optional"),
    "multicast.transport": ("raw", "udp"),
    "security.unknown_certificates": tuple(_UNKNOWN_CERTIFICATES),
    "log.level": ("debug", "info", "warning", "error"),
    "log.format": ("text", "json"),
}


def load(path: Path) -> Config:
    """Read a configuration file. Every error is a `ConfigError`."""
    try:
        text = path.read_text("utf-8")
    except OSError as problem:
        raise ConfigError(f"{path}: cannot be read ({problem.strerror})") from problem
    except UnicodeDecodeError as problem:
        raise ConfigError(f"{path}: not UTF-8 text ({problem.reason})") from problem
    try:
        return parse(text)
    except ConfigError as problem:
        raise ConfigError(f"{path}: {problem}") from problem


def parse(text: str) -> Config:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise ConfigError(f"not valid TOML: {problem}") from problem
    sections: dict[str, Any] = {}
    for name, table in document.items():
        reader = _SECTIONS.get(name)
        if reader is None:
            if not isinstance(table, dict | list):
                raise ConfigError(f"{name}: options stand in a section; valid are {_listed(_SECTIONS)}")
            raise ConfigError(f"[{name}]: unknown section; valid are {_listed(_SECTIONS)}")
        kind, header = (list, f"[[{name}]]") if name in _LISTS else (dict, f"[{name}]")
        if not isinstance(table, kind):
            raise ConfigError(f"{name}: must be a section, written {header}")
        sections[name] = reader(table)
    config = Config(**sections)
    _check_together(config)
    return config


def _check_together(config: Config) -> None:
    _check_face("data", config.data)
    _check_face("api", config.api)
    _check_srmp(config.srmp)
    _check_multicast(config.multicast)
    _check_tls(config)
    if config.binary.retry_max_ms < config.binary.retry_ms:
        raise _wrong("binary", "retry_max_ms", config.binary.retry_max_ms, "must be at least retry_ms")


def _check_multicast(multicast: MulticastOptions) -> None:
    if multicast.interface:
        try:
            ipaddress.IPv4Address(multicast.interface)
        except ValueError as problem:
            why = "must be the IPv4 address of an interface of this computer"
            raise _wrong("multicast", "interface", multicast.interface, why) from problem


def _check_face(section: str, face: DataOptions | ApiOptions) -> None:
    if bool(face.tls_certificate) != bool(face.tls_key):
        raise ConfigError(f"[{section}] tls_certificate, tls_key: set both, or neither")
    if face.enabled and not face.tokens and not is_loopback(face.host):
        raise _wrong(section, "host", face.host, "without tokens it must be a loopback address")


def _check_srmp(srmp: SrmpOptions) -> None:
    if bool(srmp.tls_certificate) != bool(srmp.tls_key):
        raise ConfigError("[srmp] tls_certificate, tls_key: set both, or neither")
    if srmp.tls_client_ca and not srmp.tls_certificate:
        raise _wrong("srmp", "tls_client_ca", srmp.tls_client_ca, "needs tls_certificate and tls_key")
    for name, scheme in (("http_url", "http://"), ("https_url", "https://")):
        url = getattr(srmp, name)
        if url and not _is_url_of_a_host(url, scheme):
            raise _wrong("srmp", name, url, f"must be {scheme}HOST or {scheme}HOST:PORT, without a path")
    if srmp.proxy:
        endpoint = _check_endpoint("srmp", "proxy", srmp.proxy)
        if not endpoint.port:
            raise _wrong("srmp", "proxy", srmp.proxy, "the port is missing; write HOST:PORT")


def _check_tls(config: Config) -> None:
    files = (config.tls.tls_certificate, config.tls.tls_key, config.tls.tls_ca)
    if any(files) and not all(files):
        raise ConfigError("[tls] tls_certificate, tls_key, tls_ca: set all, or none")
    if config.tls.listen:
        _check_endpoint("tls", "listen", config.tls.listen)
        if not all(files):
            raise _wrong("tls", "listen", config.tls.listen, "needs tls_certificate, tls_key and tls_ca")
    for peer in config.peers:
        if peer.tls is not None and not all(files):
            problem = "needs tls_certificate, tls_key and tls_ca in [tls]"
            raise ConfigError(f"[[peers]] {peer.name}: tls {problem}")


def _is_url_of_a_host(url: str, scheme: str) -> bool:
    try:
        endpoint_of(url)
    except ValueError:
        return False
    return url.startswith(scheme) and not set("/?#") & set(url.removeprefix(scheme).removesuffix("/"))


def _check_endpoint(section: str, name: str, text: str) -> Endpoint:
    try:
        endpoint = Endpoint.parse(text, _NO_PORT)
    except ValueError as problem:
        raise _wrong(section, name, text, f"{problem}; write HOST:PORT") from problem
    if endpoint.port == _NO_PORT:
        raise _wrong(section, name, text, "the port is missing; write HOST:PORT")
    return endpoint


def is_loopback(host: str) -> bool:
    """Whether only this computer can reach the host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _options(section: str, kind: type[Any]) -> Callable[[dict[str, Any]], Any]:
    names = [each.name for each in fields(kind) if kind is not Settings or each.name not in _ELSEWHERE]
    hints = get_type_hints(kind)

    def read(table: dict[str, Any]) -> Any:
        values = {}
        for name, value in table.items():
            if name not in names:
                raise ConfigError(f"[{section}] {name}: unknown option; valid are {_listed(names)}")
            values[name] = _checked(section, name, value, hints[name])
        return kind(**values)

    return read


def _checked(section: str, name: str, value: Any, hint: Any) -> Any:
    if isinstance(hint, types.UnionType):  # omitting the option means None
        hint = next(each for each in get_args(hint) if each is not type(None))
    if get_origin(hint) is tuple:
        if not isinstance(value, list):
            raise _wrong(section, name, value, "must be a list")
        if not value and f"{section}.{name}" in RANGES:
            raise _wrong(section, name, value, "must have at least one number")
        return tuple(_checked(section, name, each, get_args(hint)[0]) for each in value)
    if type(value) is not hint:
        raise _wrong(section, name, value, f"must be {_WANTED[hint]}")
    _check_value(section, name, value)
    return value


_WANTED: Final = {int: "a whole number", bool: "true or false", str: "text in quotes"}


def _check_value(section: str, name: str, value: Any) -> None:
    key = f"{section}.{name}"
    if key in RANGES:
        lowest, highest = RANGES[key]
        if not lowest <= value <= highest:
            raise _wrong(section, name, value, f"must be {lowest} to {highest}")
    elif key in CHOICES and value not in CHOICES[key]:
        raise _wrong(section, name, value, f"must be {' or '.join(CHOICES[key])}")
    elif key in _HOSTS or (key == "routing.in_routing_servers" and not _is_network(value)):
        _check_host(section, name, value)
    elif key in _NETWORKS:
        _check_network(section, name, value)
    elif key == "api.trusted_origins":
        _check_origin(section, name, value)
    elif key == "node.computer_name":
        try:
            PathName(value, PathKind.PUBLIC, "q")
        except MqError as problem:
            raise _wrong(section, name, value, str(problem.problem)) from problem
    elif key in _PATHS and (not value or "\0" in value):
        raise _wrong(section, name, value, "must be the name of a file or directory")


_HOSTS: Final = frozenset(
    {
        "listen.host",
        "remote_read.host",
        "srmp.host",
        "srmp.aliases",
        "data.host",
        "api.host",
        "node.names",
        "routing.out_routing_servers",
    }
)
_NETWORKS: Final = frozenset({"api.trusted_proxies", "data.trusted_proxies", "srmp.trusted_proxies"})
_PATHS: Final = frozenset(
    {
        "node.data",
        "log.file",
        "accounts.file",
        "accounts.keytab",
        "security.trust",
        "tls.tls_certificate",
        "tls.tls_key",
        "tls.tls_ca",
        "srmp.tls_certificate",
        "srmp.tls_key",
        "srmp.tls_client_ca",
        "srmp.ca",
        "data.tls_certificate",
        "data.tls_key",
        "data.tokens",
        "api.tls_certificate",
        "api.tls_key",
        "api.tokens",
        "api.audit",
    }
)


def _check_host(section: str, name: str, value: str) -> None:
    if not _is_address(value) and not _HOST_NAME.fullmatch(value):
        raise _wrong(section, name, value, "must be a name or an address")


def _check_origin(section: str, name: str, value: str) -> None:
    if not any(_is_url_of_a_host(value, scheme) for scheme in ("http://", "https://")):
        raise _wrong(section, name, value, "must be https://HOST or https://HOST:PORT, without a path")


def _check_network(section: str, name: str, value: str) -> None:
    try:
        ipaddress.ip_network(value, strict=False)
    except ValueError as problem:
        raise _wrong(section, name, value, "must be an address or a network, as 192.0.2.0/24") from problem


def _hosts(table: dict[str, Any]) -> dict[str, Endpoint]:
    found = {}
    for name, value in table.items():
        if not isinstance(value, str):
            raise _wrong("hosts", name, value, "must be an address, or address:port, in quotes")
        try:
            endpoint = Endpoint.parse(value)
        except ValueError as problem:
            raise _wrong("hosts", name, value, str(problem)) from problem
        found[name.casefold()] = endpoint
    return found


def _machines(table: dict[str, Any]) -> dict[UUID, tuple[str, ...]]:
    found = {}
    for name, value in table.items():
        try:
            machine = UUID(name)
        except ValueError as problem:
            raise _wrong(
                "machines", name, value, "the option must be the GUID of a queue manager"
            ) from problem
        hosts = [value] if isinstance(value, str) else value
        if not isinstance(hosts, list) or not hosts or not all(isinstance(host, str) for host in hosts):
            raise _wrong("machines", name, value, "must be a name or a list of names")
        for host in hosts:
            _check_host("machines", name, host)
        found[machine] = tuple(hosts)
    return found


def _peers(tables: list[Any]) -> tuple[Peer, ...]:
    peers = []
    for table in tables:
        if not isinstance(table, dict):
            raise ConfigError("peers: must be a section, written [[peers]]")
        values = {name: _peer_option(name, value) for name, value in table.items()}
        _check_peer(values)
        peers.append(Peer(**values))
    for name in ("name", "guid"):
        used = [getattr(peer, name) for peer in peers if getattr(peer, name)]
        twice = [str(value) for value in used if used.count(value) > 1]
        if twice:
            raise _wrong("[peers]", name, twice[0], "is used twice")
    return tuple(peers)


def _check_peer(values: dict[str, Any]) -> None:
    if not values.get("name"):
        raise ConfigError("[[peers]] name: required")
    if "guid" not in values and not values.get("addresses"):
        raise ConfigError(f"[[peers]] {values['name']}: set guid, addresses, or both")
    if values.get("signers") and "guid" not in values:
        raise ConfigError(f"[[peers]] {values['name']}: signers needs guid")
    if "tls" in values and "guid" not in values:
        raise ConfigError(f"[[peers]] {values['name']}: tls needs guid, which the certificate proves")
    if "fingerprint" in values and "tls" not in values:
        raise ConfigError(f"[[peers]] {values['name']}: fingerprint needs tls")
    if values.get("token_file") and not values.get("url"):
        raise ConfigError(f"[[peers]] {values['name']}: token_file needs url")


def _peer_option(name: str, value: Any) -> Any:
    hints = get_type_hints(Peer)
    if name not in hints:
        raise ConfigError(f"[[peers]] {name}: unknown option; valid are {_listed(hints)}")
    if name == "tls":
        endpoint = _check_endpoint("[peers]", name, _checked("[peers]", name, value, str))
        return endpoint.host, endpoint.port
    if name == "fingerprint":
        return _fingerprint(_checked("[peers]", name, value, str))
    if name == "url":
        return _checked_url(_checked("[peers]", name, value, str))
    if name != "guid":
        checked = _checked("[peers]", name, value, hints[name])
        for address in checked if name == "addresses" else ():
            if not _is_network(address):
                _check_host("[peers]", name, address)
        return checked
    try:
        return UUID(_checked("[peers]", name, value, str))
    except ValueError as problem:
        raise _wrong("[peers]", name, value, "must be the GUID of a queue manager") from problem


def _checked_url(text: str) -> str:
    try:
        parts = urlsplit(text)
        has_more = parts.path.strip("/") or parts.query
        is_right = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0 and not has_more
    except ValueError:
        is_right = False
    if not is_right:
        raise _wrong("[peers]", "url", text, "must be http://host:port or https://host:port")
    return text.rstrip("/")


def _fingerprint(text: str) -> str:
    """In the form that OpenSSL prints."""
    try:
        digest = bytes.fromhex(text.replace(":", ""))
    except ValueError:
        digest = b""
    if len(digest) != hashlib.sha256().digest_size:
        raise _wrong("[peers]", "fingerprint", text, "must be the SHA-256 of a certificate, in hexadecimal")
    return digest.hex(":").upper()


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return True


def _wrong(section: str, name: str, value: object, problem: str) -> ConfigError:
    shown = repr(value)
    return ConfigError(f"[{section}] {name} = {shown[:60]}: {problem}")


def _listed(names: Any) -> str:
    return ", ".join(sorted(names))


_LISTS: Final = frozenset({"peers"})
_SECTIONS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "node": _options("node", NodeOptions),
    "listen": _options("listen", ListenOptions),
    "tls": _options("tls", TlsOptions),
    "limits": _options("limits", LimitOptions),
    "binary": _options("binary", Settings),
    "hosts": _hosts,
    "machines": _machines,
    "peers": _peers,
    "routing": _options("routing", RoutingOptions),
    "access": _options("access", AccessOptions),
    "accounts": _options("accounts", AccountOptions),
    "security": _options("security", SecurityOptions),
    "remote_read": _options("remote_read", RemoteReadOptions),
    "srmp": _options("srmp", SrmpOptions),
    "multicast": _options("multicast", MulticastOptions),
    "data": _options("data", DataOptions),
    "api": _options("api", ApiOptions),
    "life": _options("life", LifeOptions),
    "log": _options("log", LogOptions),
}
