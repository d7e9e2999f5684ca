"""Tiercel: a queue manager that speaks Microsoft Message Queuing natively on Linux."""

from tiercel.client.consumer import Claim, ClaimedMessage, Consumer
from tiercel.client.embedded import Cursor, Queue, QueueManager, Transaction, open  # noqa: A004  # see there
from tiercel.client.remote import RemoteCursor, RemoteQueue, RemoteQueueManager, connect
from tiercel.client.remote_message import RemoteMessage
from tiercel.client.remote_session import RemoteTransaction
from tiercel.model import errors as _errors
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
    "DeliveryGuarantee",
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
