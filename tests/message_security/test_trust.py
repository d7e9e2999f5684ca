import hashlib
from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509 import load_der_x509_certificate

from tiercel.message_security.certificates import load_certificate
from tiercel.message_security.providers import ADVANCED, ENHANCED
from tiercel.message_security.trust import (
    Trust,
    TrustedCertificate,
    TrustError,
    import_certificates,
    import_keys,
    parse_sid,
)
from tiercel.model.sid import SecurityIdentifier
from tiercel.wire.public_keys import MQDSPublicKey
from tiercel.wire.user_certificates import MQUserSignCert, MQUserSignCerts

from .encrypting import known as trusted
from .encrypting import ring
from .signing import certificate, trust

GUID = UUID("00112233-4455-6677-8899-aabbccddeeff")

ALICE = SecurityIdentifier.parse("S-1-5-21-1-2-3-1001")
BOB = SecurityIdentifier.parse("S-1-5-21-1-2-3-1002")
USERS = SecurityIdentifier.parse("S-1-5-32-545")


def test_a_certificate_is_found_by_its_bytes() -> None:
    known = trust(alice=ALICE, bob=BOB)
    found = known.find(certificate("bob"))
    assert found is not None
    assert (found.name, found.sid) == ("bob", BOB)
    assert known.find(certificate("carol")) is None
    assert known.find(certificate("bob")[:-1]) is None


def test_the_text_keeps_comments_and_comes_back() -> None:
    text = f"# senders\n\n{trust(alice=ALICE).text()}"
    known = Trust.parse(text)
    assert known.text() == text
    assert [each.name for each in known] == ["alice"]
    assert len(known) == 1
    assert known.without("alice").text() == "# senders\n\n"


@pytest.mark.conformance("DMPR-068")
def test_a_user_has_digests_and_packed_certificates() -> None:
    """[MS-MQDMPR] 3.1.1.15"""
    known = trust(alice=ALICE, bob=BOB, other=ALICE)
    user = known.user(ALICE)
    assert user is not None
    ders = [certificate("alice"), certificate("other")]
    assert user.security_identifier == ALICE
    assert list(user.certificate_digest_list) == [hashlib.md5(der).digest() for der in ders]  # noqa: S324
    packed = MQUserSignCerts.decode(user.certificates).certificates
    assert [each.certificate for each in packed] == ders
    assert len({each.identifier for each in packed}) == 2
    assert known.user(parse_sid("S-1-5-32-545")) is None


def test_certificates_are_imported_from_every_form() -> None:
    der, other = certificate("alice"), certificate("bob")
    listed = MQUserSignCerts.of(tuple(MQUserSignCert.of(GUID, each) for each in (der, other)))
    pem = load_der_x509_certificate(der).public_bytes(Encoding.PEM)
    for data, ders in ((der, [der]), (pem, [der]), (listed.encode(), [der, other])):
        assert [each.der for each in import_certificates(data)] == ders
    with pytest.raises(TrustError, match="not a certificate"):
        import_certificates(listed.encode()[:-1])


class TestGroups:
    def test_they_stand_behind_the_account(self) -> None:
        entry = TrustedCertificate("alice", ALICE, load_certificate(certificate("alice")), (BOB, USERS))
        text = Trust((entry,)).text()
        assert text.startswith(f"alice {ALICE},{BOB},{USERS} ")
        assert list(Trust.parse(text)) == [entry]

    def test_an_account_is_in_those_of_all_its_certificates(self) -> None:
        first, second = load_certificate(certificate("alice")), load_certificate(certificate("other"))
        known = Trust(
            (TrustedCertificate("a", ALICE, first, (BOB,)), TrustedCertificate("b", ALICE, second, (USERS,)))
        )
        assert known.groups_of(ALICE.encode()) == {BOB, USERS}
        assert known.groups_of(BOB.encode()) == frozenset()

    def test_one_that_is_no_sid_is_refused(self) -> None:
        with pytest.raises(TrustError, match="not a valid SID"):
            Trust.parse(trust(alice=ALICE).text().replace(str(ALICE), f"{ALICE},"))


def test_adding_and_removing() -> None:
    known = trust(alice=ALICE)
    entry = TrustedCertificate("bob", BOB, load_certificate(certificate("bob")))
    assert [each.name for each in known.added(entry)] == ["alice", "bob"]
    with pytest.raises(TrustError, match="entry exists"):
        known.added(TrustedCertificate("alice", BOB, load_certificate(certificate("bob"))))
    with pytest.raises(TrustError, match="known already, as alice"):
        known.added(TrustedCertificate("bob", BOB, load_certificate(certificate("alice"))))
    with pytest.raises(TrustError, match="no such entry"):
        known.without("bob")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("alice", "line 1: expected"),
        ("\nalice S-1-5-32-544 AAAA", "line 2: alice: the certificate cannot be read"),
        ("alice S-1-5-32-544 ?", "cannot be read"),
        ("alice S-1-5-32-544 \u00e9", "cannot be read"),
        ("a/b S-1-5-32-544 {der}", "not a valid name"),
        ("alice somebody {der}", "not a valid SID"),
        ("alice S-1-5-32-544 {der}\nalice S-1-5-32-544 {other}", "two entries"),
        ("alice S-1-5-32-544 {der}\nbob S-1-5-32-544 {der}", "twice"),
    ],
)
def test_invalid_texts(text: str, problem: str) -> None:
    lines = [trust(alice=ALICE).text().split()[2], trust(bob=BOB).text().split()[2]]
    with pytest.raises(TrustError, match=problem):
        Trust.parse(text.format(der=lines[0], other=lines[1]))


def test_sids() -> None:
    assert parse_sid("S-1-5-21-1-2-3-1001") == ALICE


class TestQueueManagers:
    def test_they_are_found_by_guid_and_host(self) -> None:
        known = trusted(GUID, "there", "192.0.2.7")
        assert known.queue_manager(GUID) is known.queue_managers[0]
        assert known.queue_manager_at("THERE") is known.queue_managers[0]
        assert known.queue_manager(UUID(int=9)) is None
        assert known.queue_manager_at("elsewhere") is None
        assert (len(known), known.get("there")) == (0, None)

    def test_the_text_comes_back(self) -> None:
        for hosts in (("there", "192.0.2.7", "2001:db8::1"), ()):
            text = f"# keys\n{trusted(GUID, *hosts).text()}{trust(alice=ALICE).text()}"
            again = Trust.parse(text)
            assert again.text() == text
            assert again.queue_managers == trusted(GUID, *hosts).queue_managers
            assert [each.name for each in again] == ["alice"]

    def test_adding_and_replacing(self) -> None:
        (old,) = trusted(GUID, "there").queue_managers
        known = trust(alice=ALICE).added(old)
        for other in (
            replace(old, name="alice", guid=UUID(int=9), hosts=()),
            replace(old, name="other", hosts=()),
            replace(old, name="other", guid=UUID(int=9)),
        ):
            with pytest.raises(TrustError, match=r"entry exists|known already"):
                known.added(other)
        new = replace(old, keys=old.keys[:1])
        assert known.replaced(new).queue_managers == [new]
        with pytest.raises(TrustError, match="entry exists"):
            known.replaced(replace(old, guid=UUID(int=9)))
        assert known.without("there").queue_managers == []

    @pytest.mark.parametrize(
        ("change", "problem"),
        [
            (lambda line: line.replace(str(GUID), "guid"), "cannot be read"),
            (lambda line: line[:-8], "cannot be read"),
            (lambda line: line.replace("there ", "there a/b,", 1).replace(",there", "", 1), "cannot be read"),
            (lambda line: f"{line}\n{line.replace('there', 'other', 1)}", "two queue managers"),
        ],
    )
    def test_invalid_lines(self, change: Callable[[str], str], problem: str) -> None:
        with pytest.raises(TrustError, match=problem):
            Trust.parse(change(trusted(GUID, "there").text().strip()))

    def test_keys_that_cannot_be_used(self) -> None:
        (good,) = trusted(GUID).queue_managers
        for keys in (
            (),
            (MQDSPublicKey.of(1, "unknown provider", good.keys[0].key),),
            (MQDSPublicKey.of(24, good.keys[0].provider_name, b"noise"),),
        ):
            with pytest.raises(TrustError):
                replace(good, keys=keys)


class TestImportedKeys:
    """A key comes as CryptoAPI writes it, as PEM, or with others as `tiercel key export` writes them."""

    def test_every_form(self) -> None:
        own = ring(ADVANCED)
        blob, public = own.keys[0].blob, own.keys[0].key.public_key()
        pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        for data in (blob, pem, own.published().encode()):
            assert import_keys(data, ADVANCED) == own.published().keys
        assert [key.provider_type for key in import_keys(blob, ENHANCED)] == [1]
        assert len(import_keys(ring().published().encode(), ADVANCED)) == 3

    @pytest.mark.parametrize("data", [b"", b"noise", b"-----BEGIN PUBLIC KEY-----\nx\n", b"-----BEGIN"])
    def test_anything_else_is_refused(self, data: bytes) -> None:
        with pytest.raises(TrustError):
            import_keys(data, ADVANCED)

    def test_a_certificate_in_pem(self) -> None:
        pem = load_der_x509_certificate(certificate("alice")).public_bytes(Encoding.PEM)
        (key,) = import_keys(pem, ADVANCED)
        assert key.provider_name == ADVANCED.name
