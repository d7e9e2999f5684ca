"""Verifying and making XML signatures: [MC-MQSRM] 2.2.7, 3.1.5.1.6.1, 3.1.7.2.4."""

import base64
import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from tiercel.message_security import rsa_keys
from tiercel.message_security.certificates import Certificate, load_certificate
from tiercel.message_security.refusal import MessageRefusedError
from tiercel.message_security.signatures import DEFAULT_POLICY, SignaturePolicy
from tiercel.message_security.xml_signature import (
    FORMS,
    SIGNATURE_METHOD,
    XMLDSIG,
    Reference,
    SignedPart,
    XmlSignature,
    make_signature,
    parts_of,
    sign,
    verify,
    verify_packet,
)
from tiercel.model.codes import HashAlgorithm
from tiercel.model.errors import CannotSignDataExError
from tiercel.model.format_name import DirectFormatName
from tiercel.model.identifiers import MessageId
from tiercel.model.message import Message
from tiercel.wire.message import encode_message
from tiercel.wire.user_message import UserMessage

from . import vectors
from .signing import KEY, certificate

GUID = UUID("32221eda-9376-46df-b6ed-783091123831")
BODY = SignedPart(f"body@{GUID}", b"a body")
EXTENSION = SignedPart(f"extension@{GUID}", b"an extension")
SENDER = load_certificate(certificate())
VECTOR = json.loads((vectors.FOLDER / "srmp" / "expected-more.json").read_text("utf-8"))["12_signed_body"][
    "signature"
]


def signature_of(octets: bytes) -> bytes:
    digest = hashlib.sha1(octets, usedforsecurity=False).digest()
    return rsa_keys.sign_hash(vectors.private_key(KEY), digest, HashAlgorithm.SHA1)[::-1]


def signed(*parts: SignedPart, change: Callable[[str], str] = str) -> XmlSignature:
    """A signature of the parts; `change` is done to SignedInfo before it is signed."""
    made = make_signature(parts, b"")
    info = change(made.signed_info.decode()).encode()
    return replace(made, signed_info=info, signature_value=base64.b64encode(signature_of(info)).decode())


def check(
    signature: XmlSignature,
    *parts: SignedPart,
    known: tuple[Certificate, ...] = (SENDER,),
    policy: SignaturePolicy = DEFAULT_POLICY,
) -> str:
    """The form that fitted, "unknown", or why it was refused."""
    try:
        found = verify(signature, parts, known, policy)
    except MessageRefusedError as refusal:
        return refusal.why
    return "unknown" if found is None else FORMS[found.form]


@pytest.mark.conformance("SRMP-094", "SRMP-095")
@pytest.mark.parametrize("parts", [(BODY,), (EXTENSION,), (BODY, EXTENSION), (EXTENSION, BODY)])
def test_parts_that_are_signed(parts: tuple[SignedPart, ...]) -> None:
    assert check(signed(*parts), *parts) == "as sent"


@pytest.mark.conformance("SRMP-095")
def test_one_flipped_bit_of_a_part() -> None:
    forged = BODY._replace(content=b"b body")
    assert "not what was signed" in check(signed(BODY), forged)


@pytest.mark.conformance("SRMP-095")
def test_every_flipped_bit_of_what_is_signed() -> None:
    """Even if the values that were read from it are still right."""
    good = signed(BODY)
    for at in range(len(good.signed_info)):
        octets = bytearray(good.signed_info)
        octets[at] ^= 1
        try:
            octets.decode()
        except UnicodeDecodeError:
            continue
        assert check(replace(good, signed_info=bytes(octets)), BODY) == (
            "no certificate of this sender made it"
        )


@pytest.mark.conformance("SRMP-095")
def test_every_flipped_bit_of_the_signature() -> None:
    good = signed(BODY)
    value = base64.b64decode(good.signature_value)
    for at in range(len(value)):
        forged = value[:at] + bytes((value[at] ^ 1,)) + value[at + 1 :]
        bad = replace(good, signature_value=base64.b64encode(forged).decode())
        assert check(bad, BODY) == "no certificate of this sender made it"


@pytest.mark.conformance("SRMP-094")
@pytest.mark.parametrize(
    ("covered", "present", "why"),
    [
        ((), (BODY,), "it covers nothing"),
        ((), (), "it covers nothing"),
        ((BODY, BODY), (BODY,), "one part twice"),
        ((EXTENSION, EXTENSION), (EXTENSION, BODY), "one part twice"),
        ((BODY, EXTENSION, BODY), (BODY, EXTENSION), "one part twice"),
        ((BODY,), (), "that is not in the message"),
        ((BODY, EXTENSION), (BODY,), "that is not in the message"),
        ((BODY,), (BODY, EXTENSION), "does not cover every part"),
        ((BODY,), (BODY._replace(content_id="body@other"),), "that is not in the message"),
    ],
)
def test_references_and_parts_have_to_agree(
    covered: tuple[SignedPart, ...], present: tuple[SignedPart, ...], why: str
) -> None:
    """What is used is what was verified: nothing may stand beside it."""
    assert why in check(signed(*covered), *present)


@pytest.mark.conformance("SRMP-094")
@pytest.mark.parametrize("uri", ["", "#body", "cid:bodY@x", "http://example.org/body", "file:///etc/passwd"])
def test_nothing_is_looked_up(uri: str) -> None:
    good = signed(BODY)
    reference = replace(good.references[0], uri=uri)
    assert "that is not in the message" in check(replace(good, references=(reference,)), BODY)


@pytest.mark.conformance("SRMP-093")
@pytest.mark.parametrize("method", ["", f"{XMLDSIG}rsa-sha1", "http://www.w3.org/2000/09/xmldsig#dsa-sha1"])
def test_other_signature_methods(method: str) -> None:
    assert "its signature method" in check(replace(signed(BODY), signature_method=method), BODY)


def digested(method: str, digest: bytes) -> XmlSignature:
    reference = Reference(f"cid:{BODY.content_id}", XMLDSIG + method, base64.b64encode(digest).decode())
    return replace(signed(BODY), references=(reference,))


@pytest.mark.conformance("SRMP-093")
def test_digest_methods() -> None:
    content = BODY.content
    md5 = digested("md5", hashlib.md5(content, usedforsecurity=False).digest())
    assert "its digest method" in check(md5, BODY)
    assert check(md5, BODY, policy=DEFAULT_POLICY.with_legacy()) == "as sent"
    assert "its digest method" in check(digested("sha256", hashlib.sha256(content).digest()), BODY)
    assert "its digest method" in check(digested("", b""), BODY)


@pytest.mark.conformance("SRMP-092")
@pytest.mark.parametrize(
    "bad", [XmlSignature(), replace(signed(BODY), signature_value="?"), replace(signed(BODY), references=())]
)
def test_incomplete_signatures(bad: XmlSignature) -> None:
    with pytest.raises(MessageRefusedError):
        verify(bad, (BODY,), (), DEFAULT_POLICY)


def test_without_a_certificate_it_proves_nothing() -> None:
    assert check(signed(BODY), BODY, known=()) == "unknown"


def test_certificates_of_others() -> None:
    assert check(signed(BODY), BODY, known=(other(), SENDER)) == "as sent"
    assert check(signed(BODY), BODY, known=(other(),)) == "no certificate of this sender made it"


def other() -> Certificate:
    return replace(SENDER, key=vectors.private_key("capi/key_enh_keyx_1024").public_key())


def test_short_keys_and_weak_hashes() -> None:
    strict = replace(DEFAULT_POLICY, least_key_bits=2048)
    assert check(signed(BODY), BODY, policy=strict) == "no certificate of this sender made it"
    strict = replace(DEFAULT_POLICY, hash_algorithms=frozenset({HashAlgorithm.SHA_256}))
    assert check(signed(BODY), BODY, policy=strict) == "SHA-1 is not accepted"


# The forms of SignedInfo.


def test_the_canonical_forms_are_those_of_the_vector() -> None:
    """The vector's inclusive form undeclares a namespace that is in use, as no canonical form does."""
    inclusive = VECTOR["c14n_inclusive"].replace(' xmlns=""', "")
    reference = Reference("cid:x", "", "")
    for form, text in zip(FORMS, (VECTOR["signed_octets"], VECTOR["c14n_exclusive"], inclusive), strict=True):
        value = base64.b64encode(signature_of(text.encode())).decode()
        read = XmlSignature(SIGNATURE_METHOD, (reference,), value, VECTOR["signed_octets"].encode())
        body = SignedPart("body@32221eda-9376-46df-b6ed-783091123831", b"signed body")
        digest = base64.b64encode(hashlib.sha1(body.content, usedforsecurity=False).digest()).decode()
        references = (Reference(f"cid:{body.content_id}", f"{XMLDSIG}sha1", digest),)
        assert check(replace(read, references=references), body) == form


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("<SignedInfo>", "<SignedInfo >\n"),
        lambda text: text.replace("<SignedInfo>", f"<SignedInfo xmlns='{XMLDSIG}'>"),
        lambda text: text.replace("SignedInfo", "ds:SignedInfo"),
        lambda text: text.replace("<Reference", "<!-- a --><Reference"),
        lambda text: text.replace("<SignedInfo>", "<SignedInfo>&#x41;"),
    ],
)
def test_unusual_texts_are_verified_as_sent(change: Any) -> None:
    assert check(signed(BODY, change=change), BODY) == "as sent"


@pytest.mark.parametrize("octets", [b"<", b"<SignedInfo", b"<SignedInfo>&x;", b"<SignedInfo><", b"<x>"])
def test_any_octets_are_tried_without_an_error(octets: bytes) -> None:
    bad = replace(signed(BODY), signed_info=octets)
    assert check(bad, BODY) == "no certificate of this sender made it"


def test_either_order_of_bytes() -> None:
    good = signed(BODY)
    reversed_value = base64.b64encode(base64.b64decode(good.signature_value)[::-1]).decode()
    assert check(replace(good, signature_value=reversed_value), BODY) == "as sent"


# Signing.


def packet(message: Message) -> UserMessage:
    message.destination_queue = DirectFormatName.from_wire("HTTP://there/msmq/private$/q")
    message.id = MessageId(GUID, 7)
    message.sender_certificate = certificate()
    return UserMessage(encode_message(message))


@pytest.mark.conformance("SRMP-095")
def test_our_own_signature_verifies() -> None:
    message = Message(b"body", extension=b"extension")
    message.signature = sign(packet(message), vectors.private_key(KEY))
    sent = packet(message)
    made = make_signature(parts_of(sent), message.signature)
    assert check(made, *parts_of(sent)) == "as sent"
    assert verify_packet(sent, DEFAULT_POLICY).der == certificate()
    message.body = b"Body"
    with pytest.raises(MessageRefusedError, match="another message"):
        verify_packet(packet(message), DEFAULT_POLICY)


@pytest.mark.conformance("SRMP-094")
def test_the_vector_is_what_we_write() -> None:
    body = SignedPart("body@32221eda-9376-46df-b6ed-783091123831", b"signed body")
    made = make_signature((body,), base64.b64decode(VECTOR["signature_base64"]))
    assert made.signed_info.decode() == VECTOR["signed_octets"]
    known = load_certificate(bytes.fromhex(VECTOR["certificate"]))
    assert check(made, body, known=(known,)) == "as sent"


def test_an_empty_message_cannot_be_signed() -> None:
    with pytest.raises(CannotSignDataExError, match="both are empty"):
        sign(packet(Message(b"")), vectors.private_key(KEY))
