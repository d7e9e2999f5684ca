"""Receipts: how the senders of messages that came over HTTP are told what became of them.

They are made in the batch in which it happens, by every engine on the store, whether it is on the network or
not: a receipt that is due must not be forgotten because the daemon was not running.
"""

from typing import Protocol

from tiercel.model.codes import MessageClass
from tiercel.wire.user_message import UserMessage


class Receipts(Protocol):
    def acknowledge(self, packet: UserMessage, reason: MessageClass) -> None:
        """The message arrived, was received or failed, and its sender asked to be told that."""

    def ended(self, packet: UserMessage, reason: MessageClass) -> None:
        """A transactional message left its queue."""


class NoReceipts:
    """Of an engine without such a transport, which tests and tools use."""

    def acknowledge(self, packet: UserMessage, reason: MessageClass) -> None: ...

    def ended(self, packet: UserMessage, reason: MessageClass) -> None: ...
