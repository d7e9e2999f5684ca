r"""Accounts by name in access lists: `D:(A;;RECEIVE_MESSAGE;;;EXAMPLE\reader)`.

An entry may name an account of `[accounts]` instead of its SID. What is stored, and shown again, is the SID.
"""

import re
from typing import Final

from tiercel.model.errors import IllegalSecurityDescriptorError
from tiercel.security.accounts import Directory, split_name

_WHO: Final = re.compile(r";([^;()]*)\)")  # the last field of an entry
_KNOWN: Final = re.compile(r"[A-Z]{2}|S-1-[-0-9A-Fa-fx]+|")  # names of SDDL, and SIDs


def with_sids(sddl: str, accounts: Directory) -> str:
    """The text with SIDs only; an unknown account is an error."""

    def sid_of(found: "re.Match[str]") -> str:
        name = found[1]
        if _KNOWN.fullmatch(name):
            return found[0]
        account = accounts.find(*split_name(name))
        if account is None:
            fix = "add it with `tiercel user add`, or give its SID"
            raise IllegalSecurityDescriptorError(
                "property security", problem=f"{name[:60]!a} is not an account of [accounts]", fix=fix
            )
        return f";{account.sid})"

    return _WHO.sub(sid_of, sddl)
