"""[MS-MQDMPR] 3.1.4.1, 3.1.4.2: the queue manager starts and stops, and its protocols with it."""

import asyncio
from pathlib import Path
from unittest.mock import patch

import pytest

from tiercel.binary.protocol import BinaryProtocol
from tiercel.binary.settings import Settings
from tiercel.engine.engine import Engine
from tiercel.model.codes import QueueManagerState
from tiercel.server.daemon import Daemon
from tiercel.wire.internal_packets import (
    ConnectionParameters,
    ConnectionParametersHeader,
    EstablishConnection,
    EstablishConnectionHeader,
)

from .scripted import configured, connect, ended

READY, STOPPED = QueueManagerState.READY, QueueManagerState.STOPPED
SET_UP = (
    EstablishConnection.of(EstablishConnectionHeader()).encode()
    + ConnectionParameters.of(ConnectionParametersHeader(500, 20_000)).encode()
)


class Noting(BinaryProtocol):
    """Notes what it is told, and in which state the queue manager is then."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        super().__init__(engine, settings)
        self.manager = engine.queue_manager
        self.told = [("made", self.manager.queue_manager_state)]

    def start(self) -> None:
        self.told.append(("start", self.manager.queue_manager_state))
        super().start()

    def stop(self) -> None:
        self.told.append(("stop", self.manager.queue_manager_state))
        super().stop()


@pytest.mark.conformance("DMPR-134")
def test_protocols_start_after_the_model_and_hear_of_its_end(tmp_path: Path) -> None:
    async def main() -> None:
        with patch("tiercel.server.transports.BinaryProtocol", Noting):
            daemon = Daemon(configured(tmp_path))
        protocol = daemon.protocol
        assert isinstance(protocol, Noting)
        await daemon.start()
        assert protocol.told == [("made", READY), ("start", READY)]
        reader, writer = await connect(daemon)
        writer.write(SET_UP)
        await reader.readexactly(len(SET_UP))
        assert len(protocol.sessions) == 1
        stopping = asyncio.ensure_future(daemon.stop())
        assert await ended(reader) == b""
        writer.close()
        await stopping
        assert (protocol.told[2:], protocol.sessions) == ([("stop", READY)], [])
        assert protocol.manager.queue_manager_state is STOPPED

    asyncio.run(main())
