"""[MS-MQDMPR] 3.1.1.17 and the share rules of 3.1.7.1.5: what an opening may do, and what it shuts out."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from tiercel.engine.handles import OpenQueue
from tiercel.model.codes import MessageSeekAction, QueueAccess, ShareMode
from tiercel.model.errors import UnsupportedAccessModeError
from tiercel.model.message import Message

from .harness import Box, World, refused

RECEIVE, SEND, PEEK, MOVE = QueueAccess.RECEIVE, QueueAccess.SEND, QueueAccess.PEEK, QueueAccess.MOVE
RECEIVE_ADMIN, PEEK_ADMIN = QueueAccess.RECEIVE_ADMIN, QueueAccess.PEEK_ADMIN
DENY_NONE, DENY_RECEIVE = ShareMode.DENY_NONE, ShareMode.DENY_RECEIVE

NOT_FOUND = 0xC00E0003
INVALID_HANDLE = 0xC00E0007
SHARING_VIOLATION = 0xC00E0009
ACCESS_DENIED = 0xC00E0025


@pytest.fixture
def box(world: World) -> Box:
    return world.create("q")


EXISTING = [(RECEIVE, DENY_NONE), (RECEIVE, DENY_RECEIVE), (PEEK, DENY_NONE), (PEEK, DENY_RECEIVE)]


def clashes(first: tuple[QueueAccess, ShareMode], second: tuple[QueueAccess, ShareMode]) -> bool:
    """The three rules of 3.1.7.1.5, as the text has them."""
    (held, held_share), (wanted, wanted_share) = first, second
    if (held, held_share) == (RECEIVE, DENY_RECEIVE):
        return wanted_share == DENY_RECEIVE or wanted == RECEIVE
    if (held, held_share) == (PEEK, DENY_RECEIVE):
        return wanted == RECEIVE
    if (held, held_share) == (RECEIVE, DENY_NONE):
        return wanted_share == DENY_RECEIVE
    return False


class TestSharing:
    @pytest.mark.conformance("DMPR-179", "DMPR-180", "DMPR-181", "DMPR-114")
    @pytest.mark.parametrize("first", EXISTING)
    @pytest.mark.parametrize("second", [*EXISTING, (SEND, DENY_NONE)])
    def test_every_pair(
        self,
        world: World,
        box: Box,
        first: tuple[QueueAccess, ShareMode],
        second: tuple[QueueAccess, ShareMode],
    ) -> None:
        held = box.open(*first)
        if not clashes(first, second):
            box.open(*second)
            return
        with refused(SHARING_VIOLATION):
            box.open(*second)
        world.run(lambda: world.engine.opening.close(held))
        box.open(*second)

    def test_a_sender_shuts_nobody_out(self, box: Box) -> None:
        """None of the rules knows it, and who may only write must not keep the readers away."""
        with suppress(UnsupportedAccessModeError):
            box.open(SEND, DENY_RECEIVE)
        box.open(RECEIVE)

    @pytest.mark.conformance("DMPR-180")
    def test_admin_access_counts_as_what_it_is(self, world: World) -> None:
        away = world.box(r"DIRECT=OS:there\private$\q")
        away.send(b"1")
        away.open(PEEK_ADMIN, DENY_RECEIVE)
        with refused(SHARING_VIOLATION):
            away.open(RECEIVE_ADMIN)


Operation = Callable[[World, Box, OpenQueue], object]
OPERATIONS: dict[str, tuple[Operation, set[QueueAccess]]] = {
    "send": (lambda world, _, opened: world.engine.sending.send(opened, Message(b"x")), {SEND}),
    "receive": (lambda world, _, opened: world.engine.reading.receive(opened, 0), {RECEIVE, RECEIVE_ADMIN}),
    "peek": (
        lambda world, _, opened: world.engine.reading.peek(opened, 0),
        {RECEIVE, PEEK, RECEIVE_ADMIN, PEEK_ADMIN},
    ),
    "purge": (lambda world, _, opened: world.engine.purging.purge(opened), {RECEIVE, RECEIVE_ADMIN}),
    "cursor": (
        lambda world, _, opened: world.engine.opening.open_cursor(opened),
        {RECEIVE, PEEK, RECEIVE_ADMIN, PEEK_ADMIN},
    ),
    "receive by lookup id": (
        lambda world, _, opened: world.engine.reading.read_by_lookup_id(
            opened, 0, MessageSeekAction.SEEK_FIRST, peek=False
        ),
        {RECEIVE, RECEIVE_ADMIN},
    ),
    "move out": (
        lambda world, box, opened: world.engine.moving.move(
            opened, box.peek().lookup_id, box.subqueue("s").handle(MOVE)
        ),
        {RECEIVE},
    ),
}


class TestQueueAccessType:
    """3.1.1.17."""

    @pytest.mark.conformance("DMPR-115")
    @pytest.mark.parametrize("access", [RECEIVE, SEND, PEEK, MOVE, RECEIVE_ADMIN, PEEK_ADMIN])
    @pytest.mark.parametrize("name", OPERATIONS)
    def test_every_operation_with_every_access(
        self, world: World, box: Box, name: str, access: QueueAccess
    ) -> None:
        operation, allowed = OPERATIONS[name]
        each = world.box(r"DIRECT=OS:there\private$\q") if access & QueueAccess.ADMIN else box
        each.send(b"1")
        opened = each.open(access)
        if access in allowed:
            world.run(lambda: operation(world, each, opened))
        elif name != "move out" or not access & QueueAccess.ADMIN:
            with refused(ACCESS_DENIED):
                world.run(lambda: operation(world, each, opened))

    @pytest.mark.conformance("DMPR-115")
    @pytest.mark.parametrize("access", [RECEIVE, PEEK])
    def test_an_outgoing_queue_is_read_with_admin_access_only(
        self, world: World, access: QueueAccess
    ) -> None:
        away = world.box(r"DIRECT=OS:there\private$\q")
        away.send(b"1")
        with refused(NOT_FOUND):
            away.open(access)

    def test_a_closed_handle_does_nothing_more(self, world: World, box: Box) -> None:
        opened = box.open(RECEIVE)
        for _ in range(2):
            world.run(lambda: world.engine.opening.close(opened))
        with refused(INVALID_HANDLE):
            world.run(lambda: world.engine.reading.peek(opened, 0))
