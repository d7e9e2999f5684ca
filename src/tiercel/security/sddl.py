"""How flags, rights and well-known SIDs are spelled in a security descriptor's text: [MS-DTYP] 2.5.1.1."""

import re
from collections.abc import Mapping
from enum import IntFlag
from typing import Final

from tiercel.model.errors import DecodeError
from tiercel.model.sid import ADMINISTRATORS, ANONYMOUS, AUTHENTICATED_USERS, EVERYONE, LOCAL_SYSTEM
from tiercel.model.sid import SecurityIdentifier as Sid

SID_TOKENS: Final = {
    "WD": EVERYONE,
    "AN": ANONYMOUS,
    "AU": AUTHENTICATED_USERS,
    "SY": LOCAL_SYSTEM,
    "BA": ADMINISTRATORS,
    "BU": Sid(5, (32, 545)),
    "BG": Sid(5, (32, 546)),
    "CO": Sid(3, (0,)),
    "OW": Sid(3, (4,)),
}
_TOKEN_OF = {sid: token for token, sid in SID_TOKENS.items()}

ACE_FLAGS: Final = {"CI": 0x02, "OI": 0x01, "NP": 0x04, "IO": 0x08, "ID": 0x10, "SA": 0x40, "FA": 0x80}
RIGHTS: Final = {
    "GR": 0x8000_0000,
    "GW": 0x4000_0000,
    "GX": 0x2000_0000,
    "GA": 0x1000_0000,
    "WO": 0x0008_0000,
    "WD": 0x0004_0000,
    "RC": 0x0002_0000,
    "SD": 0x0001_0000,
}
_LETTERS = re.compile(f"(?:{'|'.join(RIGHTS)})+")
_HEXADECIMAL = re.compile("0x[0-9A-Fa-f]{1,8}")

Names = type[IntFlag]  # an access mask whose members may be written by their names


def format_sid(sid: Sid) -> str:
    return _TOKEN_OF.get(sid) or str(sid)


def parse_sid(text: str) -> Sid:
    return SID_TOKENS.get(text) or Sid.parse(text)


def format_flags(bits: int, spelling: Mapping[str, int]) -> str:
    """The letters of `bits`; bits without a letter in hexadecimal."""
    letters = "".join(name for name, bit in spelling.items() if bits & bit)
    rest = bits & ~sum(spelling.values())
    return f"{letters}{rest:#x}" if rest else letters


def parse_flags(text: str, spelling: Mapping[str, int], field: str) -> int:
    names = re.findall("|".join(spelling), text)
    if "".join(names) != text:
        raise DecodeError("SDDL", field, 0, f"{text[:80]!a} is not made of {' '.join(spelling)}")
    return sum({spelling[name] for name in names})


def format_rights(mask: int, names: Names | None) -> str:
    """As Windows reads it; with `names`, the fewest names that say it, joined by `|`, for people."""
    found = []
    members = names.__members__.items() if names else ()
    for name, value in sorted(members, key=lambda member: -member[1].bit_count()):
        if mask & value == value:
            found.append(name)
            mask &= ~int(value)  # ~ of a flag would lose the bits that have no name
    if mask or not found:
        letters = format_flags(mask, RIGHTS)
        found.append(letters if _LETTERS.fullmatch(letters) else f"{mask:#x}")
    return "|".join(found)


def parse_rights(text: str, names: Names) -> int:
    """Rights joined by `|`: names, letters such as GRGW, hexadecimal numbers."""
    mask = 0
    for right in text.split("|"):
        if right in names.__members__:
            mask |= int(names[right])
        elif _HEXADECIMAL.fullmatch(right):
            mask |= int(right, 16)
        elif _LETTERS.fullmatch(right):
            mask |= parse_flags(right, RIGHTS, "ace-rights")
        else:
            known = (
                f"a number such as 0x4, letters of {' '.join(RIGHTS)} or one of {' '.join(names.__members__)}"
            )
            raise DecodeError("SDDL", "ace-rights", 0, f"{right[:80]!a} is not {known}")
    return mask
