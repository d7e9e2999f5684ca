"""Security identifiers of senders and owners: [MS-DTYP] 2.4.2."""

import re
import struct
from dataclasses import dataclass
from typing import Final, Self

from tiercel.model.errors import DecodeError

MAX_SUB_AUTHORITIES: Final = 15
GUEST_RID: Final = 501  # DOMAIN_USER_RID_GUEST, [MS-SAMR] 2.2.1.14

_REVISION = 1
_FIXED = struct.Struct("<BB6s")
# The grammar requires a sub-authority, but packets may have none, and any SID must print and parse.
_TEXT = re.compile(
    rf"S-1-(0|[1-9][0-9]{{0,9}}|0x[0-9a-f]{{12}})((?:-(?:0|[1-9][0-9]{{0,9}})){{0,{MAX_SUB_AUTHORITIES}}})",
    re.ASCII | re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class SecurityIdentifier:
    authority: int
    sub_authorities: tuple[int, ...]

    def __post_init__(self) -> None:
        if not 0 <= self.authority < 2**48:
            raise DecodeError("SID", "IdentifierAuthority", 2, f"{self.authority} is not within 48 bits")
        if len(self.sub_authorities) > MAX_SUB_AUTHORITIES:
            problem = f"{len(self.sub_authorities)} sub-authorities are more than {MAX_SUB_AUTHORITIES}"
            raise DecodeError("SID", "SubAuthorityCount", 1, problem)
        for index, value in enumerate(self.sub_authorities):
            if not 0 <= value < 2**32:
                raise DecodeError("SID", "SubAuthority", 8 + 4 * index, f"{value} is not within 32 bits")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `S-1-5-21-...` ([MS-DTYP] 2.4.2.1)."""
        match = _TEXT.fullmatch(text)
        if match is None:
            raise DecodeError("SID", "text", 0, f"{text[:200]!a} is not written like S-1-5-21-1-2-3-1001")
        authority, rest = match.groups()
        # Base 0 also accepts the hexadecimal form.
        return cls(int(authority, 0), tuple(int(value) for value in rest.split("-")[1:]))

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the packet representation ([MS-DTYP] 2.4.2.2), which must fill `data`."""
        if len(data) < _FIXED.size:
            raise DecodeError("SID", "Revision", 0, f"{len(data)} bytes are fewer than {_FIXED.size}")
        revision, count, authority = _FIXED.unpack_from(data)
        if revision != _REVISION:
            raise DecodeError("SID", "Revision", 0, f"{revision} is not {_REVISION}")
        if count > MAX_SUB_AUTHORITIES:
            problem = f"{count} sub-authorities are more than {MAX_SUB_AUTHORITIES}"
            raise DecodeError("SID", "SubAuthorityCount", 1, problem)
        if len(data) != (size := _FIXED.size + 4 * count):
            problem = f"{len(data)} bytes are not the {size} of a SID with {count} sub-authorities"
            raise DecodeError("SID", "SubAuthority", _FIXED.size, problem)
        sub_authorities = struct.unpack_from(f"<{count}I", data, _FIXED.size)
        return cls(int.from_bytes(authority, "big"), sub_authorities)

    def encode(self) -> bytes:
        count = len(self.sub_authorities)
        fixed = _FIXED.pack(_REVISION, count, self.authority.to_bytes(6, "big"))
        return fixed + struct.pack(f"<{count}I", *self.sub_authorities)

    def __str__(self) -> str:
        authority = str(self.authority) if self.authority < 2**32 else f"0x{self.authority:012X}"
        return "-".join(("S-1", authority, *map(str, self.sub_authorities)))

    @property
    def rid(self) -> int | None:
        """The relative identifier, unique within its domain."""
        return self.sub_authorities[-1] if self.sub_authorities else None

    @property
    def is_guest(self) -> bool:
        """Whether this is the guest account of a domain or computer: S-1-5-21-...-501."""
        return self.authority == 5 and self.sub_authorities[:1] == (21,) and self.rid == GUEST_RID


EVERYONE: Final = SecurityIdentifier(1, (0,))
ANONYMOUS: Final = SecurityIdentifier(5, (7,))
AUTHENTICATED_USERS: Final = SecurityIdentifier(5, (11,))
LOCAL_SYSTEM: Final = SecurityIdentifier(5, (18,))
ADMINISTRATORS: Final = SecurityIdentifier(5, (32, 544))
