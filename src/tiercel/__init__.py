"""Tiercel: a queue manager that speaks Microsoft Message Queuing natively on Linux."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    __version__: str
    from tiercel import aio, errors
    from tiercel.client.connecting import connect
    from tiercel.client.consumer import Claim, ClaimedMessage, Consumer
    from tiercel.client.daemon_sync import DaemonCursor, DaemonQueue, DaemonQueueManager
    from tiercel.client.embedded import open  # noqa: A004  # see there
    from tiercel.client.embedded_core import EmbeddedCursor, EmbeddedTransaction
    from tiercel.client.embedded_sync import EmbeddedQueue, EmbeddedQueueManager
    from tiercel.client.interfaces import Cursor, Queue, QueueManager, Transaction
    from tiercel.client.remote import RemoteCursor, RemoteQueue, RemoteQueueManager
    from tiercel.client.remote_message import RemoteMessage
    from tiercel.client.remote_session import RemoteTransaction
    from tiercel.model.codes import Acknowledgements, DeliveryGuarantee, MessageClass, MessageSeekAction
    from tiercel.model.errors import *  # noqa: F403  # every error is part of the API, by its own name
    from tiercel.model.format_name import FormatName
    from tiercel.model.message import Message
    from tiercel.model.path_name import PathName

    __all__ = [
        "Acknowledgements",
        "Claim",
        "ClaimedMessage",
        "Consumer",
        "Cursor",
        "DaemonCursor",
        "DaemonQueue",
        "DaemonQueueManager",
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
        "aio",
        "connect",
        "errors",
        "open",
    ]

# Loaded when they are first used: a Spark worker needs no queue manager, a command line no messages.
_HOMES = {
    "client.connecting": ("connect",),
    "client.consumer": ("Claim", "ClaimedMessage", "Consumer"),
    "client.daemon_sync": ("DaemonCursor", "DaemonQueue", "DaemonQueueManager"),
    "client.embedded": ("open",),
    "client.embedded_core": ("EmbeddedCursor", "EmbeddedTransaction"),
    "client.embedded_sync": ("EmbeddedQueue", "EmbeddedQueueManager"),
    "client.interfaces": ("Cursor", "Queue", "QueueManager", "Transaction"),
    "client.remote": ("RemoteCursor", "RemoteQueue", "RemoteQueueManager"),
    "client.remote_message": ("RemoteMessage",),
    "client.remote_session": ("RemoteTransaction",),
    "model.codes": ("Acknowledgements", "DeliveryGuarantee", "MessageClass", "MessageSeekAction"),
    "model.format_name": ("FormatName",),
    "model.message": ("Message",),
    "model.path_name": ("PathName",),
}
_MODULES = {name: f"tiercel.{home}" for home, names in _HOMES.items() for name in names}
_SUBMODULES = ("aio", "errors")


def __getattr__(name: str) -> object:
    if name in _SUBMODULES:
        return _import_module(f"tiercel.{name}")
    if name == "__all__":  # for type checkers and `import *`: the errors too, which `dir` leaves to `errors`
        value: object = sorted(_MODULES) + _import_module("tiercel.errors").__all__
    elif name == "__version__":
        value = _import_module("importlib.metadata").version("tiercel")
    elif name in _MODULES:
        value = getattr(_import_module(_MODULES[name]), name)
    elif name.endswith("Error") and name in _import_module("tiercel.errors").__all__:
        value = getattr(_import_module("tiercel.errors"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted((*_MODULES, *_SUBMODULES))
