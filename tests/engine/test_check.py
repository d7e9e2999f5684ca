"""Each kind of damage to a record is found and named; a sound store has no problem."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

import tiercel
from crash.world import START, World, open_on, opened, problems_of
from tiercel.engine.check import Checker
from tiercel.engine.claim_records import decode_claim, is_claim_key, split_claimed
from tiercel.engine.problem import Problem, named
from tiercel.engine.records import decode_record, expiry_key, message_key, split_message_key
from tiercel.model.format_name import FormatName
from tiercel.store import Keyspace, MemoryStore

from .harness import foreign_packet

Damage = Callable[[MemoryStore], None]


def rich_store() -> MemoryStore:
    """Something of everything: queues, journals, subqueues, time limits, transactions, discards."""
    store = MemoryStore()
    world = World(store, lambda same: same)
    queue = world.create("plain", journaling=True)
    world.send("plain", "limited", time_to_be_received=1000)
    world.send("plain", "ordinary", "moved", "received", "purged")
    queue.move(queue.peek(lookup_id=lookup_id_of(store, "moved")), "retry")
    queue.receive(lookup_id=lookup_id_of(store, "received"))
    world.create("gone")
    world.send("gone", "lost")
    world.queue("gone").delete()
    world.create("orders", transactional=True)
    with world.qm.transaction() as transaction:
        world.send("orders", "first", "second", transaction=transaction)
    transaction = world.qm.begin_transaction()
    world.receive("orders", transaction=transaction)
    world.send("orders", "third", transaction=transaction)
    world.prepare(transaction)
    world.create("claimed")
    world.send("claimed", "one", "two", "three")
    world.qm.consumer("spark").claim(world.queue("claimed"), 3)
    world.qm.queue(r"DIRECT=TCP:10.9.8.7\private$\far").send(tiercel.Message(b"x", label="far", delivery=1))
    return store.crash()


def lookup_id_of(store: MemoryStore, label: str) -> int:
    return split_message_key(key_of(store, label))[1]


def key_of(store: MemoryStore, label: str) -> bytes:
    wanted = label.encode("utf-16-le")
    return next(key for key, data in store.spaces[Keyspace.MESSAGES].items() if wanted in data)


def flip(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x40]) + data[at + 1 :]


def test_a_sound_store_has_no_problem_and_its_things_are_counted() -> None:
    store = rich_store()
    with store.snapshot() as view:
        checker = Checker(view)
        assert list(checker.problems()) == []
    assert (
        checker.counts.queues == 6 + 5
    )  # the system's own, plain and its subqueue, orders, claimed, and the outgoing one
    assert checker.counts.messages == len(store.spaces[Keyspace.MESSAGES])
    assert checker.counts.message_bytes > 1000
    assert checker.counts.claimed == 3
    assert checker.counts.transactions == 1
    assert checker.counts.discards == 1
    assert checker.counts.set_aside == 0


def test_an_empty_store_is_sound() -> None:
    assert problems_of(MemoryStore()) == []


def test_every_byte_of_a_message_record_counts() -> None:
    store = rich_store()
    messages = store.spaces[Keyspace.MESSAGES]
    key = key_of(store, "ordinary")
    sound = messages[key]
    for at in range(len(sound)):
        messages[key] = flip(sound, at)
        problems = problems_of(store)
        assert len(problems) == 1, at
        assert problems[0].startswith(r"messages, queue HOST\private$\plain, lookup id ")
        assert "checksum" in problems[0]
    messages[key] = flip(sound, len(sound) - 1)
    assert "label 'ordinary'" in problems_of(store)[0]


def damage_message(store: MemoryStore) -> None:
    key = key_of(store, "ordinary")
    record = decode_record(store.spaces[Keyspace.MESSAGES][key])
    packet = record.packet[:16] + b"\xff" * (len(record.packet) - 16)
    store.spaces[Keyspace.MESSAGES][key] = record._replace(packet=packet).encode()


def shorten_message(store: MemoryStore) -> None:
    store.spaces[Keyspace.MESSAGES][key_of(store, "ordinary")] = b"short"


def lose_message(store: MemoryStore) -> None:
    del store.spaces[Keyspace.MESSAGES][key_of(store, "limited")]


def lose_expiry(store: MemoryStore) -> None:
    store.spaces[Keyspace.EXPIRIES].clear()


def shift_expiry(store: MemoryStore) -> None:
    slot, lookup_id = split_message_key(key_of(store, "limited"))
    store.spaces[Keyspace.EXPIRIES][expiry_key(START + 5, slot, lookup_id)] = b""


def misplace_message(store: MemoryStore) -> None:
    key = key_of(store, "ordinary")
    slot, lookup_id = split_message_key(key)
    messages = store.spaces[Keyspace.MESSAGES]
    messages[message_key(slot, lookup_id ^ 1 << 56)] = messages.pop(key)


def give_message_to_nobody(store: MemoryStore) -> None:
    messages = store.spaces[Keyspace.MESSAGES]
    messages[message_key(4000, 7 << 56 | 3)] = messages[key_of(store, "ordinary")]


def lose_queue(store: MemoryStore) -> None:
    slot = key_of(store, "ordinary")[:4]
    del store.spaces[Keyspace.QUEUES][slot]


def each(space: Keyspace, change: Callable[[bytes], bytes]) -> Damage:
    """Damages the last record of a keyspace that is not empty, nor the head of a transaction."""

    def damage(store: MemoryStore) -> None:
        records = store.spaces[space]
        key = next(key for key in reversed(records) if records[key] and key[-4:] != b"\xff" * 4)
        records[key] = change(records[key])

    return damage


def set_meta(name: bytes, value: bytes) -> Damage:
    return lambda store: store.spaces[Keyspace.META].update({name: value})


def put(space: Keyspace, key: bytes, value: bytes = b"") -> Damage:
    return lambda store: store.spaces[space].update({key: value})


def lose_operation(store: MemoryStore) -> None:
    operations = store.spaces[Keyspace.TRANSACTIONS]
    del operations[next(iter(operations))]


def lose_head(store: MemoryStore) -> None:
    operations = store.spaces[Keyspace.TRANSACTIONS]
    del operations[_head(store)]


def damage_head_of_transaction(store: MemoryStore) -> None:
    store.spaces[Keyspace.TRANSACTIONS][_head(store)] = b"short"


def _head(store: MemoryStore) -> bytes:
    return next(key for key in store.spaces[Keyspace.TRANSACTIONS] if key.endswith(b"\xff" * 4))


def lose_taken_message(store: MemoryStore) -> None:
    del store.spaces[Keyspace.MESSAGES][key_of(store, "first")]


def forget_name(data: bytes) -> bytes:
    values = json.loads(data)
    del values["identifier"]
    return json.dumps(values).encode()


def claimed_key_of(store: MemoryStore, label: str) -> bytes:
    wanted = label.encode("utf-16-le")
    return next(key for key, data in store.spaces[Keyspace.CLAIMED].items() if wanted in data)


def lose_claimed(store: MemoryStore) -> None:
    del store.spaces[Keyspace.CLAIMED][claimed_key_of(store, "two")]


def damage_claimed(store: MemoryStore) -> None:
    claimed, key = store.spaces[Keyspace.CLAIMED], claimed_key_of(store, "two")
    claimed[key] = flip(claimed[key], 60)


def damage_head_of_claimed(store: MemoryStore) -> None:
    claimed, key = store.spaces[Keyspace.CLAIMED], claimed_key_of(store, "two")
    claimed[key] = flip(claimed[key], 3)


def have_it_twice(store: MemoryStore) -> None:
    (claim,) = (key for key in store.spaces[Keyspace.CONSUMERS] if is_claim_key(key))
    row = decode_claim(claim, store.spaces[Keyspace.CONSUMERS][claim])
    data = store.spaces[Keyspace.CLAIMED][claimed_key_of(store, "two")]
    lookup_id, _, record = split_claimed(data)
    store.spaces[Keyspace.MESSAGES][message_key(row.queue_slot, lookup_id)] = record


def change_claim(**changes: Any) -> Damage:
    """Changes the row of the claim, which stays readable."""

    def damage(store: MemoryStore) -> None:
        rows = store.spaces[Keyspace.CONSUMERS]
        (key,) = filter(is_claim_key, list(rows))
        changed = replace(decode_claim(key, rows.pop(key)), **changes)
        rows[changed.key] = changed.encode()

    return damage


OPERATION = bytes.fromhex("01 00ffffff 0000000000000001 00000000")

DAMAGES: dict[str, tuple[Damage, str]] = {
    "the packet of a message": (damage_message, "messages, .*plain, lookup id .*the packet cannot be read"),
    "a short record": (shorten_message, "messages, .*the record is damaged"),
    "a lost message": (lose_message, "stats, .*plain: 3 messages .* are counted, 2 messages .* are there"),
    "an expiry without message": (lose_message, "expiries, .*plain, lookup id .*is not there"),
    "a message without expiry": (lose_expiry, "messages, .*label 'limited': .*no expiry is stored"),
    "an expiry too many": (shift_expiry, "expiries, .*label 'limited': the message does not end at"),
    "a message in the wrong place": (
        misplace_message,
        "label 'ordinary': it does not stand where its priority",
    ),
    "a message of no queue": (give_message_to_nobody, "queue number 4000, .*belongs to no queue"),
    "a lost queue": (lose_queue, "messages, queue number .*belongs to no queue"),
    "the subqueue of a lost queue": (lose_queue, "plain;retry: the queue that it belongs to, .*, is missing"),
    "stats of no queue": (put(Keyspace.STATS, b"\0\0\xff\0", bytes(16)), "stats, .*belongs to no queue"),
    "a queue record": (
        each(Keyspace.QUEUES, lambda data: flip(data, 0)),
        "queues, queue number .* cannot be read",
    ),
    "a queue record that is cut": (each(Keyspace.QUEUES, lambda data: data[:40]), "queues, .*cannot be read"),
    "a queue without identifier": (each(Keyspace.QUEUES, forget_name), "queues, .*cannot be read"),
    "stats": (each(Keyspace.STATS, lambda data: flip(data, 0)), "stats, .* are counted, .* are there"),
    "stats that are cut": (each(Keyspace.STATS, lambda data: data[:5]), "stats, .*cannot be read"),
    "the queue manager": (
        set_meta(b"queue_manager", b"{"),
        "meta: the record of the queue manager cannot be read",
    ),
    "a counter": (set_meta(b"sequential_id", bytes(8)), "messages, .*sequential_id .* beyond the 0"),
    "the counter of messages": (
        set_meta(b"message_ordinal", bytes(8)),
        "messages, .*message_ordinal .* beyond",
    ),
    "the counter of queues": (set_meta(b"slot", bytes(8)), "queues, .*slot .* beyond"),
    "a counter that is cut": (set_meta(b"slot", b"\1"), "meta: the counter slot has 1 bytes"),
    "a sequence": (each(Keyspace.SEQUENCES, lambda data: data[:3]), "sequences, .*orders: it has 3 bytes"),
    "a sequence of no queue": (
        put(Keyspace.SEQUENCES, b"\0\0\xff\0", bytes(12)),
        "sequences, .*belongs to no queue",
    ),
    "an operation": (
        each(Keyspace.TRANSACTIONS, lambda data: flip(data, -1 % len(data))),
        "transactions: .*read",
    ),
    "an operation that is lost": (
        lose_operation,
        "transactions: operation 1 .* operation 0 before it is missing",
    ),
    "the head of a transaction": (lose_head, "transactions: the head of transaction .* is missing"),
    "the head of a transaction, damaged": (
        damage_head_of_transaction,
        "transactions: the head of transaction .* is damaged",
    ),
    "an operation of no queue": (
        put(Keyspace.TRANSACTIONS, uuid4().bytes + bytes(4), OPERATION),
        "there never was",
    ),
    "the message of an operation": (
        lose_taken_message,
        "transactions, .*orders, lookup id .*message is not there",
    ),
    "a claimed message that is lost": (
        lose_claimed,
        "claimed, .*claimed: the claim of consumer spark lacks 1 of the messages 2 to 2",
    ),
    "the count of a claim": (
        lose_claimed,
        "consumers, .*spark counts 3 messages .*, 2 messages .* are there",
    ),
    "a claimed message": (damage_claimed, "claimed, .*label 'two': message 2 of the claim .* is damaged"),
    "the head of a claimed message": (damage_head_of_claimed, "claimed, .*its head is damaged"),
    "a message that is claimed and in its queue": (
        have_it_twice,
        "claimed, .*label 'two': it is in its queue, and message 2 of the claim of consumer spark",
    ),
    "the numbers of a claim": (change_claim(floor=1), "claimed: the message under .* is in no claim"),
    "the last number of a claim": (change_claim(hi=5), "claimed, .*lacks 2 of the messages 4 to 5"),
    "the size of a claim": (change_claim(size_bytes=1), "consumers, .*counts 3 messages with 1 bytes"),
    "a claim on no queue": (change_claim(queue_slot=4000), "consumers, .*number 4000: .* is on no queue"),
    "a claim of nobody": (change_claim(consumer="nobody"), "consumers, .*nobody has no consumer"),
    "the row of a consumer": (
        put(Keyspace.CONSUMERS, b"spark", b"x"),
        "consumers: the record b'spark' cannot",
    ),
    "the epoch of a consumer": (set_meta(b"consumer_epoch", bytes(8)), "consumers: consumer_epoch .* beyond"),
    "the key of a claimed message": (put(Keyspace.CLAIMED, b"key"), "claimed: the message under 6b6579"),
    "a discard": (each(Keyspace.DISCARDS, lambda data: data[:-4]), "discards: line 1 cannot be read"),
    "a record set aside": (
        put(Keyspace.DAMAGED, b"messages" + bytes(12), b"bytes"),
        "damaged, .*5 bytes was set aside",
    ),
    "the key of a message": (put(Keyspace.MESSAGES, b"key"), "messages: the key 6b6579"),
    "the key of an expiry": (put(Keyspace.EXPIRIES, b"key"), "expiries: the key 6b6579"),
    "the key of a queue": (put(Keyspace.QUEUES, b"key"), "queues: the key 6b6579"),
    "the key of a transaction": (put(Keyspace.TRANSACTIONS, b"key"), "transactions: the key 6b6579"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_finds(name: str) -> None:
    damage, expected = DAMAGES[name]
    store = rich_store()
    damage(store)
    problems = "\n".join(problems_of(store))
    assert re.search(expected, problems), problems


class TestTheEngine:
    def test_sets_a_damaged_record_aside_and_delivers_the_rest(self) -> None:
        store = rich_store()
        messages = store.spaces[Keyspace.MESSAGES]
        key = key_of(store, "ordinary")
        messages[key] = flip(messages[key], 60)
        with opened(store, START) as qm:
            queue = qm.queue(r".\private$\plain")
            assert [message.label for message in queue.cursor()] == ["limited", "purged"]
            assert [queue.receive(0).label for _ in range(queue.count)] == ["limited", "purged"]
            assert "is damaged" in qm.discards()[-1].reason
            assert queue.count == 0
            with store.snapshot() as view:
                problems = [str(problem) for problem in Checker(view).problems()]
        assert len(problems) == 1
        assert problems[0].startswith(r"damaged, queue HOST\private$\plain, lookup id ")

    def test_never_delivers_one_by_its_lookup_id_or_by_moving_it(self) -> None:
        store = rich_store()
        messages = store.spaces[Keyspace.MESSAGES]
        key = key_of(store, "ordinary")
        messages[key] = flip(messages[key], 60)
        lookup_id = split_message_key(key)[1]
        acts: list[Callable[[tiercel.EmbeddedQueue], object]] = [
            lambda queue: queue.receive(lookup_id=lookup_id),
            lambda queue: queue.peek(lookup_id=lookup_id),
            lambda queue: queue.move(lookup_id, "retry"),
        ]
        for act in acts:
            qm = open_on(MemoryStore(store.spaces), lambda: float(START))
            with pytest.raises(tiercel.MessageNotFoundError):
                act(qm.queue(r".\private$\plain"))
            assert "is damaged" in qm.discards()[-1].reason
            qm.close()


def test_a_damaged_record_is_named_even_without_its_head() -> None:
    name = FormatName.parse(r"DIRECT=OS:h\private$\q")
    packet = foreign_packet(destination_queue=name, label="order 7").data
    assert named(Problem("messages", "no record"), packet).label == "order 7"
    assert named(Problem("messages", "no record"), packet[5:]).label == ""
