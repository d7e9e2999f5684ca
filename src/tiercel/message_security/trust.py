"""The trust store: the certificates of senders, and the public keys of queue managers.

It takes the place of the directory's objects of users ([MS-MQDMPR] 3.1.1.15) and queue managers (3.1.1.1).
The text has one entry per line.

    name SIDs base64          a certificate, in DER: the account that it stands for, then its groups,
                              separated by commas
    name GUID hosts base64    a queue manager: its hosts, separated by commas, - for none, and its
                              MQDSPUBLICKEYS ([MS-MQMQ] 2.2.2)
"""

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Self
from uuid import UUID, uuid5

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from tiercel.message_security.certificates import Certificate, fingerprint, load_certificate, pem_to_der
from tiercel.message_security.providers import Provider, provider_named
from tiercel.message_security.rsa_keys import check_public_key, public_blob, public_key_of
from tiercel.model.errors import DecodeError, InvalidCertificateError, MqError, TiercelError
from tiercel.model.queue_manager import User
from tiercel.model.sid import SecurityIdentifier
from tiercel.security.entry_lines import check_name, doubled, read_lines, write_lines
from tiercel.wire.key_blobs import PublicKeyBlob
from tiercel.wire.public_keys import MQDSPublicKey, MQDSPublicKeys
from tiercel.wire.user_certificates import MQUserSignCert, MQUserSignCerts

_HOST: Final = re.compile(r"[a-z0-9._:-]{1,255}")
_NO_HOST: Final = "-"
_CERTIFICATES: Final = UUID("5e0f4f5c-6f0e-4b55-9f0b-6f1f0d2a7c11")  # names identifiers of certificates


class TrustError(TiercelError):
    """An entry that is not valid: the text is one line for the administrator."""


@dataclass(frozen=True, slots=True)
class TrustedCertificate:
    name: str
    sid: SecurityIdentifier
    certificate: Certificate
    groups: tuple[SecurityIdentifier, ...] = ()

    def __post_init__(self) -> None:
        check_name(self.name, TrustError)

    def line(self) -> str:
        sids = ",".join(map(str, (self.sid, *self.groups)))
        return f"{self.name} {sids} {base64.b64encode(self.certificate.der).decode()}"


@dataclass(frozen=True, slots=True)
class TrustedQueueManager:
    """The keys that session keys for a queue manager are encrypted with."""

    name: str
    guid: UUID
    hosts: tuple[str, ...]  # in lower case
    keys: tuple[MQDSPublicKey, ...]

    def __post_init__(self) -> None:
        check_name(self.name, TrustError)
        for host in self.hosts:
            if not _HOST.fullmatch(host) or host == _NO_HOST:
                raise TrustError(f"{self.name}: {host[:70]!a} is not a valid host")
        for key in self.keys:
            self._check_key(key)
        if not self.keys:
            raise TrustError(f"{self.name}: it has no keys")

    def _check_key(self, key: MQDSPublicKey) -> None:
        if provider_named(key.provider_name) is None:
            raise TrustError(f"{self.name}: {key.provider_name[:70]!a} is not a known provider")
        try:
            public_key_of(PublicKeyBlob.decode(key.key))
        except (DecodeError, MqError) as problem:
            raise TrustError(f"{self.name}: a key cannot be used ({problem})") from problem

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the PUBLICKEYBLOBs."""
        return fingerprint(b"".join(key.key for key in self.keys))

    def line(self) -> str:
        keys = base64.b64encode(MQDSPublicKeys.of(self.keys).encode()).decode()
        return f"{self.name} {self.guid} {','.join(self.hosts) or _NO_HOST} {keys}"


Entry = TrustedCertificate | TrustedQueueManager


class Trust:
    """The entries of a text, with its other lines; iterates over the certificates. Changes make a copy."""

    def __init__(self, lines: "tuple[str | Entry, ...]" = (), *, is_missing: bool = False) -> None:
        """`is_missing`: there is a text, which could not be read."""
        self._lines = lines
        self._is_missing = is_missing
        self._by_der = {each.certificate.der: each for each in self}
        self._groups = self._groups_by_sid()
        self._by_guid = {each.guid: each for each in self.queue_managers}
        self._by_host = {host: each for each in self.queue_managers for host in each.hosts}

    def __iter__(self) -> Iterator[TrustedCertificate]:
        return (line for line in self._lines if isinstance(line, TrustedCertificate))

    @property
    def queue_managers(self) -> list[TrustedQueueManager]:
        return [line for line in self._lines if isinstance(line, TrustedQueueManager)]

    def _groups_by_sid(self) -> dict[bytes, frozenset[SecurityIdentifier]]:
        """An account may have several certificates; it is in the groups of all of them."""
        found: dict[bytes, frozenset[SecurityIdentifier]] = {}
        for each in self:
            sid = each.sid.encode()
            found[sid] = found.get(sid, frozenset()) | frozenset(each.groups)
        return found

    @property
    def is_closed(self) -> bool:
        """Whether a certificate that is not here is an unwanted one."""
        return self._is_missing or len(self) > 0

    def __len__(self) -> int:
        return len(self._by_der)

    @classmethod
    def parse(cls, text: str) -> Self:
        found = cls(read_lines(text, _entry, TrustError))
        if (name := doubled(each.name for each in found._entries())) is not None:
            raise TrustError(f"{name}: there are two entries of that name")
        if len(found) != len(list(found)):
            raise TrustError("a certificate is there twice: it can stand for one account only")
        managers = found.queue_managers
        guids = [str(each.guid) for each in managers]
        if (twice := doubled([*guids, *(host for each in managers for host in each.hosts)])) is not None:
            raise TrustError(f"{twice}: there are two queue managers with it")
        return found

    def text(self) -> str:
        return write_lines(self._lines)

    def get(self, name: str) -> TrustedCertificate | None:
        return next((each for each in self if each.name == name), None)

    def _entries(self) -> Iterator[Entry]:
        return (line for line in self._lines if not isinstance(line, str))

    def _entry(self, name: str) -> Entry | None:
        return next((each for each in self._entries() if each.name == name), None)

    def find(self, der: bytes) -> TrustedCertificate | None:
        """The entry of a certificate, compared byte by byte."""
        return self._by_der.get(der)

    def groups_of(self, sid: bytes) -> frozenset[SecurityIdentifier]:
        return self._groups.get(sid, frozenset())

    def user(self, sid: SecurityIdentifier) -> User | None:
        """An account as the directory has it ([MS-MQDMPR] 3.1.1.15), if it has a certificate."""
        ders = [each.certificate.der for each in self if each.sid == sid]
        if not ders:
            return None
        listed = tuple(MQUserSignCert.of(uuid5(_CERTIFICATES, der.hex()), der) for der in ders)
        return User(
            identifier=uuid5(_CERTIFICATES, str(sid)),
            security_identifier=sid,
            certificate_digest_list=tuple(each.digest for each in listed),
            certificates=MQUserSignCerts.of(listed).encode(),
        )

    def queue_manager(self, guid: UUID) -> TrustedQueueManager | None:
        return self._by_guid.get(guid)

    def queue_manager_at(self, host: str) -> TrustedQueueManager | None:
        return self._by_host.get(host.casefold())

    def added(self, entry: Entry) -> "Trust":
        if self._entry(entry.name) is not None:
            raise TrustError(f"{entry.name}: entry exists; remove it first, or choose another name")
        if isinstance(entry, TrustedQueueManager):
            known: Entry | None = self.queue_manager(entry.guid)
            known = next(filter(None, map(self.queue_manager_at, entry.hosts)), known)
            what = "the queue manager or one of its hosts"
        else:
            known, what = self.find(entry.certificate.der), "the certificate"
        if known is not None:
            raise TrustError(f"{what} is known already, as {known.name}")
        return Trust((*self._lines, entry))

    def replaced(self, entry: TrustedQueueManager) -> "Trust":
        """`added`, instead of an entry of the same name and queue manager."""
        old = self._entry(entry.name)
        is_same = isinstance(old, TrustedQueueManager) and old.guid == entry.guid
        return (self.without(entry.name) if is_same else self).added(entry)

    def without(self, name: str) -> "Trust":
        entry = self._entry(name)
        if entry is None:
            raise TrustError(f"{name}: no such entry")
        return Trust(tuple(line for line in self._lines if line != entry))


def parse_sid(text: str) -> SecurityIdentifier:
    try:
        return SecurityIdentifier.parse(text)
    except (DecodeError, MqError, ValueError) as problem:
        raise TrustError(f"{text[:60]!a} is not a valid SID, as S-1-5-21-1-2-3-1001") from problem


def parse_hosts(text: str) -> tuple[str, ...]:
    return () if text == _NO_HOST else tuple(text.casefold().split(","))


def import_certificates(data: bytes) -> list[Certificate]:
    """The certificates in a file: PEM, DER, or MQUSERSIGNCERTS, as the directory has them of a user."""
    try:
        ders = [each.certificate for each in MQUserSignCerts.decode(data).certificates]
    except DecodeError:
        ders = [data]
    try:
        return [load_certificate(pem_to_der(der)) for der in ders]
    except InvalidCertificateError as problem:
        raise TrustError(f"not a certificate with an RSA key ({problem.problem})") from problem


def import_keys(data: bytes, provider: Provider) -> tuple[MQDSPublicKey, ...]:
    """The public keys in a file: MQDSPUBLICKEYS, a PUBLICKEYBLOB, or PEM; the last two are of `provider`."""
    if b"-----BEGIN" in data:
        return (_key_of_pem(data, provider),)
    try:
        return MQDSPublicKeys.decode(data).keys
    except DecodeError:
        pass
    try:
        PublicKeyBlob.decode(data)
    except DecodeError as problem:
        raise TrustError(f"neither a PUBLICKEYBLOB, MQDSPUBLICKEYS nor PEM ({problem})") from None
    return (MQDSPublicKey.of(provider.type, provider.name, data),)


def _key_of_pem(data: bytes, provider: Provider) -> MQDSPublicKey:
    """PEM of a public key, or of a certificate with it."""
    try:
        if b"CERTIFICATE-----" in data:
            key = load_certificate(pem_to_der(data)).key
        else:
            key = check_public_key(load_pem_public_key(data))
    except (ValueError, UnsupportedAlgorithm, MqError) as problem:
        raise TrustError(f"the PEM has no RSA public key ({problem})") from None
    return MQDSPublicKey.of(provider.type, provider.name, public_blob(key).encode())


def _entry(line: str) -> Entry:
    words = line.split()
    if len(words) == 4:
        return _queue_manager(*words)
    if len(words) != 3:
        raise TrustError("expected a name, a SID and a certificate, separated by blanks")
    try:
        certificate = load_certificate(base64.b64decode(words[2], validate=True))
    except (ValueError, InvalidCertificateError) as problem:  # ValueError: not ASCII, or not base64
        raise TrustError(f"{words[0]}: the certificate cannot be read ({problem})") from problem
    sid, *groups = map(parse_sid, words[1].split(","))
    return TrustedCertificate(words[0], sid, certificate, tuple(groups))


def _queue_manager(name: str, guid: str, hosts: str, keys: str) -> TrustedQueueManager:
    try:
        published = MQDSPublicKeys.decode(base64.b64decode(keys, validate=True)).keys
        return TrustedQueueManager(name, UUID(guid), parse_hosts(hosts), published)
    except (DecodeError, ValueError) as problem:
        raise TrustError(f"{name}: the queue manager cannot be read ({problem})") from problem
