"""What the protocol keeps in the store is checked as well: each kind of damage is found and named."""

from collections.abc import Callable

import pytest

from crash.world import problems_of
from tiercel.store.interface import Keyspace
from tiercel.store.memory_store import MemoryStore

from .nodes import Net

Damage = Callable[[MemoryStore], None]


@pytest.fixture
def store(net: Net) -> MemoryStore:
    """A sender that waits for order acks and final acks, and has received streams and others itself."""
    here, hand = net.qm(), net.hand()
    here.create("q")
    here.create("tx", transactional=True)
    box = here.to(hand, "tx")
    for body in (b"1", b"2"):
        here.send_together((box, body), positive_journaling=True)
    net.settle()
    hand.ack()
    hand.order_ack(hand.messages[0])
    hand.send(hand.recoverable(here.name_of("q")), hand.transactional(here.name_of("tx"), 1))
    return here.backup()


def change(space: Keyspace, value: Callable[[bytes], bytes]) -> Damage:
    def damage(store: MemoryStore) -> None:
        key = next(iter(store.spaces[space]))
        store.spaces[space][key] = value(store.spaces[space][key])

    return damage


def rename(space: Keyspace, key: Callable[[bytes], bytes]) -> Damage:
    def damage(store: MemoryStore) -> None:
        old = next(iter(store.spaces[space]))
        store.spaces[space][key(old)] = store.spaces[space].pop(old)

    return damage


def lose(space: Keyspace, at: int) -> Damage:
    def damage(store: MemoryStore) -> None:
        del store.spaces[space][list(store.spaces[space])[at]]

    return damage


def test_a_sound_store_has_no_problem(store: MemoryStore) -> None:
    assert problems_of(store) == []
    for space in (Keyspace.INCOMING, Keyspace.AWAITING, Keyspace.HISTORY, Keyspace.PEERS):
        assert store.spaces[space], space


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (rename(Keyspace.INCOMING, lambda key: b"\xff" + key[1:]), "leads into no queue"),
        (rename(Keyspace.INCOMING, lambda key: key[:-1]), "leads into no queue"),
        (change(Keyspace.INCOMING, lambda data: data[:19]), "cannot be read"),
        (change(Keyspace.INCOMING, lambda data: data + b"\xff"), "cannot be read"),
        (change(Keyspace.AWAITING, lambda data: data[:-1]), "cannot be read"),
        (
            change(Keyspace.AWAITING, lambda data: data[:11] + b"\xff" + data[12:]),
            "is not where it is said to be",
        ),
        (rename(Keyspace.AWAITING, lambda _: b"\0\0\xff\xff"), "it is taken for message 0000ffff"),
        (lose(Keyspace.AWAITING, 0), "which would not find it"),
        (change(Keyspace.HISTORY, lambda data: data[:-1]), "cannot be read"),
        (change(Keyspace.HISTORY, lambda data: data[:8]), "cannot be read"),
        (rename(Keyspace.HISTORY, lambda key: key[1:]), "cannot be read"),
        (change(Keyspace.PEERS, lambda data: b"X" + data[1:]), "cannot be read"),
        (change(Keyspace.PEERS, lambda data: data + b"\xff"), "cannot be read"),
        (rename(Keyspace.PEERS, lambda key: key[1:]), "cannot be read"),
    ],
)
def test_what_is_damaged_is_named(store: MemoryStore, damage: Damage, sentence: str) -> None:
    damage(store)
    assert any(sentence in str(problem) for problem in problems_of(store))


def test_a_counter_behind_what_was_given_out_is_told_of_everywhere(store: MemoryStore) -> None:
    stored = int.from_bytes(store.spaces[Keyspace.META].pop(b"tx_timestamp"), "big")
    problems = problems_of(store)
    assert {problem.partition(",")[0] for problem in problems} == {"messages", "sequences"}
    for problem in problems:
        assert problem.endswith(f"tx_timestamp {stored} is beyond the 0 that the counter has reserved")
