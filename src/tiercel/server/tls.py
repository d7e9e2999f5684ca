"""TLS: contexts from the configuration, and handshakes that count against the limits of connections."""

import asyncio
import os
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Generic, NamedTuple, Protocol, TypeVar, cast
from uuid import UUID

from tiercel.binary.certificate import Certificate
from tiercel.message_security.certificates import fingerprint
from tiercel.server import log, private_file
from tiercel.server.config import ConfigError, SrmpOptions, TlsOptions


class CertificateOptions(Protocol):
    """A section of the configuration with a certificate."""

    @property
    def tls_certificate(self) -> str: ...

    @property
    def tls_key(self) -> str: ...


T = TypeVar("T")


class Renewable(Generic[T]):
    """TLS contexts that can be read from their files again; open connections keep what they began with."""

    def __init__(self, section: str, make: Callable[[], T]) -> None:
        """Raises `ConfigError`."""
        self._section = section
        self._make = make
        self.current = make()

    def renew(self) -> bool:
        """Read the files again; False if they cannot be used: then everything stays as it is."""
        try:
            self.current = self._make()
        except ConfigError as problem:
            log.error("reload_failed", reason=problem, kept="the certificates as they were")
            return False
        log.info("certificates_reloaded", section=self._section)
        return True


RenewableContext = Renewable[ssl.SSLContext]


class Contexts(NamedTuple):
    """Those of a network that listens and dials."""

    server: ssl.SSLContext | None
    client: ssl.SSLContext


def server_context(section: str, options: CertificateOptions, client_ca: str = "") -> ssl.SSLContext:
    """For a listener; clients need a certificate if `client_ca` is set. Raises `ConfigError`."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    load_certificate(context, section, options)
    if client_ca:
        load_authorities(context, section, "tls_client_ca", client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def srmp_contexts(options: SrmpOptions) -> Contexts:
    """Raises `ConfigError`."""
    server = server_context("srmp", options, options.tls_client_ca) if options.tls_certificate else None
    return Contexts(server, _srmp_client_context(options))


def _srmp_client_context(options: SrmpOptions) -> ssl.SSLContext:
    """For dialling: the system's authorities, or those in `ca`; our certificate if it is asked for."""
    context = ssl.create_default_context()
    if options.ca:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # no other authorities
        load_authorities(context, "srmp", "ca", options.ca)
    if options.tls_certificate:
        load_certificate(context, "srmp", options)
    return context


def queue_manager_contexts(options: TlsOptions) -> Contexts:
    """TLS 1.3 between queue managers, with a certificate of one of the authorities on both sides.

    Host names do not count: the protocol compares the certificate with the GUID of the queue manager.
    """
    try:
        private_file.check(Path(options.tls_key), ConfigError)
    except ConfigError as problem:
        raise ConfigError(f"[tls] tls_key: {problem}") from problem
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    server.num_tickets = 0  # a resumed session would not show its certificate again
    for context in (server, client):
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # tls_ca may hold the peer's own certificate
        load_certificate(context, "tls", options)
        load_authorities(context, "tls", "tls_ca", options.tls_ca)
    return Contexts(server, client)


def certificate_of(connection: ssl.SSLObject) -> Certificate:
    """The verified certificate of the peer."""
    data = connection.getpeercert(binary_form=True)
    names = cast("tuple[tuple[str, str], ...]", (connection.getpeercert() or {}).get("subjectAltName", ()))
    guids = (_guid(value) for kind, value in names if kind == "URI")
    return Certificate(fingerprint(data or b""), frozenset(guid for guid in guids if guid is not None))


def _guid(uri: str) -> UUID | None:
    prefix, _, text = uri.rpartition(":")
    try:
        return UUID(text) if prefix.casefold() == "urn:uuid" else None
    except ValueError:
        return None


def load_certificate(context: ssl.SSLContext, section: str, options: CertificateOptions) -> None:
    """Raises `ConfigError`."""
    try:
        private_file.check_for_group(Path(options.tls_key), ConfigError)
    except ConfigError as problem:
        raise ConfigError(f"[{section}] tls_key: {problem}") from problem
    try:  # the empty password keeps OpenSSL from asking for one at the terminal
        context.load_cert_chain(options.tls_certificate, options.tls_key, password="")
    except OSError as problem:
        reason = problem.strerror or str(problem)
        files = f"{options.tls_certificate}, {options.tls_key}"
        line = f"[{section}] tls_certificate, tls_key: {files}: cannot be used ({reason})"
        raise ConfigError(line) from problem


def load_authorities(context: ssl.SSLContext, section: str, name: str, file: str) -> None:
    """Raises `ConfigError`."""
    try:
        context.load_verify_locations(file)
    except OSError as problem:
        reason = problem.strerror or str(problem)
        line = (
            f"[{section}] {name} = {file!r}: cannot be used ({reason}); it must be a PEM file of certificates"
        )
        raise ConfigError(line) from problem


class TlsGuest(Protocol):
    """A protocol of asyncio that is asked before the handshake, and made after it."""

    def is_admitted(self, transport: asyncio.Transport) -> bool:
        """Whether there is room for the connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        """After the handshake; data may have come before."""

    def connection_lost(self, exc: Exception | None) -> None: ...

    def handshake_failed(self, reason: str) -> None:
        """The peer does not speak TLS, or not soon enough; `connection_lost` follows."""


class TlsHandshake(asyncio.Protocol):
    """Accepts a connection before its handshake: asyncio alone would keep any number of half ones."""

    def __init__(self, guest: TlsGuest, context: ssl.SSLContext, seconds: float) -> None:
        self._guest = guest
        self._context = context
        self._seconds = seconds
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.pause_reading()  # until the handshake begins
        if self._guest.is_admitted(self._transport):
            self._task = asyncio.get_running_loop().create_task(self._shake_hands())
        else:
            self._transport.abort()

    def abort_if_pending(self) -> None:
        """End the connection if the handshake is still under way."""
        if self._task is not None and not self._task.done():
            self._transport.abort()

    async def _shake_hands(self) -> None:
        loop = asyncio.get_running_loop()
        guest = cast("asyncio.Protocol", self._guest)
        try:
            encrypted = await loop.start_tls(
                self._transport, guest, self._context, server_side=True, ssl_handshake_timeout=self._seconds
            )
        except OSError as problem:  # also for what is not TLS, and for a time-out
            self._guest.handshake_failed(f"no TLS handshake: {sentence(problem)}")
            self._transport.abort()
            encrypted = None
        if encrypted is None:
            self._guest.connection_lost(None)
        else:
            self._guest.connection_made(encrypted)


def sentence(problem: OSError | ValueError) -> str:
    """For a log: the peer chooses the details."""
    if isinstance(problem, ssl.SSLCertVerificationError):
        return problem.verify_message
    if isinstance(problem, ssl.SSLError):
        return f"{type(problem).__name__} {problem.reason}" if problem.reason else str(problem.strerror)
    number = getattr(problem, "errno", None)
    return os.strerror(number).lower() if number else type(problem).__name__
