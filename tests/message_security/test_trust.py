import pytest

from tiercel.message_security.certificates import load_certificate
from tiercel.message_security.trust import Trust, TrustedCertificate, TrustError, parse_sid
from tiercel.model.sid import SecurityIdentifier

from .signing import certificate, trust

ALICE = SecurityIdentifier.parse("S-1-5-21-1-2-3-1001")
BOB = SecurityIdentifier.parse("S-1-5-21-1-2-3-1002")


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
