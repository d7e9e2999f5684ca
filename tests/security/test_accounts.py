"""The text of the accounts, and who is found by which name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiercel.model.sid import SecurityIdentifier
from tiercel.security.accounts import Account, AccountError, Accounts, split_name, stable_sid
from tiercel.security.unix import is_known_owner

HASH = bytes(range(16))
SID = SecurityIdentifier.parse("S-1-5-21-1-2-3-1001")
TEXT = f"# who reads\nEXAMPLE\\reader:{SID}:{HASH.hex()}\n\nany::{HASH.hex()}\nEXAMPLE.ORG\\kim:{SID}:\n"


def test_the_text_is_kept() -> None:
    accounts = Accounts.parse(TEXT)
    reader, anyone, kim = accounts
    assert (reader.domain, reader.user, reader.sid, reader.nt_hash) == ("EXAMPLE", "reader", SID, HASH)
    assert (anyone.domain, anyone.given_sid, anyone.sid) == ("", None, stable_sid("any"))
    assert kim.nt_hash is None
    assert accounts.text() == TEXT
    assert HASH.hex() not in repr(reader)


def test_who_is_meant() -> None:
    accounts = Accounts.parse(TEXT)
    assert str(accounts.find("READER", "example")) == "EXAMPLE\\reader"
    assert accounts.find("reader", "") is None
    assert accounts.find("reader", "OTHER") is None
    assert str(accounts.find("any", "SOME-PC")) == "any"
    assert str(accounts.find("Any", "")) == "any"
    assert str(accounts.find("kim@example.org", "")) == "EXAMPLE.ORG\\kim"
    assert accounts.find("kim@example.com", "") is None


def test_the_account_of_the_domain_goes_before_the_one_of_all_domains() -> None:
    accounts = Accounts([Account("a"), Account("a", "D")])
    assert str(accounts.find("a", "d")) == "D\\a"
    assert str(accounts.find("a", "E")) == "a"


def test_change_and_remove() -> None:
    accounts = Accounts.parse(TEXT)
    changed = accounts.with_account(Account("Reader", "Example", None, HASH[::-1]))
    assert changed.text().splitlines()[1] == f"Example\\Reader::{HASH[::-1].hex()}"
    assert changed.with_account(Account("new")).text() == changed.text() + "new::\n"
    assert accounts.without(Account("reader", "EXAMPLE")).text() == TEXT.replace(
        f"EXAMPLE\\reader:{SID}:{HASH.hex()}\n", ""
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a:b", "line 1: expected DOMAIN"),
        ("#\n\na:S-1-x:", "line 3: 'a': 'S-1-x' is not written like"),
        ("a::xyz", "not hexadecimal"),
        ("a::00", "an NT hash has 16 bytes"),
        (":S-1-5-7:", "a name is required"),
        ("a\\b\\c::", "is not a valid account"),
        ("a \\b::", "is not a valid account"),
        ("a\0::", "is not a valid account"),
        ("x" * 257 + "::", "is not a valid account"),
        ("a::\nA::", "the account is there twice"),
    ],
)
def test_what_is_wrong_is_named(text: str, words: str) -> None:
    with pytest.raises(AccountError, match=words) as caught:
        Accounts.parse(text)
    assert "\n" not in str(caught.value)


@given(
    st.text(max_size=60)
    | st.lists(st.sampled_from(["a", "\\", ":", "#", "\n", "S-1-5", "00" * 16])).map("".join)
)
def test_any_text(text: str) -> None:
    try:
        accounts = Accounts.parse(text)
    except AccountError:
        return
    assert list(Accounts.parse(accounts.text())) == list(accounts)


@pytest.mark.parametrize(
    ("text", "user", "domain"),
    [("D\\u", "u", "D"), ("u@d.org", "u", "d.org"), ("u", "u", ""), ("D\\u@x", "u@x", "D")],
)
def test_names(text: str, user: str, domain: str) -> None:
    assert split_name(text) == (user, domain)


def test_a_sid_of_ours_is_stable_and_can_own() -> None:
    sid = stable_sid("Reader", "Example")
    assert str(sid) == str(stable_sid("READER", "EXAMPLE"))
    assert len({stable_sid(f"u{n}", d) for n in range(500) for d in ("", "d")}) == 1000
    assert is_known_owner(sid)
    assert sid.rid is not None
    assert sid.rid >= 1 << 31
