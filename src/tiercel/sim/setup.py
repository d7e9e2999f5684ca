"""The computers of a world, with the queues that each of them has."""

from functools import cache
from random import Random
from uuid import UUID

from tiercel.engine.engine import Engine
from tiercel.engine.identity import Identity
from tiercel.model.path_name import PathName
from tiercel.sim.machine import OWNER, START
from tiercel.store.interface import Keyspace
from tiercel.store.memory_store import MemoryStore

NAMES = ("ALPHA", "BRAVO", "CHARLIE", "DELTA")
TRANSACTIONAL_QUEUES = ("orders", "bills")
PLAIN_QUEUES = ("news", "notes")
SMALL_QUEUES = ("thimble", "thimbletx")  # a small quota: messages are soon refused
ADMIN_QUEUE = "admin"
QUEUES = (*TRANSACTIONAL_QUEUES, *PLAIN_QUEUES, *SMALL_QUEUES, ADMIN_QUEUE)
_SMALL_QUOTA_KIB = 2

Contents = dict[Keyspace, dict[bytes, bytes]]


def addresses_of(index: int) -> tuple[str, ...]:
    return (f"10.0.0.{index + 1}", f"10.0.1.{index + 1}")


def gateway_of(index: int) -> str:
    return f"10.0.9.{index + 1}"


def create(engine: Engine, queue: str) -> int:
    """Create one of the queues; returns its number."""
    quota = {"quota_kib": _SMALL_QUOTA_KIB} if queue in SMALL_QUEUES else {}
    state = engine.queues.create(
        PathName.parse(rf".\private$\{queue}"),
        OWNER,
        transactional=queue in TRANSACTIONAL_QUEUES or queue == SMALL_QUEUES[1],
        journaling=queue == "notes",
        **quota,
    )
    number = state.queue.private_queue_number
    assert number is not None
    return number


@cache
def installed(index: int) -> tuple[UUID, dict[str, int], Contents]:
    """A newly installed queue manager: its identifier, the numbers of its queues, its disk."""
    random = Random(f"machine {index}")  # noqa: S311 -- identifiers of a simulation
    store = MemoryStore()
    engine = Engine(
        store,
        Identity(NAMES[index], f"{NAMES[index]}.example", addresses_of(index)),
        now=START - 1000 + index,
        owner=OWNER,
        new_guid=lambda: UUID(int=random.getrandbits(128), version=4),
        everyone_may_send=True,
    )
    engine.begin(START - 1000 + index)
    numbers = {queue: create(engine, queue) for queue in QUEUES}
    engine.commit()
    contents = {space: dict(records) for space, records in store.spaces.items()}
    return engine.queue_manager.identifier, numbers, contents
