"""TLS: contexts from the configuration, and handshakes that count against the limits of connections."""

import asyncio
import ssl
from typing import Protocol, cast

from tiercel.server.config import ConfigError, SrmpOptions


def server_context(options: SrmpOptions) -> ssl.SSLContext:
    """For a listener; clients need a certificate if `tls_client_ca` is set. Raises `ConfigError`."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    _load_certificate(context, options)
    if options.tls_client_ca:
        _load_authorities(context, "tls_client_ca", options.tls_client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(options: SrmpOptions) -> ssl.SSLContext:
    """For dialling: the system's authorities, or those in `ca`; our certificate if it is asked for."""
    context = ssl.create_default_context()
    if options.ca:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # no other authorities
        _load_authorities(context, "ca", options.ca)
    if options.tls_certificate:
        _load_certificate(context, options)
    return context


def _load_certificate(context: ssl.SSLContext, options: SrmpOptions) -> None:
    try:
        context.load_cert_chain(options.tls_certificate, options.tls_key)
    except OSError as problem:
        reason = problem.strerror or str(problem)
        files = f"{options.tls_certificate}, {options.tls_key}"
        raise ConfigError(f"[srmp] tls_certificate, tls_key: {files}: cannot be used ({reason})") from problem


def _load_authorities(context: ssl.SSLContext, name: str, file: str) -> None:
    try:
        context.load_verify_locations(file)
    except OSError as problem:
        reason = problem.strerror or str(problem)
        line = f"[srmp] {name} = {file!r}: cannot be used ({reason}); it must be a PEM file of certificates"
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
            self._guest.handshake_failed(f"no TLS handshake: {_sentence(problem)}")
            self._transport.abort()
            encrypted = None
        if encrypted is None:
            self._guest.connection_lost(None)
        else:
            self._guest.connection_made(encrypted)


def _sentence(problem: OSError) -> str:
    """For a log: the peer chooses the details."""
    reason = getattr(problem, "reason", None)
    return f"{type(problem).__name__} {reason}" if reason else type(problem).__name__
