"""Tiercel: a queue manager that speaks Microsoft Message Queuing natively on Linux."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

from tiercel.model import errors as _errors
from tiercel.model.codes import Acknowledgements, DeliveryGuarantee, MessageClass, MessageSeekAction
from tiercel.model.errors import *  # noqa: F403  # every error is part of the API, by its own name
from tiercel.model.format_name import FormatName
from tiercel.model.message import Message
from tiercel.model.path_name import PathName

if TYPE_CHECKING:
    from tiercel.client.consumer import Claim, ClaimedMessage, Consumer
    from tiercel.client.embedded import open  # noqa: A004  # see there
    from tiercel.client.embedded_core import EmbeddedCursor, EmbeddedTransaction
    from tiercel.client.embedded_sync import EmbeddedQueue, EmbeddedQueueManager
    from tiercel.client.interfaces import Cursor, Queue, QueueManager, Transaction
    from tiercel.client.remote import RemoteCursor, RemoteQueue, RemoteQueueManager, connect
    from tiercel.client.remote_message import RemoteMessage
    from tiercel.client.remote_session import RemoteTransaction

# Loaded when they are first used: a Spark worker that only decodes messages needs no queue manager.
_HOMES = {
    "consumer": ("Claim", "ClaimedMessage", "Consumer"),
    "embedded": ("open",),
    "embedded_core": ("EmbeddedCursor", "EmbeddedTransaction"),
    "embedded_sync": ("EmbeddedQueue", "EmbeddedQueueManager"),
    "interfaces": ("Cursor", "Queue", "QueueManager", "Transaction"),
    "remote": ("RemoteCursor", "RemoteQueue", "RemoteQueueManager", "connect"),
    "remote_message": ("RemoteMessage",),
    "remote_session": ("RemoteTransaction",),
}
_MODULES = {name: f"tiercel.client.{home}" for home, names in _HOMES.items() for name in names}

__all__ = [
    "Acknowledgements",
    "Claim",
    "ClaimedMessage",
    "Consumer",
    "Cursor",
    "DeliveryGuarantee",
    "EmbeddedCursor",
    "EmbeddedQueue",
    "EmbeddedQueueManager",
    "EmbeddedTransaction",
    "FormatName",
    "Message",
    "MessageClass",
    "MessageSeekAction",
    "PathName",
    "Queue",
    "QueueManager",
    "RemoteCursor",
    "RemoteMessage",
    "RemoteQueue",
    "RemoteQueueManager",
    "RemoteTransaction",
    "Transaction",
    "connect",
    "open",
]
__all__ += [name for name in vars(_errors) if name.endswith("Error")]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(_import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
