"""Encrypted bodies of whole packets: [MS-MQQB] 3.1.5.8.3 (decrypt) and 3.1.7.1.5 (encrypt).

Only the body is encrypted. Its session key travels with it as a SIMPLEBLOB, encrypted with an RSA key of the
receiving queue manager. A key that was encrypted for another one comes out as noise without an error, so
everything that can be checked is checked before a body is believed: the length of the key, the padding, and
the length of the body. A message that fails is refused, never delivered.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Protocol

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from tiercel.message_security.aging_cache import KEY_LIFETIME_S, RECEIVED_KEYS, SEND_KEYS, AgingCache
from tiercel.message_security.ciphers import AES_ALGORITHMS, KEY_BYTES, SessionKey
from tiercel.message_security.providers import PROVIDERS, Provider, provider_named, provider_of_level
from tiercel.message_security.refusal import MessageRefusedError, bad_encryption, unsupported_provider
from tiercel.message_security.rsa_keys import public_key_of, unwrap_key, wrap_key
from tiercel.model.codes import EncryptionAlgorithm, PrivacyLevel
from tiercel.model.errors import (
    CorruptedSecurityDataError,
    DecodeError,
    EncryptionProviderNotSupportedError,
    PublicKeyDoesNotExistError,
    SecurityError,
)
from tiercel.model.limits import MAX_PACKET_SIZE
from tiercel.wire.key_blobs import PublicKeyBlob, SimpleBlob
from tiercel.wire.public_keys import MQDSPublicKey
from tiercel.wire.security_header import ENCRYPTED_BODY
from tiercel.wire.user_message import UserMessage

_WEAK_TAIL = bytes(11)


@dataclass(frozen=True, slots=True)
class EncryptionPolicy:
    """What may be used; the names of the last two are the specification's ([MS-MQQB] 3.1.3.1)."""

    legacy: bool = False  # the Base and Enhanced providers: RC2 and RC4
    advanced_algorithm: EncryptionAlgorithm = EncryptionAlgorithm.AES256
    enhanced_algorithm: EncryptionAlgorithm = EncryptionAlgorithm.RC4
    base_algorithm: EncryptionAlgorithm = EncryptionAlgorithm.RC4
    send_enhanced_rc2_using_40_bit_keys: bool = False
    reject_enhanced_rc2_using_40_bit_keys: bool = False


class ExchangeKeys(Protocol):
    """The RSA keys that others encrypt session keys with."""

    def exchange_keys(self, provider: Provider) -> Sequence[RSAPrivateKey]:
        """The keys of a provider, the current one first, then old ones that messages under way may need."""


class _Sealed(NamedTuple):
    """What a packet says about its encryption, checked as far as that needs no key."""

    provider: Provider
    algorithm: int
    encrypted_key: bytes


_CacheKey = tuple[tuple[int, int], bytes, bytes]


class BodyOpener:
    """Decrypts bodies; remembers session keys, because RSA takes a thousand times as long as the rest."""

    def __init__(self, keys: ExchangeKeys, policy: EncryptionPolicy) -> None:
        self.cache: AgingCache[_CacheKey, tuple[SessionKey, ...]] = AgingCache(RECEIVED_KEYS, KEY_LIFETIME_S)
        self._keys = keys
        self._policy = policy

    def needs_private_key(self, packet: UserMessage, now: float) -> bool:
        """Whether `open` would take an RSA operation: about a millisecond, so not on an event loop."""
        if not packet.security_flags & ENCRYPTED_BODY:
            return False
        try:
            return self.cache.get(_cache_key(packet), now) is None and bool(self._sealed(packet))
        except MessageRefusedError:
            return False

    def open(self, packet: UserMessage, now: float) -> UserMessage:
        """The packet with its clear body ([MS-MQQB] 3.1.5.8.3); MessageRefusedError if that fails."""
        self.cache.expire(now)
        candidates = self.cache.get(_cache_key(packet), now)
        if candidates is None:
            candidates = self.unwrap(packet)
            self.remember(packet, candidates, now)
        if not candidates:
            raise bad_encryption("its key was not encrypted for this queue manager")
        try:
            return packet.decrypted(self._body(packet, candidates))
        except DecodeError as problem:  # must not leave here: it would end the engine
            raise bad_encryption(f"its clear packet cannot be read: {problem}") from None

    def unwrap(self, packet: UserMessage) -> tuple[SessionKey, ...]:
        """The slow part of `open`, for another thread: changes nothing. `remember` takes the result."""
        return self._unwrap(self._sealed(packet))

    def remember(self, packet: UserMessage, keys: tuple[SessionKey, ...], now: float) -> None:
        self.cache.put(_cache_key(packet), keys, now)

    def _sealed(self, packet: UserMessage) -> _Sealed:
        level, algorithm = packet.encryption
        provider = provider_of_level(level)
        if provider is None:
            raise bad_encryption(f"its privacy level is {level}")
        if algorithm not in KEY_BYTES or (
            provider.level == PrivacyLevel.ADVANCED and algorithm not in AES_ALGORITHMS
        ):
            raise bad_encryption(f"algorithm 0x{algorithm:04x} does not belong to {provider.name}")
        try:
            simple = SimpleBlob.decode(packet.symmetric_key)
        except DecodeError as problem:
            raise bad_encryption(f"its key cannot be read: {problem}") from None
        if simple.session_key_algorithm != algorithm:
            raise bad_encryption("its key is of another algorithm")
        if algorithm not in AES_ALGORITHMS and not self._policy.legacy:
            raise unsupported_provider(f"{provider.name} is not allowed here")
        return _Sealed(provider, algorithm, simple.encrypted_key)

    def _unwrap(self, sealed: _Sealed) -> tuple[SessionKey, ...]:
        """The session keys that it may be: one for each RSA key that gives one of the right length."""
        found = []
        for private in self._private_keys(sealed):
            key = unwrap_key(private, sealed.encrypted_key)
            if len(key) in KEY_BYTES[sealed.algorithm]:
                found.append(SessionKey(sealed.algorithm, key))
        return tuple(found)

    def _private_keys(self, sealed: _Sealed) -> list[RSAPrivateKey]:
        """Those of the provider that the level selects, else of any whose length fits.

        The text chooses the provider by the receiver's strongest key and leaves the level as it was asked
        for, so that AES may come under a lower level.
        """
        size = 8 * len(sealed.encrypted_key)
        of_level = self._keys.exchange_keys(sealed.provider)
        fitting = [key for key in of_level if key.key_size == size]
        if fitting and sealed.algorithm in sealed.provider.algorithms:
            return fitting
        usable = [provider for provider in PROVIDERS if sealed.algorithm in provider.algorithms]
        keys = (key for provider in usable for key in self._keys.exchange_keys(provider))
        return [key for key in keys if key.key_size == size]

    def _body(self, packet: UserMessage, candidates: tuple[SessionKey, ...]) -> bytes:
        bodies, problem = [], bad_encryption("its length is wrong")
        for key in candidates:
            self._check_strength(packet, key)
            try:
                body = key.decrypt(packet.body)
            except MessageRefusedError as refusal:
                problem = refusal
                continue
            # The text does not say which of the two lengths MessageSize is (MQQB T59).
            if packet.body_size in {len(body), len(packet.body)}:
                bodies.append(body)
        if not bodies:
            raise problem
        if len(bodies) > 1:  # only with RC4, while an old key is kept: about one in a hundred
            raise bad_encryption("more than one key fits")
        return bodies[0]

    def _check_strength(self, packet: UserMessage, key: SessionKey) -> None:
        if not self._policy.reject_enhanced_rc2_using_40_bit_keys:
            return
        is_enhanced_rc2 = packet.encryption == (PrivacyLevel.ENHANCED, EncryptionAlgorithm.RC2)
        if is_enhanced_rc2 and key.key[5:] in {b"", _WEAK_TAIL}:
            raise bad_encryption("its RC2 key has only 40 bits")


def _cache_key(packet: UserMessage) -> _CacheKey:
    return packet.encryption, packet.source_bytes, packet.symmetric_key


class WrappedKey(NamedTuple):
    """A session key with its SIMPLEBLOB for one receiver."""

    session_key: SessionKey
    blob: bytes


class Choice(NamedTuple):
    provider: Provider
    algorithm: EncryptionAlgorithm
    key_bytes: int
    public_key: PublicKeyBlob


class BodySealer:
    """Encrypts bodies for queue managers whose public keys are known; reuses session keys for ten minutes."""

    def __init__(self, policy: EncryptionPolicy, random_bytes: Callable[[int], bytes]) -> None:
        # The public key is part of the cache's key, so that a rotated key is used at once.
        self.cache: AgingCache[tuple[PrivacyLevel, int, Hashable, PublicKeyBlob], WrappedKey] = AgingCache(
            SEND_KEYS, KEY_LIFETIME_S
        )
        self._policy = policy
        self._random_bytes = random_bytes

    def seal(
        self, packet: UserMessage, receiver: Hashable, keys: Sequence[MQDSPublicKey], now: float
    ) -> UserMessage:
        """The packet with its body encrypted for the receiver ([MS-MQQB] 3.1.7.1.5).

        SecurityError if that is not possible; the message must not leave in clear then (3.1.7.1.5.1).
        """
        level, algorithm = packet.encryption
        choice = choose(tuple(keys), level, self._policy, algorithm)
        self.cache.expire(now)
        cached = choice.provider.level, choice.algorithm, receiver, choice.public_key
        wrapped = self.cache.get(cached, now)
        if wrapped is None:
            wrapped = self._wrap(choice)
            self.cache.put(cached, wrapped, now)
        try:
            return encrypted(packet, choice.provider, wrapped)
        except DecodeError:  # no packet can be so large, and the receiver would end the session
            problem = f"with its key it would have more than {MAX_PACKET_SIZE} bytes"
            raise CorruptedSecurityDataError("message", problem=problem, fix="send less") from None

    def _wrap(self, choice: Choice) -> WrappedKey:
        secret = self._random_bytes(choice.key_bytes)
        is_enhanced_rc2 = (
            choice.provider.level == PrivacyLevel.ENHANCED and choice.algorithm == EncryptionAlgorithm.RC2
        )
        if is_enhanced_rc2 and self._policy.send_enhanced_rc2_using_40_bit_keys:
            secret = secret[:5] + _WEAK_TAIL
        encrypted_key = wrap_key(public_key_of(choice.public_key), secret)
        blob = SimpleBlob(session_key_algorithm=choice.algorithm, encrypted_key=encrypted_key).encode()
        return WrappedKey(SessionKey(choice.algorithm, secret), blob)


@lru_cache(SEND_KEYS)  # few receivers, many messages
def choose(
    keys: tuple[MQDSPublicKey, ...],
    level: int,
    policy: EncryptionPolicy,
    asked: int = EncryptionAlgorithm.RC4,
) -> Choice:
    """The strongest provider that the receiver has a key for: [MS-MQQB] 3.1.7.1.5.

    `asked` is the algorithm of the message. It counts if the provider has it and it is not RC4, which is the
    default of the property and so says nothing.
    """
    published = {provider_named(key.provider_name): key for key in reversed(keys)}
    algorithms = {
        PrivacyLevel.ADVANCED: policy.advanced_algorithm,
        PrivacyLevel.ENHANCED: policy.enhanced_algorithm,
        PrivacyLevel.BASE: policy.base_algorithm,
    }
    for provider in PROVIDERS:
        key = published.get(provider)
        if key is not None and (policy.legacy or not provider.is_legacy):
            algorithm = algorithms[provider.level]
            if asked != EncryptionAlgorithm.RC4 and asked in provider.algorithms:
                algorithm = EncryptionAlgorithm(asked)
            size = provider.session_key_bytes or KEY_BYTES[algorithm][0]
            return Choice(provider, algorithm, size, _decode_key(key.key))
        if level == provider.level:
            raise _no_key(provider, is_known=key is not None)
    raise PublicKeyDoesNotExistError("receiver")


def _decode_key(blob: bytes) -> PublicKeyBlob:
    try:
        return PublicKeyBlob.decode(blob)
    except DecodeError as problem:
        raise CorruptedSecurityDataError("public key of the receiver", problem=f"{problem}") from None


def _no_key(provider: Provider, *, is_known: bool) -> SecurityError:
    if is_known:
        fix = "ask for privacy level advanced, or set [security] legacy"
        return EncryptionProviderNotSupportedError(
            provider.name, problem="old ciphers are not allowed", fix=fix
        )
    return PublicKeyDoesNotExistError("receiver", problem=f"it has no key for {provider.name}")


# Packets


def encrypted(packet: UserMessage, provider: Provider, key: WrappedKey) -> UserMessage:
    """MQQB-219. The level becomes that of the provider, by which the receiver chooses its key."""
    return packet.with_body(
        key.session_key.encrypt(packet.body),
        packet.body_size,
        (provider.level, key.session_key.algorithm),
        packet.security_flags | ENCRYPTED_BODY,
        key.blob,
        provider.info,
    )
