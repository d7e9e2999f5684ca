"""The queue manager's own properties and states: [MS-MQDMPR] 3.1.4.12, 3.1.4.13, 3.1.7.2.5, 3.1.7.2.6."""

from typing import Any

from tiercel.engine.attributes import (
    SETTABLE_OF_MANAGER,
    change,
    check_attributes,
    decode_queue_manager,
    encode_attributes,
)
from tiercel.engine.core import Core
from tiercel.engine.identity import Identity
from tiercel.model.errors import MqError, StoreDamagedError
from tiercel.model.queue_manager import QueueManager
from tiercel.store.interface import Keyspace

_QUEUE_MANAGER = b"queue_manager"


class Administration:
    def __init__(self, core: Core, queue_manager: QueueManager) -> None:
        self._core = core
        self._queue_manager = queue_manager

    def set_properties(self, **attributes: Any) -> None:
        """Changes attributes of the queue manager, durably."""
        check_attributes(self._queue_manager, attributes, SETTABLE_OF_MANAGER)
        change(self._queue_manager, attributes, self._core.seconds)
        self.save()

    def save(self) -> None:
        _save(self._core, self._queue_manager)

    def begin_flow_control(self) -> None:
        """Begin Flow Control ([MS-MQDMPR] 3.1.7.2.5): no message is taken until it ends."""
        self._queue_manager.throttled = True

    def end_flow_control(self) -> None:
        """End Flow Control ([MS-MQDMPR] 3.1.7.2.6)."""
        self._queue_manager.throttled = False

    def take_offline(self) -> None:
        """Take Offline ([MS-MQDMPR] 3.1.4.12)."""
        self._queue_manager.connection_active = False

    def bring_online(self) -> None:
        """Bring Online ([MS-MQDMPR] 3.1.4.13)."""
        self._queue_manager.connection_active = True


def load_queue_manager(core: Core, identity: Identity, *, hardened: bool | None = None) -> QueueManager:
    """The stored queue manager, or a new one for this computer; `hardened` changes HardenedSecurity."""
    manager = _load(core, identity)
    if hardened is not None and hardened != manager.hardened_security:
        manager.hardened_security = hardened
        _save(core, manager)
    return manager


def _load(core: Core, identity: Identity) -> QueueManager:
    stored = core.batch.get(Keyspace.META, _QUEUE_MANAGER)
    if stored is not None:
        return _decode(stored)
    manager = QueueManager(
        identifier=core.new_guid(),
        computer_name=identity.computer_name.partition(".")[0][:15].upper(),
        qualified_computer_name=identity.qualified_computer_name or identity.computer_name,
        create_time=core.seconds,
        modify_time=core.seconds,
    )
    _save(core, manager)
    return manager


def _save(core: Core, queue_manager: QueueManager) -> None:
    core.batch.put(Keyspace.META, _QUEUE_MANAGER, encode_attributes(queue_manager))


def _decode(data: bytes) -> QueueManager:
    try:
        return decode_queue_manager(data)
    except (ValueError, TypeError, MqError) as problem:
        sentence = f"its attributes cannot be read ({problem})"
        raise StoreDamagedError("queue manager", problem=sentence) from problem
