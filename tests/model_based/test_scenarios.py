"""Short stories that once went wrong, or that random runs come upon too seldom; compared after every step."""

from dataclasses import replace

import pytest

from .reference import DEADXACT, NEG_ARRIVAL, Letter
from .side_by_side import HandlePair, SideBySide

PLAIN = Letter("", 0, recoverable=True)


class Story(SideBySide):
    def __init__(self, *, transactional: bool) -> None:
        super().__init__()
        self.create("q", transactional=transactional, journaling=True)
        self.sender, self.reader = self.opened("q", "send"), self.opened("q", "receive")

    def opened(self, name: str, access: str) -> HandlePair:
        self.open(name, access)
        return self.handles[-1]

    def send_committed(self, letter: Letter = PLAIN) -> None:
        tx = self.begin()
        self.send(self.sender, letter, tx=tx)
        self.end(tx, "commit")

    def first_id(self, queue: str = "q") -> int:
        lookup_id = self.model.queues[queue].items[0].lookup_id
        assert lookup_id is not None
        return lookup_id


@pytest.mark.parametrize("restarts", [False, True])
def test_move_to_a_subqueue_that_nobody_has_open_any_more(restarts: bool) -> None:
    story = Story(transactional=True)
    story.send_committed()
    tx, target = story.begin(), story.opened("q;sub", "move")
    story.move(story.reader, story.first_id(), target, tx)
    story.close(target)
    story.end(tx, "prepare")
    if restarts:
        story.crash()
    story.end(tx, "commit")
    assert len(story.model.queues["q;sub"].items) == 1


@pytest.mark.parametrize("end", ["commit", "abort", "prepare"])
def test_wait_in_a_transaction_that_ends(end: str) -> None:
    story = Story(transactional=True)
    tx = story.begin()
    story.receive(story.reader, timeout=None, tx=tx)
    story.end(tx, end)
    story.send_committed()
    assert story.model.queues["q"].items[0].owner is None


@pytest.mark.parametrize("ending", ["nack", "reject", "ack"])
def test_second_phase_of_a_read_in_a_transaction(ending: str) -> None:
    for prepared in (False, True):
        story = Story(transactional=True)
        story.send_committed()
        tx = story.begin()
        story.receive(story.reader, tx=tx)
        if prepared:
            story.end(tx, "prepare")
        story.end_receive(story.held[0], ending)
        story.end(tx, "commit")


def test_second_phase_of_a_move_in_a_transaction() -> None:
    story = Story(transactional=True)
    story.send_committed()
    tx, target = story.begin(), story.opened("q;sub", "move")
    story.move(story.reader, story.first_id(), target, tx)
    story.end_receive(story.held[0], "nack")  # refused: only the transaction decides of a move
    story.end(tx, "abort")
    story.close(target)
    assert "q;sub" not in story.model.queues


def test_cursor_whose_receive_timed_out_misses_what_was_locked_then() -> None:
    story = Story(transactional=False)
    story.open_cursor(story.reader)
    story.send(story.sender, PLAIN)
    story.receive(story.reader, two_phase=True)
    story.receive(story.reader, timeout=2, cursor=story.cursors[0])
    story.pass_time(3)
    story.end_receive(story.held[0], "nack")
    story.receive(story.reader, cursor=story.cursors[0])
    story.receive(story.reader)


def test_cursor_after_it_has_received() -> None:
    story = Story(transactional=False)
    for _ in range(3):
        story.send(story.sender, PLAIN)
    story.open_cursor(story.reader)
    (cursor,) = story.cursors
    story.peek(story.reader, cursor=cursor)
    story.receive(story.reader, cursor=cursor)
    story.peek(story.reader, cursor=cursor, following=True)  # refused: no current message to go on from
    story.peek(story.reader, cursor=cursor)
    story.peek(story.reader, cursor=cursor, following=True)


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("ending", ["commit", "abort"])
def test_prepared_send_to_a_queue_that_is_deleted(restarts: bool, ending: str) -> None:
    story = Story(transactional=True)
    tx = story.begin()
    story.send(story.sender, PLAIN, tx=tx)
    story.end(tx, "prepare")
    story.delete("q")  # refused: somebody was promised that both outcomes are possible
    if restarts:
        story.crash()
    story.end(tx, ending)


@pytest.mark.parametrize("insecure_nacks", [False, True])
def test_commit_of_a_send_to_a_queue_that_is_deleted(insecure_nacks: bool) -> None:
    story = Story(transactional=True)
    story.create("admin", transactional=False)
    story.model.insecure_nacks = insecure_nacks
    story.world.engine.queue_manager.send_insecure_nacks = insecure_nacks
    tx = story.begin()
    story.send(story.sender, replace(PLAIN, acks=NEG_ARRIVAL, admin="admin", keep_dead=True), tx=tx)
    story.delete("q")
    story.end(tx, "commit")
    assert [item.letter.name for item in story.model.queues[DEADXACT].items] == ["m1"]
    told = [item.letter.name for item in story.model.queues["admin"].items]
    assert told == (["8000 m1"] if insecure_nacks else [])


@pytest.mark.parametrize("restarts", [False, True])
def test_purge_or_expiry_of_what_a_transaction_holds(restarts: bool) -> None:
    story = Story(transactional=True)
    deadline = int(story.world.now) + 3
    for letter in (PLAIN, Letter("", 0, deadline=deadline, keep_dead=True)):
        story.send_committed(letter)
        tx = story.begin()
        story.receive(story.reader, tx=tx)
        story.purge(story.reader) if letter is PLAIN else story.pass_time(4)
        if restarts:
            story.crash()
            story.sender, story.reader = story.opened("q", "send"), story.opened("q", "receive")
        else:
            story.end(tx, "abort")
    assert not story.model.queues["q"].items
