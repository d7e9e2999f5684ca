"""The transports of a queue manager on the network; outside their folders, only this file names them."""

from collections.abc import Callable
from random import SystemRandom
from typing import Any
from uuid import UUID

from tiercel.binary.actions import Action
from tiercel.binary.protocol import BinaryProtocol
from tiercel.binary.settings import Settings
from tiercel.engine.carriers import AbsentCarrier
from tiercel.engine.engine import Engine
from tiercel.pgm.protocol import MulticastProtocol
from tiercel.pgm.settings import Settings as PgmSettings
from tiercel.server.node import Node
from tiercel.srmp.protocol import SrmpProtocol
from tiercel.srmp.receipt_sender import ReceiptSender
from tiercel.srmp.settings import Settings as SrmpSettings


class Transports:
    srmp: SrmpProtocol | None = None
    multicast: MulticastProtocol | None = None

    def __init__(self, node: Node, settings: Settings, perform: Callable[[list[Action]], None]) -> None:
        """`perform` executes the actions of the binary protocol, and owns the sockets."""
        self.binary = BinaryProtocol(node.engine, settings)
        node.attach(self.binary, perform)
        _make_receipts(node.engine)

    def add_srmp(
        self, node: Node, settings: SrmpSettings, perform: Callable[[list[Any]], None]
    ) -> SrmpProtocol:
        """Carry HTTP names, too; `perform` executes the actions of SRMP."""
        self.srmp = SrmpProtocol(node.engine, settings, self._is_welcome, self._refusal)
        node.attach(self.srmp, perform)
        return self.srmp

    def add_multicast(
        self, node: Node, settings: PgmSettings, address: str, perform: Callable[[list[Any]], None]
    ) -> MulticastProtocol:
        """Carry MULTICAST= names, too; `address` is that of the interface."""
        self.multicast = MulticastProtocol(
            node.engine, settings, address, SystemRandom().random, self._is_welcome, self._refusal
        )
        node.attach(self.multicast, perform)
        return self.multicast

    def _is_welcome(self, address: str) -> bool:
        return self.binary.peers.is_router(address) or self.binary.peers.may_be_peer(address)

    def _refusal(self, senders: set[UUID], address: str) -> str:
        return self.binary.peers.refusal_of(senders, address)

    def start(self) -> None:
        """Once, in the first batch."""
        self.binary.start()

    def stop(self) -> None:
        """In the last batch."""
        self.binary.stop()
        if self.srmp is not None:
            self.srmp.stop()
        if self.multicast is not None:
            self.multicast.stop()

    def change_settings(self, settings: Settings) -> None:
        self.binary.change_settings(settings)


def expect_transports(engine: Engine) -> None:
    """Off the network, accept the names that a daemon on the same store would carry."""
    engine.carriers.register(AbsentCarrier(BinaryProtocol.carries, BinaryProtocol.kinds))
    if engine.queue_manager.srmp_pgm_support:  # the last daemon had multicast
        engine.carriers.register(AbsentCarrier(MulticastProtocol.carries, MulticastProtocol.kinds))
    if engine.queue_manager.srmp_http_support:  # the last daemon had SRMP
        engine.carriers.register(AbsentCarrier(SrmpProtocol.carries, SrmpProtocol.kinds))
    _make_receipts(engine)


def _make_receipts(engine: Engine) -> None:
    """Receipts that are due for messages that came over HTTP are made whether SRMP is on or not."""
    engine.delivery.tell_by(ReceiptSender(engine))
