"""[MS-MQDMPR] 3.1.4.1, 3.1.4.2: the queue manager starts and stops, and its protocols with it."""

import asyncio
from pathlib import Path
from unittest.mock import patch

import pytest

from tiercel.binary.protocol import BinaryProtocol
from tiercel.binary.settings import Settings
from tiercel.engine.engine import Engine
from tiercel.model.codes import QueueManagerState
from tiercel.model.path_name import PathName
from tiercel.security.descriptor import SecurityDescriptor
from tiercel.server.daemon import Daemon
from tiercel.wire.internal_packets import (
    ConnectionParameters,
    ConnectionParametersHeader,
    EstablishConnection,
    EstablishConnectionHeader,
)

from .scripted import configured, connect, ended

BOB = "S-1-5-21-1-2-3-1001"
LISTS = {
    "for_all": f"(A;;GA;;;{BOB})(A;;0x4;;;WD)",
    "for_bob": f"(A;;GA;;;{BOB})",
    "without_bob": f"(D;;0x4;;;{BOB})(A;;0x4;;;WD)",
    "for_anonymous": "(A;;0x4;;;S-1-5-7)",
}
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


@pytest.mark.parametrize("is_believed", [False, True])
def test_a_queue_that_names_senders_gets_a_warning_at_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_believed: bool
) -> None:
    """A list that grants everybody the right to send, and more to one account, is not concerned."""

    async def main() -> None:
        options = configured(tmp_path, access={"believe_unsigned_senders": is_believed})
        async with Daemon(options) as daemon:
            for name, entries in LISTS.items():
                security = SecurityDescriptor.parse(f"O:{BOB}D:{entries}").encode()
                path = PathName.parse(rf".\private$\{name}")

                def create(engine: Engine, path: PathName = path, security: bytes = security) -> None:
                    engine.queues.create(path, daemon.driver.owner, security=security)

                await daemon.call(create)
        caplog.clear()
        async with Daemon(options):
            pass

    asyncio.run(main())
    warned = [record for record in caplog.records if record.message == "senders_not_verified"]
    queues = [str(vars(record)["tiercel_fields"]["queue"]) for record in warned]
    assert [name for name in LISTS if any(name in queue for queue in queues)] == (
        [] if is_believed else ["for_bob", "without_bob"]
    )
    assert len(warned) == (0 if is_believed else 2)
