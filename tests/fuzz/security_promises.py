"""Certificates, key blobs and signed packets: any bytes are refused in one way, or used."""

import json
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from basics import Target, same
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from tiercel.message_security import xml_signature
from tiercel.message_security.body_encryption import BodyOpener, EncryptionPolicy
from tiercel.message_security.certificates import load_certificate
from tiercel.message_security.providers import ADVANCED, Provider
from tiercel.message_security.refusal import MessageRefusedError
from tiercel.message_security.rsa_keys import private_key_of, public_blob, public_key_of
from tiercel.message_security.signatures import DEFAULT_POLICY, verify
from tiercel.message_security.trust import (
    Trust,
    TrustedCertificate,
    TrustedQueueManager,
    TrustError,
    import_keys,
)
from tiercel.message_security.xml_signature import SignedPart
from tiercel.model.errors import CorruptedSecurityDataError, DecodeError, InvalidCertificateError
from tiercel.model.sid import ADMINISTRATORS
from tiercel.security.descriptor import SecurityDescriptor
from tiercel.srmp.http_request import read_http_request
from tiercel.srmp.request import read_srmp
from tiercel.wire.key_blobs import PrivateKeyBlob, PublicKeyBlob
from tiercel.wire.public_keys import MQDSPublicKey, MQDSPublicKeys
from tiercel.wire.security_header import ENCRYPTED_BODY
from tiercel.wire.user_certificates import MQUserSignCert, MQUserSignCerts
from tiercel.wire.user_message import UserMessage

VECTORS = Path(__file__).resolve().parent.parent / "vectors"


def check_certificate(data: bytes) -> None:
    try:
        found = load_certificate.__wrapped__(data)  # without its cache
    except InvalidCertificateError as problem:
        str(problem)
        return
    public_blob(found.key)
    str(found)


def check_rsa_key(data: bytes) -> None:
    """A PUBLICKEYBLOB or PRIVATEKEYBLOB up to the key of `cryptography`."""
    try:
        public = PublicKeyBlob.decode(data)
        same(public_blob(public_key_of(public), public.key_type).encode(), data)
    except (DecodeError, CorruptedSecurityDataError):
        pass
    try:
        private_key_of(PrivateKeyBlob.decode(data))
    except (DecodeError, CorruptedSecurityDataError):
        return


def check_key_lists(data: bytes) -> None:
    for kind in (MQDSPublicKeys, MQUserSignCerts):
        try:
            value = kind.decode(data)
        except DecodeError:
            continue
        same(value.encode(), data)


def check_signed_packet(data: bytes) -> None:
    try:
        packet = UserMessage(data)
        verify(packet, packet.body)
    except (DecodeError, MessageRefusedError):
        return


def check_xml_signature(data: bytes) -> None:
    try:
        request = read_srmp(read_http_request(data))
    except DecodeError:
        return
    signature, parts = request.envelope.signature, (request.body, request.extension)
    if signature is None:
        return
    signed = [SignedPart(part.content_id, part.content) for part in parts if part is not None]
    known = [load_certificate(each) for each in sorted(set(_octets("security/*", "certificate")))[:1]]
    with suppress(MessageRefusedError):
        xml_signature.verify(signature, signed, known, DEFAULT_POLICY.with_legacy())
    for form in xml_signature.forms(signature.signed_info):
        form.decode()


def _signed_requests() -> list[bytes]:
    return [path.read_bytes() for path in sorted(VECTORS.glob("srmp/*_signed_*.http"))]


class _Keys:
    """The private keys of the vectors."""

    def __init__(self) -> None:
        blobs = _octets("security/*", "receiver_private_key_blob")
        self._keys = [private_key_of(PrivateKeyBlob.decode(blob)) for blob in sorted(set(blobs))]

    def exchange_keys(self, provider: Provider) -> Sequence[RSAPrivateKey]:
        return [key for key in self._keys if key.key_size >= provider.key_bits]


@cache
def _opener() -> BodyOpener:
    return BodyOpener(_Keys(), EncryptionPolicy(legacy=True))


def check_encrypted_packet(data: bytes) -> None:
    try:
        packet = UserMessage(data)
        if packet.security_flags & ENCRYPTED_BODY:
            opened = _opener().open(packet, 0)
            same(b"".join(header.encode() for header in opened.headers()), opened.data)
    except (DecodeError, MessageRefusedError):
        return


def check_trust(data: bytes) -> None:
    """The text of a trust store is refused with one error of one line, or comes back."""
    text = data.decode("utf-8", "replace")
    try:
        parsed = Trust.parse(text)
    except TrustError as problem:
        if "\n" in str(problem):
            raise AssertionError(f"more than one line: {problem}") from problem
        return
    same(Trust.parse(parsed.text()).text().encode(), parsed.text().encode())


def check_imported_key(data: bytes) -> None:
    with suppress(TrustError):
        TrustedQueueManager("there", _GUID, (), import_keys(data, ADVANCED))


def _trust_stores() -> list[bytes]:
    keys = tuple(
        MQDSPublicKey.of(24, ADVANCED.name, key) for key in _octets("capi/key_aes_keyx*", "public_key_blob")
    )
    certificate = load_certificate(_octets("security/*", "certificate")[0])
    entries = (
        TrustedCertificate("alice", ADMINISTRATORS, certificate),
        TrustedQueueManager("there", _GUID, ("there", "192.0.2.7"), keys),
    )
    return [Trust((entry,)).text().encode() for entry in entries]


def _octets(pattern: str, field: str) -> list[bytes]:
    found = (json.loads(path.read_text("utf-8")) for path in sorted(VECTORS.glob(pattern)))
    return [bytes.fromhex(one[field]) for one in found if field in one]


def _lists() -> list[bytes]:
    keys = tuple(MQDSPublicKey.of(24, "AES", key) for key in _octets("capi/key_*", "public_key_blob"))
    certificate = MQUserSignCert.of(_GUID, b"\x30\0")
    return [MQDSPublicKeys.of(keys[:2]).encode(), MQUserSignCerts.of((certificate,)).encode()]


_GUID = MQUserSignCert().identifier


def check_descriptor(data: bytes) -> None:
    """A security descriptor in binary form, which remote readers and stores have."""
    try:
        found = SecurityDescriptor.decode(data)
    except DecodeError:
        return
    if SecurityDescriptor.decode(found.encode()) != found:
        raise AssertionError("what was written reads as something else")
    found.text()


def check_sddl(data: bytes) -> None:
    try:
        found = SecurityDescriptor.parse(data.decode("utf-8", "replace"))
    except DecodeError:
        return
    if SecurityDescriptor.parse(found.text()) != found:
        raise AssertionError("what was written reads as something else")


def _sddl() -> list[bytes]:
    return [
        b"O:BAG:SYD:P(A;;GA;;;BA)(A;;WRITE_MESSAGE|0x20;;;WD)",
        b"O:S-1-5-21-1-2-3-1001D:(D;CI;0x4;;;AN)S:",
    ]


TARGETS: dict[str, Target] = {
    "descriptor": Target(
        check_descriptor, lambda: [SecurityDescriptor.parse(text.decode()).encode() for text in _sddl()]
    ),
    "sddl": Target(check_sddl, _sddl),
    "certificate": Target(check_certificate, lambda: _octets("security/*", "certificate")),
    "encrypted_packet": Target(check_encrypted_packet, lambda: _octets("security/*_enc_*", "packet")),
    "key_lists": Target(check_key_lists, _lists),
    "imported_key": Target(
        check_imported_key, lambda: [*_octets("capi/key_*", "public_key_blob"), *_lists()]
    ),
    "trust": Target(check_trust, _trust_stores),
    "rsa_key": Target(
        check_rsa_key,
        lambda: _octets("capi/key_*", "public_key_blob") + _octets("capi/key_*", "private_key_blob"),
    ),
    "xml_signature": Target(check_xml_signature, _signed_requests),
    "signed_packet": Target(check_signed_packet, lambda: _octets("security/*", "packet")),
}
