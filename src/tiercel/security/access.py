"""The access check: the one place that decides whether an account has a right. [MS-DTYP] 2.5.3.2."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

from tiercel.model.codes import QueueAccessMask, QueueManagerAccessMask
from tiercel.model.sid import ADMINISTRATORS, AUTHENTICATED_USERS, EVERYONE, LOCAL_SYSTEM
from tiercel.model.sid import ANONYMOUS as ANONYMOUS_LOGON
from tiercel.model.sid import SecurityIdentifier as Sid
from tiercel.security.descriptor import INHERIT_ONLY_ACE, Ace, AceType, SecurityDescriptor

GENERIC_READ: Final = 0x8000_0000
GENERIC_WRITE: Final = 0x4000_0000
GENERIC_EXECUTE: Final = 0x2000_0000
GENERIC_ALL: Final = 0x1000_0000
MAXIMUM_ALLOWED: Final = 0x0200_0000
ACCESS_SYSTEM_SECURITY: Final = 0x0100_0000
WRITE_DAC: Final = 0x0004_0000
READ_CONTROL: Final = 0x0002_0000

OWNER_RIGHTS: Final = Sid(3, (4,))


@dataclass(frozen=True, slots=True)
class GenericMapping:
    """The specific rights behind the generic ones, for one kind of object."""

    read: int
    write: int
    execute: int
    all: int

    def specific(self, mask: int) -> int:
        """`mask` with its generic rights replaced by specific ones."""
        mask = int(mask)  # ~ of an IntFlag would lose the bits that have no name
        for generic, meaning in (
            (GENERIC_READ, self.read),
            (GENERIC_WRITE, self.write),
            (GENERIC_EXECUTE, self.execute),
            (GENERIC_ALL, self.all),
        ):
            if mask & generic:
                mask = mask & ~generic | meaning
        return mask


# [MS-MQMQ] 2.2.24 and 2.2.23; they know no GENERIC_EXECUTE.
QUEUE_MAPPING: Final = GenericMapping(
    read=int(QueueAccessMask.QUEUE_GENERIC_READ),
    write=int(QueueAccessMask.QUEUE_GENERIC_WRITE),
    execute=0,
    all=int(QueueAccessMask.QUEUE_GENERIC_ALL),
)
QUEUE_MANAGER_MAPPING: Final = GenericMapping(
    read=int(QueueManagerAccessMask.MACHINE_GENERIC_READ),
    write=int(QueueManagerAccessMask.MACHINE_GENERIC_WRITE),
    execute=0,
    all=int(QueueManagerAccessMask.MACHINE_GENERIC_ALL),
)


@dataclass(frozen=True, slots=True)
class Token:
    """The SIDs of an account and its groups. Use the constructors below; they add the usual groups."""

    user: Sid
    sids: frozenset[Sid]
    unrestricted: bool = False  # every privilege, and no list is consulted

    @classmethod
    def for_user(cls, user: Sid, groups: Iterable[Sid] = ()) -> Self:
        """Somebody whose identity was proved."""
        return cls(user, frozenset({user, EVERYONE, AUTHENTICATED_USERS, *groups}))

    @classmethod
    def anonymous(cls) -> Self:
        """An anonymous user; Everyone includes all users ([MS-DTYP] 2.4.2.4), also this one."""
        return cls(ANONYMOUS_LOGON, frozenset({ANONYMOUS_LOGON, EVERYONE}))

    @classmethod
    def local_system(cls) -> Self:
        """The queue manager itself, and the program that embeds it: nothing is closed to them."""
        sids = {LOCAL_SYSTEM, EVERYONE, AUTHENTICATED_USERS, ADMINISTRATORS}
        return cls(LOCAL_SYSTEM, frozenset(sids), unrestricted=True)


ANONYMOUS: Final = Token.anonymous()


def allows(descriptor: SecurityDescriptor, token: Token, desired: int, mapping: GenericMapping) -> bool:
    """Whether `token` gets all rights of `desired`."""
    return granted(descriptor, token, desired, mapping) is not None


def granted(
    descriptor: SecurityDescriptor, token: Token, desired: int, mapping: GenericMapping
) -> int | None:
    """The rights of `desired` without the generic ones, or None when any of them is denied.

    MAXIMUM_ALLOWED adds everything that is allowed and nowhere denied, and is denied when there is nothing.
    """
    maximum = bool(desired & MAXIMUM_ALLOWED)
    wanted = mapping.specific(desired) & ~MAXIMUM_ALLOWED
    # The privileges of the pseudocode are all or nothing here.
    if wanted & ACCESS_SYSTEM_SECURITY and not token.unrestricted:
        return None
    if token.unrestricted or descriptor.dacl is None:
        return wanted | (mapping.all if maximum else 0)

    is_owner = descriptor.owner in token.sids
    # An object has no tree here, and conditions are not evaluated: opaque entries neither allow nor deny.
    aces = [ace for ace in descriptor.dacl.aces if isinstance(ace, Ace) and not ace.flags & INHERIT_ONLY_ACE]
    limits_owner = any(ace.sid == OWNER_RIGHTS for ace in aces)
    implied = READ_CONTROL | WRITE_DAC if is_owner and not limits_owner else 0
    remaining = wanted & ~implied
    allowed = denied = 0
    for ace in aces:
        if ace.sid not in token.sids and not (is_owner and ace.sid == OWNER_RIGHTS):
            continue
        # 2.4.3 leaves this to the writer of a descriptor; an entry counts literally all the same.
        mask = mapping.specific(ace.mask)
        if ace.type == AceType.ACCESS_ALLOWED:
            remaining &= ~mask
            allowed |= mask
        elif ace.type == AceType.ACCESS_DENIED:
            if remaining & mask:
                return None
            denied |= mask
    if remaining:
        return None
    if not maximum:
        return wanted
    # The pseudocode forgets the implied rights of the owner.
    return wanted | (implied | allowed & ~denied) & mapping.all or None
