"""SIDs for the users and groups of this computer, as Samba makes them for accounts without one."""

import os
from collections.abc import Iterable
from typing import Final

from tiercel.model.sid import ADMINISTRATORS, LOCAL_SYSTEM
from tiercel.model.sid import SecurityIdentifier as Sid
from tiercel.security.access import Token

UNIX_AUTHORITY: Final = 22
_USERS, _GROUPS = 1, 2


def sid_of_uid(uid: int) -> Sid:
    """S-1-22-1-uid."""
    return Sid(UNIX_AUTHORITY, (_USERS, uid))


def sid_of_gid(gid: int) -> Sid:
    """S-1-22-2-gid."""
    return Sid(UNIX_AUTHORITY, (_GROUPS, gid))


def token_of_uid(uid: int, gids: Iterable[int] = ()) -> Token:
    return Token.for_user(sid_of_uid(uid), map(sid_of_gid, gids))


def token_of_process() -> Token:
    """The user under whose identity this process runs."""
    return token_of_uid(os.geteuid(), {os.getegid(), *os.getgroups()})


def is_known_owner(sid: Sid) -> bool:
    """Whether a queue can belong to this SID: a Unix user, a Windows account, the computer's own."""
    is_unix_user = sid.authority == UNIX_AUTHORITY and sid.sub_authorities[:1] == (_USERS,)
    is_windows_account = sid.authority == 5 and sid.sub_authorities[:1] == (21,)
    return is_unix_user or is_windows_account or sid in {LOCAL_SYSTEM, ADMINISTRATORS}
