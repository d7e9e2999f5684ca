"""The security descriptor of a new queue: [MS-MQDMPR] 3.1.7.1.3.1."""

from collections.abc import Callable
from dataclasses import replace
from operator import attrgetter

from tiercel.model.codes import QueueAccessMask
from tiercel.model.sid import ANONYMOUS, EVERYONE
from tiercel.model.sid import SecurityIdentifier as Sid
from tiercel.security.descriptor import Ace, AceType, Acl, Control, SecurityDescriptor
from tiercel.security.unix import is_known_owner

_LOOK = QueueAccessMask.GET_QUEUE_PROPERTIES | QueueAccessMask.GET_QUEUE_PERMISSIONS
_NOTHING = QueueAccessMask(0)


def default_queue_descriptor(
    user: Sid,
    *,
    srmp: bool,
    supplied: SecurityDescriptor | None = None,
    machine_sid: Sid | None = None,
    # A Unix user counts as one of the domain, or every queue of a workgroup would grant Everyone everything.
    is_domain_user: Callable[[Sid], bool] = is_known_owner,
    is_guest: Callable[[Sid], bool] = attrgetter("is_guest"),
) -> SecurityDescriptor:
    """The descriptor of a queue that `user` creates; `supplied` parts are kept.

    `machine_sid` is the computer's account in a directory, when there is one and it can be read; `srmp` tells
    whether messages can reach the queue over SRMP. The two predicates are asked about the owner.
    """
    final = supplied or SecurityDescriptor()
    owner = final.owner or user
    is_known = is_domain_user(owner)
    if not is_known:
        owner = ANONYMOUS
    # DMPR T-35: the owner is never stored, and "updated in step 7" means 6, which took the supplied DACL.
    final = replace(final, owner=owner)
    if final.group is None:
        final = replace(final, control=final.control | Control.GROUP_DEFAULTED)
    if final.control & Control.DACL_PRESENT:
        return final

    is_trusted = is_known and not is_guest(owner)
    world = _LOOK if is_trusted else QueueAccessMask.QUEUE_GENERIC_ALL
    everyone_sends = QueueAccessMask.WRITE_MESSAGE if srmp else _NOTHING
    rights = (
        (EVERYONE, world | everyone_sends),
        (ANONYMOUS, everyone_sends),
        (machine_sid, _LOOK),
        (owner, QueueAccessMask.QUEUE_GENERIC_ALL if is_trusted else _NOTHING),
    )
    aces = (Ace(AceType.ACCESS_ALLOWED, int(mask), sid) for sid, mask in rights if sid is not None and mask)
    return replace(final, dacl=Acl(tuple(aces)))
