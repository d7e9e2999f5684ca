"""XML signatures of messages over HTTP: [MC-MQSRM] 2.2.7, 3.1.5.1.6.1 (verify) and 3.1.7.2.4 (sign).

SignedInfo has a digest of the body and one of the extension, which are MIME parts of the request, and
SignatureValue is the signature of SignedInfo. Nothing else is covered: not the label, the destination, the id
and the times. The certificate is not on the wire (trap 33), so the caller says whose may have signed.

No library for XML signatures reads these: the namespace is a draft's, no canonical form is named, and "DSA"
stands for RSA with SHA-1 (trap 32). RSA is `cryptography`'s. Nothing is looked up or transformed: a part is
found by the one name that it can have, and an element that is not expected in SignedInfo is an error.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from xml.etree.ElementTree import ParseError, canonicalize

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from tiercel.message_security.certificates import Certificate, load_certificate
from tiercel.message_security.refusal import bad_signature
from tiercel.message_security.rsa_keys import sign_hash, signed_hash
from tiercel.message_security.signatures import SignaturePolicy
from tiercel.model.codes import HashAlgorithm
from tiercel.model.errors import CannotSignDataExError, InvalidCertificateError
from tiercel.wire.user_message import UserMessage

XMLDSIG = "http://www.w3.org/2000/02/xmldsig#"  # a draft's; 2000/09 is not recognized
SIGNATURE_METHOD = f"{XMLDSIG}dsa"
_SHA1 = f"{XMLDSIG}sha1"
_DIGESTS: dict[str, tuple[HashAlgorithm, Callable[[bytes], Any]]] = {
    _SHA1: (HashAlgorithm.SHA1, lambda data: hashlib.sha1(data, usedforsecurity=False)),
    f"{XMLDSIG}md5": (HashAlgorithm.MD5, lambda data: hashlib.md5(data, usedforsecurity=False)),
}
_START = "<SignedInfo"
_NAMESPACE = f' xmlns="{XMLDSIG}"'
_SOAP = ' xmlns:se="http://schemas.xmlsoap.org/soap/envelope/"'  # in scope, as queue managers write it
# Which octets of SignedInfo are signed is not specified. A stored verdict has the position of the form that
# fitted: only ever add at the end.
FORMS = ("as sent", "exclusive canonical XML", "inclusive canonical XML")


@dataclass(frozen=True, slots=True)
class Reference:
    """2.2.7.1.2"""

    uri: str
    digest_method: str
    digest_value: str


@dataclass(frozen=True, slots=True)
class XmlSignature:
    """2.2.7. An incomplete one has empty fields: it is for the verifier to refuse it, not for the codec."""

    signature_method: str = ""
    references: tuple[Reference, ...] = ()
    signature_value: str = ""
    signed_info: bytes = b""  # the octets that are signed, as sent


class SignedPart(NamedTuple):
    """A part of the request; `content_id` is body@GUID or extension@GUID."""

    content_id: str
    content: bytes


class Signed(NamedTuple):
    """A verified signature."""

    certificate: Certificate
    form: int  # position in `FORMS`


def verify(
    signature: XmlSignature,
    parts: Sequence[SignedPart],
    certificates: Iterable[Certificate],
    policy: SignaturePolicy,
) -> Signed | None:
    """Which certificate signed the parts: [MC-MQSRM] 3.1.5.1.6.1.

    MessageRefusedError if the signature is malformed, if it is of other parts, or if none of the certificates
    made it; None if that cannot be said because there are no certificates.
    """
    if not signature.signed_info:
        raise bad_signature("SignedInfo or SignatureValue is missing")
    if signature.signature_method != SIGNATURE_METHOD:
        raise bad_signature("its signature method is unknown")
    if HashAlgorithm.SHA1 not in policy.hash_algorithms:
        raise bad_signature("SHA-1 is not accepted")
    _check_parts(signature.references, parts, policy)
    value = _base64(signature.signature_value, "SignatureValue")
    is_unknown = True
    for certificate in certificates:
        is_unknown = False
        if certificate.key.key_size < policy.least_key_bits:
            continue
        claimed = signed_hash(certificate.key, value, HashAlgorithm.SHA1)
        if claimed is None:
            continue
        for form, octets in enumerate(forms(signature.signed_info)):
            if hmac.compare_digest(claimed, _sha1(octets)):
                return Signed(certificate, form)
    if is_unknown:
        return None
    raise bad_signature("no certificate of this sender made it")


def _check_parts(
    references: Sequence[Reference], parts: Sequence[SignedPart], policy: SignaturePolicy
) -> None:
    """Each part of the message is covered once, and nothing else: [MC-MQSRM] 2.2.7.1.2.

    The reasons quote nothing, because a stranger could fill the log with them.
    """
    if not references:
        raise bad_signature("it covers nothing")
    contents = {f"cid:{part.content_id}": part.content for part in parts}
    for reference in references:
        content = contents.pop(reference.uri, None)
        if content is None:
            raise bad_signature("it covers a part that is not in the message, or one part twice")
        algorithm, digest = _DIGESTS.get(reference.digest_method, (None, None))
        if algorithm not in policy.hash_algorithms or digest is None:
            raise bad_signature("its digest method is not accepted")
        claimed = _base64(reference.digest_value, "DigestValue")
        if not hmac.compare_digest(claimed, digest(content).digest()):
            raise bad_signature("a part of the message is not what was signed")
    if contents:
        raise bad_signature("it does not cover every part of the message")


def _base64(text: str, field: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise bad_signature(f"{field} is not valid base64") from None


def forms(signed_info: bytes) -> Iterator[bytes]:
    """The octets that may have been signed. Only the sender's own key leads here."""
    yield signed_info
    text = signed_info.decode()
    start, bracket, rest = text.partition(">")
    if not text.startswith(_START) or not bracket:
        return  # with a prefix, which no queue manager writes
    whole = start.replace(_START, _START + _NAMESPACE, 1) if "xmlns" not in start else start
    try:
        exclusive = canonicalize(f"{whole}>{rest}")
    except (ParseError, ValueError):
        return
    yield exclusive.encode()
    yield exclusive.replace(_START + _NAMESPACE, _START + _NAMESPACE + _SOAP, 1).encode()


def _sha1(data: bytes) -> bytes:
    return hashlib.sha1(data, usedforsecurity=False).digest()


# Signing


def parts_of(packet: UserMessage) -> list[SignedPart]:
    """The parts that a request for the packet will have."""
    guid = packet.source_queue_manager
    contents = (("body", packet.body), ("extension", packet.extension))
    return [SignedPart(f"{name}@{guid}", content) for name, content in contents if content]


def make_signature(parts: Sequence[SignedPart], value: bytes) -> XmlSignature:
    """The element for a signature that `sign` made of these parts."""
    references = tuple(
        Reference(f"cid:{part.content_id}", _SHA1, base64.b64encode(_sha1(part.content)).decode())
        for part in parts
    )
    return XmlSignature(
        SIGNATURE_METHOD, references, base64.b64encode(value).decode(), _signed_info(references)
    )


def _signed_info(references: Iterable[Reference]) -> bytes:
    """[MC-MQSRM] 3.1.7.2.4. Nothing in it needs escaping: the names are ours."""
    method = f'<SignatureMethod Algorithm="{SIGNATURE_METHOD}"></SignatureMethod>'
    inner = "".join(
        f'<Reference URI="{each.uri}"><DigestMethod Algorithm="{each.digest_method}"></DigestMethod>'
        f"<DigestValue>{each.digest_value}</DigestValue></Reference>"
        for each in references
    )
    return f"<SignedInfo>{method}{inner}</SignedInfo>".encode()


def sign(packet: UserMessage, key: RSAPrivateKey) -> bytes:
    """The signature of a packet for an HTTP name, big-endian as in XML: [MC-MQSRM] 3.1.7.2.4."""
    return sign_hash(key, _sha1(_info_of(packet)), HashAlgorithm.SHA1)[::-1]


def _info_of(packet: UserMessage) -> bytes:
    parts = parts_of(packet)
    if not parts:
        problem = "an XML signature covers body and extension, and both are empty"
        raise CannotSignDataExError("message", problem=problem, fix="send it unsigned, or with a body")
    return make_signature(parts, b"").signed_info


def verify_packet(packet: UserMessage, policy: SignaturePolicy) -> Certificate:
    """The certificate in a packet for an HTTP name, if its signature is of that packet."""
    _, _, signature, der, _ = packet.security_data()
    try:
        certificate = load_certificate(der)
        octets = _info_of(packet)
    except (InvalidCertificateError, CannotSignDataExError) as problem:
        raise bad_signature(f"{problem.problem or problem}") from None
    if certificate.key.key_size < policy.least_key_bits:
        raise bad_signature(
            f"its key has {certificate.key.key_size} bits, {policy.least_key_bits} are required"
        )
    claimed = signed_hash(certificate.key, signature, HashAlgorithm.SHA1)
    if claimed is None or not hmac.compare_digest(claimed, _sha1(octets)):
        raise bad_signature("it is of another message")
    return certificate
