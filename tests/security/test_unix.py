import os

import pytest

from tiercel.model.sid import ANONYMOUS, AUTHENTICATED_USERS, EVERYONE
from tiercel.model.sid import SecurityIdentifier as Sid
from tiercel.security.unix import is_known_owner, sid_of_gid, sid_of_uid, token_of_process, token_of_uid


def test_sids_are_those_of_samba() -> None:
    assert str(sid_of_uid(1000)) == "S-1-22-1-1000"
    assert str(sid_of_gid(50)) == "S-1-22-2-50"
    assert token_of_uid(0, [4]).sids == {sid_of_uid(0), sid_of_gid(4), EVERYONE, AUTHENTICATED_USERS}


def test_this_process() -> None:
    token = token_of_process()
    assert token.user == sid_of_uid(os.geteuid())
    assert token.sids >= {token.user, sid_of_gid(os.getegid()), *map(sid_of_gid, os.getgroups())}
    assert not token.unrestricted


@pytest.mark.parametrize(
    ("sid", "known"),
    [
        ("S-1-22-1-0", True),
        ("S-1-5-21-1-2-3-1104", True),
        ("S-1-5-18", True),
        ("S-1-5-32-544", True),
        ("S-1-22-2-50", False),
        ("S-1-1-0", False),
        ("S-1-5-11", False),
        (str(ANONYMOUS), False),
    ],
)
def test_known_owners(sid: str, known: bool) -> None:
    assert is_known_owner(Sid.parse(sid)) is known
