"""Bearer tokens: the text they are kept in, whom one names, and what a role grants."""

import pytest

from tiercel.security.tokens import Bearer, Role, TokenError, Tokens, digest_of, new_token, roles_of

DIGEST = digest_of("secret")


def test_a_text_stays_as_it_is() -> None:
    text = f"# ours\n\nspark send,receive {DIGEST}\nreader read {digest_of('other')}\n"
    tokens = Tokens.parse(text)
    assert [(each.name, set(each.roles)) for each in tokens] == [
        ("spark", {Role.SEND, Role.RECEIVE}),
        ("reader", {Role.READ}),
    ]
    assert tokens.text() == text.replace("send,receive", "receive,send")
    assert Tokens.parse(tokens.text()).text() == tokens.text()


def test_only_the_token_itself_finds_its_bearer() -> None:
    tokens = Tokens.parse(f"spark send {DIGEST}\n")
    found = tokens.find("secret")
    assert found is not None
    assert found.name == "spark"
    for other in ("", "Secret", "secret ", DIGEST, "\udcff"):
        assert tokens.find(other) is None


def test_new_ones_differ_and_can_be_known() -> None:
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert all(token.startswith("tiercel_") and len(token) > 45 for token in tokens)


def test_grants() -> None:
    assert Role.READ.grants == {Role.READ}
    assert Role.SEND.grants == {Role.SEND}
    assert Role.RECEIVE.grants == {Role.RECEIVE, Role.READ}
    assert Role.ADMIN.grants == set(Role)
    assert Bearer("a", frozenset({Role.SEND, Role.RECEIVE}), DIGEST).grants == set(Role) - {Role.ADMIN}


def test_added_and_removed() -> None:
    tokens = Tokens.parse("# first\n").with_bearer(Bearer("a", frozenset({Role.READ}), DIGEST))
    assert tokens.text() == f"# first\na read {DIGEST}\n"
    bearer = tokens.get("a")
    assert bearer is not None
    assert tokens.without(bearer).text() == "# first\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a read", "line 1: expected a name, roles and a digest"),
        (f"\na write {DIGEST}", "line 2: 'write': the roles are read, send, receive, admin"),
        (f"a , {DIGEST}", "at least one role is required"),
        (f"a/b read {DIGEST}", "is not a valid name"),
        (f"a read {DIGEST[:-1]}", "64 hexadecimal digits"),
        (f"a read {DIGEST.upper()}", "64 hexadecimal digits"),
        (f"a read {DIGEST}\na send {DIGEST}", "a: there are two tokens of that name"),
    ],
)
def test_what_is_wrong_is_said(text: str, words: str) -> None:
    with pytest.raises(TokenError, match=words):
        Tokens.parse(text)


def test_roles_of_nothing_known() -> None:
    with pytest.raises(TokenError, match="the roles are"):
        roles_of("read,everything")
