"""A store of format 1 is taken over: nothing in it is lost, doubled or believed without evidence.

It was written by version 0.2.0. To 192.0.2.12 there is a message that awaits its final ack, two that were
sent and one that was not; to 192.0.2.13, which is down, there is one.
"""

import gzip
from pathlib import Path
from uuid import UUID

import pytest

from engine.harness import Box
from tiercel.engine.belief import Doubt
from tiercel.engine.check import Checker
from tiercel.model.codes import MessageClass
from tiercel.model.identifiers import MessageId
from tiercel.store import open_snapshot
from tiercel.store.interface import Keyspace
from tiercel.store.lmdb_files import FORMAT_KEY
from tiercel.store.lmdb_store import LmdbStore
from tiercel.store.memory_store import MemoryStore
from tiercel.wire.user_message import UserMessage

from .nodes import Hand, Net, Qm
from .test_belief import order_ack, stored
from .test_transactional_sending import awaiting, send, sequences, waiting

VECTOR = Path(__file__).parents[1] / "vectors" / "stores" / "format1_streams.mdb.gz"
BODIES = [b"sent 1", b"sent 2", b"never sent"]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "data.mdb").write_bytes(gzip.decompress(VECTOR.read_bytes()))
    return tmp_path


@pytest.fixture
def spaces(directory: Path) -> dict[Keyspace, dict[bytes, bytes]]:
    store = LmdbStore.open(directory)
    batch = store.begin()
    found = {space: dict(batch.range(space, b"", b"\xff" * 512)) for space in Keyspace}
    batch.abort()
    store.close()
    return found


@pytest.fixture
def here(net: Net, spaces: dict[Keyspace, dict[bytes, bytes]]) -> Qm:
    net.down |= {"192.0.2.12", "192.0.2.13"}
    return net.qm("OLD", store=MemoryStore(spaces))


@pytest.fixture
def hand(net: Net, here: Qm) -> Hand:  # noqa: ARG001  # the addresses are given out in order
    return net.hand()


@pytest.fixture
def box(here: Qm, hand: Hand) -> Box:
    return here.to(hand, "tx")


def test_it_is_readable_before_and_has_a_new_format_after_it_was_opened(directory: Path) -> None:
    for version in (b"1", b"2"):
        with open_snapshot(directory) as view:
            assert view.get(Keyspace.META, FORMAT_KEY) == version
            assert [str(problem) for problem in Checker(view).problems()] == []
        LmdbStore.open(directory).close()


def test_everything_arrives_once_and_in_order(net: Net, here: Qm, hand: Hand, box: Box) -> None:
    assert (waiting(box), awaiting(here)) == (3, [b"awaits its final ack"])
    net.down.clear()
    net.sleep(10)
    assert hand.bodies == BODIES
    hand.ack()
    hand.order_ack(hand.messages[-1])
    assert waiting(box) == 0


def test_a_receiver_that_has_them_says_so(net: Net, here: Qm, hand: Hand, box: Box) -> None:
    """Its OrderAck may speak of more than was sent since the start."""
    here.configure(window_size=1)
    net.down.clear()
    net.sleep(10)
    assert hand.bodies == BODIES[:1]
    hand.order_ack(hand.messages[0], 2)
    hand.ack()
    net.settle()
    assert waiting(box) == 1


def test_nobody_is_believed_before_something_is_sent(here: Qm, hand: Hand, box: Box) -> None:
    hand.call(here)
    order_ack(hand, here, *stored(box)[-1].sequence)
    assert (waiting(box), here.protocol.doubts) == (3, {Doubt.NOT_SENT: 1})


def test_a_final_ack_that_is_right_counts(here: Qm, hand: Hand) -> None:
    """The old program did not remember who has the message."""
    found = here.engine._catalog.awaiting_final_ack.next_available(here.engine._core, 0)
    assert found is not None
    hand.call(here).final_ack(UserMessage(found[1].packet), MessageClass.ACK_RECEIVE)
    assert (awaiting(here), here.journal.bodies()) == ([], [b"awaits its final ack"])


def test_the_next_sequence_has_a_secret_ordinal(net: Net, hand: Hand, box: Box) -> None:
    net.down.clear()
    net.sleep(10)
    hand.ack()
    hand.order_ack(hand.messages[-1])
    send(box, b"new")
    old, *_, new = sequences(hand)
    assert new > old
    assert old & 0xFFFF_FFFF < 10 < 2**12 < new & 0xFFFF_FFFF


class TestMessagesThatCameBefore:
    """The history of format 1 has identities without checksums."""

    @pytest.fixture
    def spaces(
        self, spaces: dict[Keyspace, dict[bytes, bytes]], net: Net
    ) -> dict[Keyspace, dict[bytes, bytes]]:
        source, number = UUID("00000000-0000-4000-8000-0000000000aa"), 7
        row = int(net.now).to_bytes(8, "little") + source.bytes_le + number.to_bytes(4, "little")
        spaces[Keyspace.HISTORY][bytes(8)] = row
        return spaces

    @pytest.fixture
    def sender(self, here: Qm, hand: Hand) -> Hand:
        here.create("q")
        hand.guid = UUID("00000000-0000-4000-8000-0000000000aa")
        return hand

    def test_do_not_come_twice(self, here: Qm, sender: Hand) -> None:
        again, new = (
            sender.recoverable(here.name_of("q"), b"%d" % number, id=MessageId(sender.guid, number))
            for number in (7, 8)
        )
        sender.call(here).send(again, new)
        assert here.box("q").bodies() == [b"8"]
        sender.send(again)
        here.restart()
        sender.call(here).send(again, new)
        assert here.box("q").bodies() == [b"8"]

    def test_are_forgotten_in_time(self, net: Net, here: Qm, sender: Hand) -> None:
        assert len(here.engine.arrivals.history) == 1
        net.sleep(2 * 1800)
        assert len(here.engine.arrivals.history) == 0
        sender.call(here).send(sender.recoverable(here.name_of("q"), b"7", id=MessageId(sender.guid, 7)))
        assert here.box("q").bodies() == [b"7"]
