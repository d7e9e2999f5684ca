"""Encrypted messages for tests: queue managers that have the keys of the vectors."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from tiercel.message_security.body_encryption import BodySealer, EncryptionPolicy
from tiercel.message_security.encryption import Encryption
from tiercel.message_security.exchange_keys import ExchangeKey, KeyRing
from tiercel.message_security.providers import ADVANCED, BASE, ENHANCED, PROVIDERS, Provider
from tiercel.message_security.trust import Trust, TrustedQueueManager
from tiercel.wire.user_message import UserMessage

from . import vectors

MADE = datetime(2026, 1, 1, tzinfo=UTC)
LEGACY = EncryptionPolicy(legacy=True)
_NAMES = {
    BASE: "capi/key_base_keyx_512",
    ENHANCED: "capi/key_enh_keyx_1024",
    ADVANCED: "capi/key_aes_keyx_1024",
}


def ring(*providers: Provider) -> KeyRing:
    """The keys of those providers, or of all."""
    return KeyRing(
        ExchangeKey(provider, vectors.private_key(_NAMES[provider]), MADE)
        for provider in providers or PROVIDERS
    )


def known(guid: UUID, *hosts: str, keys: KeyRing | None = None) -> Trust:
    """A trust store with the keys of one queue manager."""
    return Trust((TrustedQueueManager("there", guid, hosts, (keys or ring()).published().keys),))


def encryption(keys: KeyRing | None = None, trust: Trust | None = None, **options: Any) -> Encryption:
    store = trust or Trust()
    options.setdefault("policy", LEGACY)
    return Encryption(keys=keys or KeyRing(), trust=lambda: store, **options)


def sealed(packet: UserMessage, *providers: Provider) -> UserMessage:
    """The packet encrypted for a queue manager with the keys of those providers."""
    sealer = BodySealer(LEGACY, lambda size: b"k" * size)
    return sealer.seal(packet, "there", ring(*providers).published().keys, 0.0)
