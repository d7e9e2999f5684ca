"""The actions that the protocol asks of the owner of the sockets; they may run only after the commit."""

from dataclasses import dataclass

from tiercel.pgm.outputs import Outgoing


@dataclass(frozen=True, slots=True)
class Join:
    """Receive what is sent to the group."""

    group: str


@dataclass(frozen=True, slots=True)
class Leave:
    group: str


@dataclass(frozen=True, slots=True)
class MulticastEvent:
    """Something for the log."""

    event: str  # lost, dropped, refused, failed
    address: str
    queue: str = ""
    reason: str = ""


Action = Outgoing | Join | Leave | MulticastEvent
