"""Actions of the service, for the owner of the connections to perform after the commit."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from tiercel.remote_read.calls import Response

CallId = Hashable
"""Identifies a call to the RPC layer; opaque to the service."""


class Reply(NamedTuple):
    """Answer the call; a reply that is not awaited may be sent together with the next one."""

    call: CallId
    response: Response
    is_awaited: bool = True


@dataclass(frozen=True, slots=True)
class Fault:
    """End the call with a fault PDU; the status may be an HRESULT (MQRR trap 25)."""

    call: CallId
    status: int


@dataclass(frozen=True, slots=True)
class Enlist:
    """Enlist in the transaction of the token, then call `enlisted(call, transaction, ...)`."""

    call: CallId
    transaction: UUID
    token: bytes


Action = Reply | Fault | Enlist
