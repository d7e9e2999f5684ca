"""Signed messages over HTTP: [MC-MQSRM] 3.1.5.1.6.1, 3.1.7.2.4."""

import base64
import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from message_security.test_xml_signature import signature_of
from tiercel.admin.message_json import to_json
from tiercel.columns.stored import StoredRows, batch_of
from tiercel.message_security.certificates import load_certificate
from tiercel.message_security.signer import Signer
from tiercel.message_security.trust import Trust, TrustedCertificate
from tiercel.message_security.verdict import Verdict, decode_verdict
from tiercel.message_security.verifier import VerificationPolicy, Verifier
from tiercel.message_security.xml_signature import XMLDSIG
from tiercel.model.codes import AuthenticationLevel, HashAlgorithm, MessageClass, QueueAccess
from tiercel.model.errors import CannotSignDataExError, UnsupportedFormatNameOperationError
from tiercel.model.message import Message
from tiercel.model.sid import SecurityIdentifier
from tiercel.srmp.http_request import read_http_request
from tiercel.srmp.request import read_srmp
from tiercel.srmp.settings import Settings

from .vectors import expected, load
from .world import Net, Side

ALICE = SecurityIdentifier.parse("S-1-5-21-1-2-3-1001")
SIGNED, WRONG = "12_signed_body", "13_signed_wrong_reference"
SENDER = UUID("32221eda-9376-46df-b6ed-783091123831")
CERTIFICATE = load_certificate(bytes.fromhex(expected()[SIGNED]["signature"]["certificate"]))
TRUST = Trust((TrustedCertificate("alice", ALICE, CERTIFICATE),))
ON = Settings(http_url="http://machine2", xml_signatures=True, signers={SENDER: ("bob", "alice")})


def receiver(settings: Settings = ON, **queue: Any) -> Side:
    side = Side(name="MACHINE2", settings=settings, verifier=Verifier(lambda: TRUST))
    side.create("orders", **queue)
    return side


def changed(pattern: str, replacement: str, name: str = SIGNED, *, signs: bool = True) -> bytes:
    """A vector whose envelope is changed, and signed again by the same key."""
    http = read_http_request(load(name))
    request = read_srmp(http)
    document, count = re.subn(pattern, replacement, request.envelope_part.content.decode(), count=1)
    assert count == 1
    info = re.search("<SignedInfo.*</SignedInfo>", document, re.DOTALL)
    if signs and info is not None:
        value = base64.b64encode(signature_of(info[0].encode())).decode()
        document = re.sub(r"(<SignatureValue>)[^<]*", rf"\g<1>{value}", document)
    before = request.envelope_part.content
    body = http.body.replace(before, document.encode())
    body = body.replace(b"Content-Length: %d" % len(before), b"Content-Length: %d" % len(document.encode()))
    return whole(http.head.encode(), body)


def whole(head: bytes, body: bytes) -> bytes:
    return re.sub(rb"Content-Length: \d+", b"Content-Length: %d" % len(body), head, count=1) + body


def verdict(side: Side) -> Verdict:
    (seen,) = side.run(lambda: side.engine.browsing.in_order(side.box("orders").state, 0))
    return decode_verdict(seen.record.verdict)


def assert_dropped(side: Side, request: bytes, why: str = "") -> None:
    """Answered with 200, not kept, and told."""
    assert side.post(request) == 200
    assert side.box("orders").state.count == 0
    assert len(side.engine.arrivals.history) == 0
    assert side.srmp.dropped == {MessageClass.NACK_BAD_SIGNATURE.meaning: 1}
    (event,) = [each for each in side.events if each.event == "dropped"]
    assert why in event.reason
    assert "cid:" not in event.reason, "reasons that vary could fill the log"


@pytest.mark.conformance("SRMP-092", "SRMP-093", "SRMP-094", "SRMP-095", "SRMP-096")
@pytest.mark.parametrize("authentication", [False, True])
def test_a_signed_message_is_authenticated(authentication: bool) -> None:
    side = receiver(authentication=authentication)
    assert side.post(load(SIGNED)) == 200
    assert verdict(side) == Verdict(AuthenticationLevel.XML_SIG, 0, ALICE.encode(), name="alice")
    message = side.box("orders").receive()
    assert (message.body, message.authentication_level) == (b"signed body", AuthenticationLevel.XML_SIG)
    assert message.soap_compound_message == load(SIGNED)  # untouched


def test_what_was_verified_is_shown() -> None:
    """In the columns, and by `peek` and the API."""
    side = receiver()
    assert side.post(load(SIGNED)) == 200
    (seen,) = side.run(lambda: side.engine.browsing.in_order(side.box("orders").state, 0))
    rows = StoredRows.of([seen.lookup_id], [seen.record.encode()])
    assert batch_of(rows, ("authenticated", "auth_level", "body")).to_pylist() == [
        {"authenticated": True, "auth_level": AuthenticationLevel.XML_SIG, "body": b"signed body"}
    ]
    shown = to_json(side.box("orders").receive())
    assert shown["authentication_level"] == "xml_sig"
    assert base64.b64decode(shown["verified_sender"]) == ALICE.encode()
    assert shown["verified_name"] == "alice"


@pytest.mark.conformance("SRMP-096")
def test_a_queue_that_demands_authentication_refuses_unsigned_messages() -> None:
    side = receiver(authentication=True)
    assert side.post(changed("<Signature .*</Signature>", "")) == 200
    assert side.box("orders").state.count == 0
    assert side.srmp.dropped == {"refused": 1}


@pytest.mark.conformance("SRMP-094", "SRMP-095")
def test_a_reference_to_something_else() -> None:
    assert_dropped(receiver(), load(WRONG), "that is not in the message")


RULES = {
    "no SignedInfo": ("<SignedInfo>.*</SignedInfo>", "", "missing"),
    "no SignatureValue": ("<SignatureValue>.*</SignatureValue>", "", "missing"),
    "two SignedInfo": ("(<SignedInfo>.*</SignedInfo>)", r"\1<SignedInfo></SignedInfo>", "missing"),
    "two SignatureValue": ("(<SignatureValue>.*</SignatureValue>)", r"\1\1", "missing"),
    "no SignatureMethod": ("<SignatureMethod.*</SignatureMethod>", "", "missing"),
    "rsa-sha1": ("xmldsig#dsa", "xmldsig#rsa-sha1", "its signature method"),
    "sha256": ("xmldsig#sha1", "xmldsig#sha256", "its digest method"),
    "md5": ("xmldsig#sha1", "xmldsig#md5", "its digest method"),
    "no DigestMethod": ("<DigestMethod.*</DigestMethod>", "", "its digest method"),
    "no DigestValue": ("<DigestValue>.*</DigestValue>", "", "its digest method"),
    "no Reference": ("<Reference.*</Reference>", "", "covers nothing"),
    "two References": ("(<Reference.*</Reference>)", r"\1\1", "one part twice"),
    "three References": ("(<Reference.*</Reference>)", r"\1\1\1", "one part twice"),
    "an absent part": ("cid:body", "cid:extension", "that is not in the message"),
    "another queue manager's part": ("cid:body@3", "cid:body@4", "that is not in the message"),
    "transforms": ("<DigestMethod", "<Transforms></Transforms><DigestMethod", "its digest method"),
    "another element": ("<Reference", "<CanonicalizationMethod/><Reference", "missing"),
    "another digest": ("<DigestValue>/", "<DigestValue>A", "not what was signed"),
    "no base64": ("<DigestValue>/", "<DigestValue>?", "not valid base64"),
}


@pytest.mark.conformance("SRMP-092", "SRMP-093", "SRMP-094", "SRMP-095")
@pytest.mark.parametrize(("pattern", "replacement", "why"), RULES.values(), ids=RULES)
def test_breaches_of_the_rules_are_dropped_though_the_signature_fits(
    pattern: str, replacement: str, why: str
) -> None:
    assert_dropped(receiver(), changed(pattern, replacement), why)


@pytest.mark.conformance("SRMP-095")
def test_another_body() -> None:
    data = load(SIGNED)
    assert_dropped(receiver(), data.replace(b"signed body", b"signed bodY"), "not what was signed")


@pytest.mark.conformance("SRMP-095")
def test_a_signed_info_of_others() -> None:
    forged = changed("<SignedInfo>", "<SignedInfo >", signs=False)
    assert_dropped(receiver(), forged, "no certificate of this sender made it")


@pytest.mark.conformance("SRMP-092")
def test_a_signature_of_the_later_namespace_is_none() -> None:
    side = receiver()
    later = XMLDSIG.replace("02", "09")
    assert side.post(changed(f'<Signature xmlns="{XMLDSIG}"', f'<Signature xmlns="{later}"')) == 200
    assert not verdict(side).is_authenticated


class TestWrapping:
    """What is verified is what is used."""

    def test_a_second_signature_is_refused_by_the_reader(self) -> None:
        side = receiver()
        assert side.post(changed("(<Signature .*</Signature>)", r"\1\1")) == 400

    def test_a_second_body_is_refused_by_the_reader(self) -> None:
        http = read_http_request(load(SIGNED))
        boundary = b"--MSMQ - SOAP boundary, 6328"
        part = b"\r\nContent-Length: 4\r\nContent-Id: body@x\r\n\r\nevil" + boundary
        body = http.body.replace(b"signed body" + boundary, b"signed body" + boundary + part)
        assert receiver().post(whole(http.head.encode(), body)) == 400

    def test_an_extension_beside_the_signed_body(self) -> None:
        http = read_http_request(load(SIGNED))
        boundary = b"--MSMQ - SOAP boundary, 6328"
        part = b"\r\nContent-Length: 4\r\nContent-Id: extension@x\r\n\r\nevil" + boundary
        body = http.body.replace(b"signed body" + boundary, b"signed body" + boundary + part)
        assert_dropped(receiver(), whole(http.head.encode(), body), "does not cover every part")

    def test_a_signature_in_an_unknown_header_is_none(self) -> None:
        side = receiver()
        wrapped = changed("(<Signature .*</Signature>)", r'<Wrap xmlns="urn:x">\1</Wrap>')
        assert side.post(wrapped) == 200
        assert not verdict(side).is_authenticated

    def test_a_signed_info_elsewhere_does_not_count(self) -> None:
        """Beside a Signature whose own SignedInfo is another one."""
        side = receiver()
        moved = changed(
            "(<Signature [^>]*>)(<SignedInfo>.*</SignedInfo>)", r"\1<Object>\2</Object>", signs=False
        )
        assert_dropped(side, moved, "missing")


def test_without_a_known_certificate_it_counts_as_unsigned() -> None:
    side = receiver(replace(ON, signers={}))
    assert side.post(load(SIGNED)) == 200
    assert not verdict(side).is_authenticated


def test_signatures_count_for_nothing_unless_they_are_on() -> None:
    for settings in (replace(ON, xml_signatures=False), ON):
        policy = VerificationPolicy(verify_signatures=not settings.xml_signatures)
        side = Side(name="MACHINE2", settings=settings, verifier=Verifier(lambda: TRUST, policy))
        side.create("orders")
        assert side.post(load(WRONG)) == 200
        assert not verdict(side).is_authenticated


# Sending.


@pytest.fixture(scope="module")
def signer() -> Signer:
    return Signer.new("here", datetime.now(UTC))


def send(side: Side, name: str, signer: Signer, message: Message) -> None:
    """As `send(sign=True)` of a queue does it."""
    opened, sending = side.box(name).open(QueueAccess.SEND), side.engine.sending
    certificate = signer.certificate.der
    packet, level = side.run(lambda: sending.to_sign(opened, message, certificate, is_transactional=False))
    signer.sign(message, packet, level)
    side.run(lambda: sending.send(opened, message))


THERE = "DIRECT=HTTP://there/msmq/private$/orders"


def pair(signer: Signer, *, is_on: bool = True) -> tuple[Net, Side, Side]:
    net = Net()
    here = net.add("here", settings=Settings(http_url="http://here", xml_signatures=is_on))
    known = Trust((TrustedCertificate("here", ALICE, signer.certificate),))
    settings = Settings(
        http_url="http://there",
        xml_signatures=True,
        signers={here.engine.queue_manager.identifier: ("here",)},
    )
    there = net.add("there", settings=settings, verifier=Verifier(lambda: known))
    there.create("orders", authentication=True)
    return net, here, there


@pytest.mark.conformance("SRMP-095", "SRMP-096")
@pytest.mark.parametrize("extension", [b"", b"extension"])
def test_a_signed_message_is_authenticated_there(signer: Signer, extension: bytes) -> None:
    net, here, there = pair(signer)
    send(here, THERE, signer, Message(b"body", label="<label>", extension=extension))
    net.settle()
    assert verdict(there) == Verdict(AuthenticationLevel.XML_SIG, 0, ALICE.encode(), name="here")
    found = there.box("orders").receive()
    assert (found.body, found.extension) == (b"body", extension)
    assert found.hash_algorithm == HashAlgorithm.SHA1


@pytest.mark.conformance("SRMP-092", "SRMP-096")
def test_the_signature_is_the_last_header_and_others_have_none(signer: Signer) -> None:
    net, here, _ = pair(signer)
    send(here, THERE, signer, Message(b"signed"))
    here.box(THERE).send(b"unsigned")
    net.settle()
    requests = [each for each in net.requests if each.startswith(b"POST")]
    assert b"</SignatureValue></Signature></se:Header>" in requests[0]
    assert b"Signature" not in requests[1]


def test_a_signed_message_is_not_sent_while_signatures_are_off(signer: Signer) -> None:
    net, here, _ = pair(signer, is_on=False)
    with pytest.raises(UnsupportedFormatNameOperationError, match="xml_signatures = true"):
        send(here, THERE, signer, Message(b"body"))
    net.settle()
    assert not net.requests


def test_a_list_with_an_http_name_cannot_be_signed(signer: Signer) -> None:
    _, here, _ = pair(signer)
    here.create("q")
    with pytest.raises(CannotSignDataExError, match="a list with an HTTP name"):
        send(here, rf"DIRECT=OS:.\private$\q,{THERE}", signer, Message(b"body"))
