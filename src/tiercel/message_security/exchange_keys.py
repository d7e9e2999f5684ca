"""The RSA keys that others encrypt session keys with for this queue manager: [MS-MQQB] 1.5, 3.1.7.1.5.

The text has a line `# provider made [retired]` before the PEM of each private key:

    # advanced 2026-01-31T12:00:00Z
    -----BEGIN PRIVATE KEY-----

A retired key is not published, but still opens messages that were encrypted with it. The keys have 2048 bits
for AES and 1024 for RC2 and RC4, which is what old systems accept. `cryptography` makes no keys of 512 bits,
so one for the Base provider can only be added to the file by hand.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final, Self

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from tiercel.message_security import rsa_keys
from tiercel.message_security.certificates import fingerprint
from tiercel.message_security.providers import ADVANCED, ENHANCED, PROVIDERS, Provider
from tiercel.model.errors import CorruptedSecurityDataError, TiercelError
from tiercel.wire.public_keys import MQDSPublicKey, MQDSPublicKeys

_BITS: Final = {ADVANCED: 2048, ENHANCED: 1024}
_KEPT_FOR: Final = timedelta(days=30)  # longer than a message is on its way
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
_ENTRY: Final = re.compile(
    r"^# (\S+) (\S+)(?: (\S+))?\n(-----BEGIN [^\n]*\n.*?\n-----END [^\n]*)\n", re.MULTILINE | re.DOTALL
)
_BY_NAME: Final = {provider.level.name.lower(): provider for provider in PROVIDERS}


class ExchangeKeyError(TiercelError):
    """The keys cannot be used; the text is one line for the administrator."""


@dataclass(frozen=True, slots=True)
class ExchangeKey:
    provider: Provider
    key: RSAPrivateKey = field(repr=False)
    made: datetime
    retired: datetime | None = None

    @property
    def blob(self) -> bytes:
        """The public half as a PUBLICKEYBLOB."""
        return rsa_keys.public_blob(self.key.public_key()).encode()

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.blob)

    def text(self) -> str:
        pem = self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        times = " ".join(time.strftime(_TIME) for time in (self.made, self.retired) if time is not None)
        return f"# {self.provider.level.name.lower()} {times}\n{pem}"


class KeyRing:
    """The keys of a text. Changes make a copy."""

    def __init__(self, keys: Iterable[ExchangeKey] = ()) -> None:
        self.keys = tuple(keys)

    @classmethod
    def parse(cls, text: str) -> Self:
        entries = list(_ENTRY.finditer(text))
        if _ENTRY.sub("", text).strip():
            raise ExchangeKeyError("expected private keys in PEM, each after a line `# provider time`")
        return cls(map(_key, entries))

    def text(self) -> str:
        return "".join(each.text() for each in self.keys)

    @property
    def current(self) -> list[ExchangeKey]:
        return [each for each in self.keys if each.retired is None]

    def published(self) -> MQDSPublicKeys:
        """PublicEncryptionKeyList of this queue manager: [MS-MQDMPR] 3.1.1.1, [MS-MQMQ] 2.2.2."""
        return MQDSPublicKeys.of(
            tuple(
                MQDSPublicKey.of(each.provider.type, each.provider.name, each.blob) for each in self.current
            )
        )

    @property
    def fingerprint(self) -> str:
        """Of the published keys, as the trust store shows it."""
        return fingerprint(b"".join(each.blob for each in self.current))

    def exchange_keys(self, provider: Provider) -> Sequence[RSAPrivateKey]:
        """The current key first."""
        keys = [each for each in self.keys if each.provider is provider]
        return [each.key for each in sorted(keys, key=lambda each: each.retired is not None)]

    def with_missing(self, now: datetime, *, legacy: bool) -> "KeyRing":
        """With a new key for each provider that is allowed and has none; takes some tenths of a second."""
        missing = self.missing(legacy=legacy)
        return KeyRing((*(_new(provider, now) for provider in missing), *self.keys)) if missing else self

    def missing(self, *, legacy: bool) -> list[Provider]:
        have = {each.provider for each in self.current}
        return [each for each in _BITS if each not in have and (legacy or not each.is_legacy)]

    def rotated(self, now: datetime, *, keep_old: bool = True) -> "KeyRing":
        """With a new key for each current one.

        Old ones stay for 30 days, so that what is on its way can be opened; a key for the Base provider stays
        as it is, because none can be made.
        """
        kept: list[ExchangeKey] = []
        for each in self.keys:
            if each.retired is None and each.provider in _BITS:
                kept.append(replace(each, retired=now))
            elif each.retired is None or now - each.retired < _KEPT_FOR:
                kept.append(each)
        made = [_new(each.provider, now) for each in self.current if each.provider in _BITS]
        return KeyRing((*made, *(each for each in kept if keep_old or each.retired is None)))


def _new(provider: Provider, now: datetime) -> ExchangeKey:
    return ExchangeKey(provider, rsa_keys.generate(_BITS[provider]), now.astimezone(UTC))


def _key(entry: re.Match[str]) -> ExchangeKey:
    name, made, retired, pem = entry.groups()
    provider = _BY_NAME.get(name)
    if provider is None:
        raise ExchangeKeyError(f"{name[:40]!a} is not a provider: use {', '.join(_BY_NAME)}")
    try:
        key = load_pem_private_key(pem.encode(), None)
        times = [datetime.strptime(time, _TIME).replace(tzinfo=UTC) for time in (made, retired) if time]
    except (ValueError, TypeError, UnsupportedAlgorithm) as problem:
        raise ExchangeKeyError(f"a key for {name} cannot be read ({problem})") from None
    if not isinstance(key, RSAPrivateKey):
        raise ExchangeKeyError(f"a key for {name} is not an RSA key")
    try:
        rsa_keys.check_public_key(key.public_key())
    except CorruptedSecurityDataError as problem:
        raise ExchangeKeyError(f"a key for {name}: {problem}") from None
    return ExchangeKey(provider, key, *times)
