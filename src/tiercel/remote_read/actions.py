"""What the service wants done by whoever has the connections; it may be done only after the commit."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from tiercel.remote_read.calls import Response

CallId = Hashable
"""How the RPC layer knows a call: the service gives it back as it came."""


class Reply(NamedTuple):
    """Answer the call; where nobody waits for that, it may go together with the next answer."""

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
    """Enlist in the transaction that the token tells of; the answer is `enlisted(call, transaction, ...)`."""

    call: CallId
    transaction: UUID
    token: bytes


Action = Reply | Fault | Enlist
