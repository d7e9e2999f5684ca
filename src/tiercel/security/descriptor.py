"""Security descriptors: owner, group and access-control lists of an object. [MS-DTYP] 2.4.4 to 2.4.6.

Bytes are the self-relative form. Its header points to the parts, which may lie anywhere behind it, apart or
on top of each other; a value keeps their meaning, not their position. `encode` writes them as Windows
does: SACL, DACL, owner, group. Each part is read once and within its own bounds, so whatever the offsets
say, the work is at most two lists of 64 KiB.
"""

import re
import struct
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Final, Self

from tiercel.model.codes import QueueAccessMask
from tiercel.model.errors import DecodeError
from tiercel.model.sid import MAX_SUB_AUTHORITIES
from tiercel.model.sid import SecurityIdentifier as Sid
from tiercel.security import sddl

ACL_REVISION: Final = 2
ACL_REVISION_DS: Final = 4
INHERIT_ONLY_ACE: Final = sddl.ACE_FLAGS["IO"]

_REVISION = 1
_DESCRIPTOR = struct.Struct("<BBHIIII")
_OFFSETS = ("OffsetOwner", "OffsetGroup", "OffsetSacl", "OffsetDacl")
_ACL = struct.Struct("<BxHHxx")
_ACE = struct.Struct("<BBH")
_MASK = struct.Struct("<I")
_SID_MAX = 8 + 4 * MAX_SUB_AUTHORITIES

_NULL_ACL = "NO_ACCESS_CONTROL"  # how Windows spells a list that is present and NULL
_SID_TEXT = "[A-Z]{2}|S-1-[-0-9A-Fa-fx]+"
_ACL_TEXT = rf"((?:P|AR|AI)*)({_NULL_ACL}|(?:\([^()]*\))*)"
_TEXT = re.compile(rf"(?:O:({_SID_TEXT}))?(?:G:({_SID_TEXT}))?(?:D:{_ACL_TEXT})?(?:S:{_ACL_TEXT})?")


class Control(IntFlag):
    OWNER_DEFAULTED = 0x0001
    GROUP_DEFAULTED = 0x0002
    DACL_PRESENT = 0x0004
    DACL_DEFAULTED = 0x0008
    SACL_PRESENT = 0x0010
    SACL_DEFAULTED = 0x0020
    DACL_TRUSTED = 0x0040
    SERVER_SECURITY = 0x0080
    DACL_COMPUTED_INHERITANCE_REQUIRED = 0x0100
    SACL_COMPUTED_INHERITANCE_REQUIRED = 0x0200
    DACL_AUTO_INHERITED = 0x0400
    SACL_AUTO_INHERITED = 0x0800
    DACL_PROTECTED = 0x1000
    SACL_PROTECTED = 0x2000
    RM_CONTROL_VALID = 0x4000
    SELF_RELATIVE = 0x8000


_DACL_FLAGS = {"P": 0x1000, "AR": 0x0100, "AI": 0x0400}
_SACL_FLAGS = {"P": 0x2000, "AR": 0x0200, "AI": 0x0800}


class AceType(IntEnum):
    """The types whose rights and trustee are read; all others are kept as they came."""

    ACCESS_ALLOWED = 0
    ACCESS_DENIED = 1
    SYSTEM_AUDIT = 2


_TYPE_TEXT = {AceType.ACCESS_ALLOWED: "A", AceType.ACCESS_DENIED: "D", AceType.SYSTEM_AUDIT: "AU"}
_TYPE_OF = {text: ace_type for ace_type, text in _TYPE_TEXT.items()}


@dataclass(frozen=True, slots=True)
class Ace:
    """An entry that allows, denies or audits: 2.4.4.2, 2.4.4.4, 2.4.4.10."""

    type: AceType
    mask: int
    sid: Sid
    flags: int = 0
    extra: bytes = b""  # an entry may be longer than its fields; the rest is not interpreted

    @classmethod
    def parse(cls, text: str, rights: sddl.Names = QueueAccessMask) -> Self:
        """Read `(A;;WRITE_MESSAGE;;;WD)`; `rights` are the names that may be used."""
        fields = text.removeprefix("(").removesuffix(")").split(";")
        if len(fields) != 6 or fields[0] not in _TYPE_OF or fields[3] or fields[4]:
            raise DecodeError("SDDL", "ace", 0, f"{text[:200]!a} is not written like (A;;0x4;;;WD)")
        flags = sddl.parse_flags(fields[1], sddl.ACE_FLAGS, "ace-flag-string")
        mask = sddl.parse_rights(fields[2], rights)
        return cls(_TYPE_OF[fields[0]], mask, sddl.parse_sid(fields[5]), flags)

    def text(self, rights: sddl.Names | None = None) -> str:
        flags = sddl.format_flags(self.flags, sddl.ACE_FLAGS)
        mask = sddl.format_rights(self.mask, rights)
        return f"({_TYPE_TEXT[self.type]};{flags};{mask};;;{sddl.format_sid(self.sid)})"

    def encode(self) -> bytes:
        return _encode_ace(self.type, self.flags, _pack(_MASK, self.mask) + self.sid.encode() + self.extra)


@dataclass(frozen=True, slots=True)
class OpaqueAce:
    """An entry of a type that a queue manager does not need: object, callback, label and policy entries."""

    type: int
    flags: int
    data: bytes  # all that follows the header

    def __post_init__(self) -> None:
        if self.type in _TYPE_TEXT:
            raise ValueError(f"an entry of type {self.type} is an Ace")

    def text(self, _rights: sddl.Names | None = None) -> str:
        """For people only: SDDL has no words for it."""
        return f"({self.type:#04x};{sddl.format_flags(self.flags, sddl.ACE_FLAGS)};#{self.data.hex()})"

    def encode(self) -> bytes:
        return _encode_ace(self.type, self.flags, self.data)


@dataclass(frozen=True, slots=True)
class Acl:
    """An access control list, 2.4.5. The order of its entries decides."""

    aces: tuple[Ace | OpaqueAce, ...] = ()
    revision: int = ACL_REVISION

    def __post_init__(self) -> None:
        if self.revision not in {ACL_REVISION, ACL_REVISION_DS}:
            raise ValueError(f"an access control list of revision {self.revision} is neither 2 nor 4")

    def encode(self) -> bytes:
        body = b"".join(ace.encode() for ace in self.aces)
        return _pack(_ACL, self.revision, _ACL.size + len(body), len(self.aces)) + body


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityDescriptor:
    """2.4.6. Without a DACL everything is allowed; an empty one allows nothing."""

    control: int = 0
    owner: Sid | None = None
    group: Sid | None = None
    sacl: Acl | None = None
    dacl: Acl | None = None
    resource_manager_control: int = 0  # Sbz1, with a meaning when RM_CONTROL_VALID is set

    def __post_init__(self) -> None:
        """The bits that the parts imply are always set; a present DACL may still be None."""
        implied = Control.SELF_RELATIVE
        implied |= Control.DACL_PRESENT if self.dacl is not None else Control(0)
        implied |= Control.SACL_PRESENT if self.sacl is not None else Control(0)
        object.__setattr__(self, "control", int(self.control | implied))

    @classmethod
    def decode(cls, data: bytes) -> Self:
        if len(data) < _DESCRIPTOR.size:
            raise _error("Revision", 0, f"{len(data)} bytes are fewer than {_DESCRIPTOR.size}")
        revision, sbz1, control, *offsets = _DESCRIPTOR.unpack_from(data)
        if revision != _REVISION:
            raise _error("Revision", 0, f"{revision} is not {_REVISION}")
        if not control & Control.SELF_RELATIVE:
            raise _error("Control", 2, "the descriptor is not self-relative")
        for field, at, offset in zip(_OFFSETS, range(4, _DESCRIPTOR.size, 4), offsets, strict=True):
            if offset and not _DESCRIPTOR.size <= offset < len(data):
                raise _error(field, at, f"{offset} is not within {_DESCRIPTOR.size} and {len(data)}")
        owner, group, sacl, dacl = offsets
        # Windows would overlook such a list, and with a DACL all that it forbids.
        if sacl and not control & Control.SACL_PRESENT:
            raise _error("OffsetSacl", 12, "there is a list that Control calls absent")
        if dacl and not control & Control.DACL_PRESENT:
            raise _error("OffsetDacl", 16, "there is a list that Control calls absent")
        return cls(
            control=control,
            owner=_read_sid(data, owner, len(data)) if owner else None,
            group=_read_sid(data, group, len(data)) if group else None,
            sacl=_read_acl(data, sacl) if sacl else None,
            dacl=_read_acl(data, dacl) if dacl else None,
            resource_manager_control=sbz1,
        )

    def encode(self) -> bytes:
        offsets, body = [], b""
        for part in (self.sacl, self.dacl, self.owner, self.group):
            offsets.append(_DESCRIPTOR.size + len(body) if part is not None else 0)
            body += part.encode() if part is not None else b""
        sacl, dacl, owner, group = offsets
        fixed = (_REVISION, self.resource_manager_control, self.control, owner, group, sacl, dacl)
        return _pack(_DESCRIPTOR, *fixed) + body

    @classmethod
    def parse(cls, text: str, rights: sddl.Names = QueueAccessMask) -> Self:
        """Read SDDL such as `O:BAD:P(A;;GA;;;BA)(A;;WRITE_MESSAGE|0x20;;;WD)`, with the names of `rights`."""
        match = _TEXT.fullmatch(text)
        if match is None:
            problem = f"{text[:200]!a} is not written like O:BAG:SYD:(A;;0x4;;;WD)"
            raise DecodeError("SDDL", "text", 0, problem)
        owner, group, dacl_flags, dacl, sacl_flags, sacl = match.groups()
        control = Control(0)
        if dacl is not None:
            control |= Control.DACL_PRESENT | sddl.parse_flags(dacl_flags, _DACL_FLAGS, "acl-flag-string")
        if sacl is not None:
            control |= Control.SACL_PRESENT | sddl.parse_flags(sacl_flags, _SACL_FLAGS, "acl-flag-string")
        return cls(
            control=control,
            owner=sddl.parse_sid(owner) if owner else None,
            group=sddl.parse_sid(group) if group else None,
            sacl=_parse_acl(sacl, rights),
            dacl=_parse_acl(dacl, rights),
        )

    def text(self, rights: sddl.Names | None = None) -> str:
        """SDDL for Windows, or with the names of `rights` for people; `parse` reads both."""
        owner = f"O:{sddl.format_sid(self.owner)}" if self.owner else ""
        group = f"G:{sddl.format_sid(self.group)}" if self.group else ""
        dacl = _format_acl(self.dacl, self.control, _DACL_FLAGS, rights)
        sacl = _format_acl(self.sacl, self.control, _SACL_FLAGS, rights)
        dacl = f"D:{dacl}" if self.control & Control.DACL_PRESENT else ""
        sacl = f"S:{sacl}" if self.control & Control.SACL_PRESENT else ""
        return owner + group + dacl + sacl

    def __str__(self) -> str:
        return self.text()


def _error(field: str, at: int, problem: str, structure: str = "SECURITY_DESCRIPTOR") -> DecodeError:
    return DecodeError(structure, field, at, problem)


def _pack(layout: struct.Struct, *values: int) -> bytes:
    try:
        return layout.pack(*values)
    except struct.error as problem:
        raise ValueError(f"{values} do not fit into a security descriptor: {problem}") from None


def _encode_ace(ace_type: int, flags: int, data: bytes) -> bytes:
    if len(data) % 4:
        raise ValueError(f"an entry with {len(data)} bytes of data is not a multiple of 4 bytes")
    return _pack(_ACE, ace_type, flags, _ACE.size + len(data)) + data


def _read_sid(data: bytes, at: int, end: int) -> Sid:
    part = data[at : min(end, at + _SID_MAX)]
    size = 8 + 4 * part[1] if len(part) > 1 else 8
    try:
        return Sid.decode(part[:size])
    except DecodeError as error:
        raise _error(error.field, at + error.offset, error.problem, "SID") from None


def _read_acl(data: bytes, at: int) -> Acl:
    if at + _ACL.size > len(data):
        raise _error("AclRevision", at, f"needs {_ACL.size} bytes, {len(data) - at} are left", "ACL")
    revision, size, count = _ACL.unpack_from(data, at)
    if revision not in {ACL_REVISION, ACL_REVISION_DS}:
        raise _error("AclRevision", at, f"{revision} is neither 2 nor 4", "ACL")
    if not _ACL.size <= size <= len(data) - at:
        raise _error("AclSize", at + 2, f"{size} is not within {_ACL.size} and {len(data) - at}", "ACL")
    end, at, aces = at + size, at + _ACL.size, []
    for _ in range(count):
        ace, at = _read_ace(data, at, end)
        aces.append(ace)
    return Acl(tuple(aces), revision)  # the rest of the list is room for more entries


def _read_ace(data: bytes, at: int, end: int) -> tuple[Ace | OpaqueAce, int]:
    if at + _ACE.size > end:
        raise _error("AceType", at, f"needs {_ACE.size} bytes, {end - at} are left", "ACE")
    number, flags, size = _ACE.unpack_from(data, at)
    smallest = _ACE.size + _MASK.size if number in _TYPE_TEXT else _ACE.size
    if size % 4 or not smallest <= size <= end - at:
        problem = f"{size} is not a multiple of 4 within {smallest} and {end - at}"
        raise _error("AceSize", at + 2, problem, "ACE")
    body, end = at + _ACE.size, at + size
    if number not in _TYPE_TEXT:
        return OpaqueAce(number, flags, data[body:end]), end
    (mask,) = _MASK.unpack_from(data, body)
    sid = _read_sid(data, body + _MASK.size, end)
    extra = data[body + _MASK.size + len(sid.encode()) : end]
    return Ace(AceType(number), mask, sid, flags, extra), end


def _parse_acl(text: str | None, rights: sddl.Names) -> Acl | None:
    if text is None or text == _NULL_ACL:
        return None
    return Acl(tuple(Ace.parse(ace, rights) for ace in re.findall(r"\([^()]*\)", text)))


def _format_acl(acl: Acl | None, control: int, flags: dict[str, int], rights: sddl.Names | None) -> str:
    entries = _NULL_ACL if acl is None else "".join(ace.text(rights) for ace in acl.aces)
    return sddl.format_flags(control & sum(flags.values()), flags) + entries
