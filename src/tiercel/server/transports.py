"""The transports of a queue manager on the network; outside their folders, only this file names them."""

from collections.abc import Callable

from tiercel.binary.actions import Action
from tiercel.binary.protocol import BinaryProtocol
from tiercel.binary.settings import Settings
from tiercel.engine.carriers import AbsentCarrier
from tiercel.engine.engine import Engine
from tiercel.server.node import Node


class Transports:
    def __init__(self, node: Node, settings: Settings, perform: Callable[[list[Action]], None]) -> None:
        """`perform` executes the actions of the binary protocol, and owns the sockets."""
        self.binary = BinaryProtocol(node.engine, settings)
        node.attach(self.binary, perform)

    def start(self) -> None:
        """Once, in the first batch."""
        self.binary.start()

    def stop(self) -> None:
        """In the last batch."""
        self.binary.stop()

    def change_settings(self, settings: Settings) -> None:
        self.binary.change_settings(settings)


def expect_transports(engine: Engine) -> None:
    """Off the network, accept the names that a daemon on the same store would carry."""
    engine.carriers.register(AbsentCarrier(BinaryProtocol.carries, BinaryProtocol.kinds))
