"""A store that version 0.2.0 wrote is taken over at the start."""

import lzma
from pathlib import Path

import pytest

from tiercel.engine.check import Checker
from tiercel.model.codes import MessageClass
from tiercel.store.factory import open_snapshot
from tiercel.store.interface import Keyspace
from tiercel.store.lmdb_files import DATA_NAME, FORMAT_KEY, FORMAT_VERSION

from .harness import World

STORES = Path(__file__).parent.parent / "vectors" / "stores"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    tmp_path.chmod(0o700)
    data = lzma.decompress((STORES / "format1.mdb.xz").read_bytes())
    (tmp_path / DATA_NAME).write_bytes(data)
    return tmp_path


def test_it_can_be_read_before_it_is_taken_over(old: Path) -> None:
    with open_snapshot(old) as view:
        assert view.get(Keyspace.META, FORMAT_KEY) == b"1"
        assert view.count(Keyspace.MESSAGES) == 6


def test_its_messages_are_there(old: Path) -> None:
    world = World(old)
    far = world.box(r"DIRECT=TCP:192.0.2.9\private$\far")
    assert (world.box("orders").bodies(), world.box("paid").bodies()) == ([b"waits"], [b"in a transaction"])
    assert (world.dead_letters.bodies(), world.box("mine").bodies()) == ([b"dead"], [b"kept"])
    assert far.state.count == 2
    assert world.run(lambda: world.engine.batch.get(Keyspace.META, FORMAT_KEY)) == b"%d" % FORMAT_VERSION


def test_old_and_new_dead_letters_live_side_by_side(old: Path) -> None:
    world = World(old)
    world.now += 60
    world.box("orders").send(b"new", time_to_be_received=1, negative_journaling=True)
    world.sleep(60)
    world.restart()
    seen = world.run(lambda: list(world.engine.browsing.in_order(world.dead_letters.state, -1)))
    assert [each.record.reason for each in seen] == [0, MessageClass.NACK_RECEIVE_TIMEOUT]
    world.engine.stop()
    world.store.close()
    with open_snapshot(old) as view:
        assert not list(Checker(view).problems())
