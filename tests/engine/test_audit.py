"""The audit lines: chained, bounded, and checked."""

import pytest

from crash.world import START, problems_of
from tiercel.engine import audit
from tiercel.engine.engine import Engine
from tiercel.engine.identity import Identity
from tiercel.security.access import Token
from tiercel.store import Keyspace, MemoryStore


def written(store: MemoryStore, *whats: str) -> Engine:
    engine = Engine(store, Identity("HOST"), now=START, owner=Token.local_system())
    for what in whats:
        engine.begin(START)
        engine.audit.add({"who": "me", "what": what})
        engine.commit()
    return engine


def whats(engine: Engine, before: int | None = None, limit: int = 10) -> list[str]:
    engine.begin(START)
    return [line.values["what"] for line in engine.audit.newest(before, limit)]


def key(number: int) -> bytes:
    return number.to_bytes(8, "big")


def test_newest_first_and_in_pages() -> None:
    engine = written(MemoryStore(), "a", "b", "c")
    assert whats(engine) == ["c", "b", "a"]
    assert whats(engine, before=2) == ["a"]
    assert whats(engine, limit=1) == ["c"]


def test_a_whole_chain_has_no_problem() -> None:
    store = MemoryStore()
    written(store, "a", "b", "c")
    assert problems_of(store.crash()) == []


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_changed_line_is_found(number: int) -> None:
    store = MemoryStore()
    written(store, "a", "b", "c")
    damaged = store.crash()
    batch = damaged.begin()
    line = batch.get(Keyspace.AUDIT, key(number)) or b""
    batch.put(Keyspace.AUDIT, key(number), line.replace(b'"me"', b'"no"'))
    batch.commit()
    (problem,) = problems_of(damaged)
    assert "audit" in str(problem)


@pytest.mark.parametrize("number", [2, 3])
def test_a_missing_line_is_found(number: int) -> None:
    store = MemoryStore()
    written(store, "a", "b", "c")
    damaged = store.crash()
    batch = damaged.begin()
    batch.delete(Keyspace.AUDIT, key(number))
    batch.commit()
    assert len(problems_of(damaged)) == 1


def test_the_oldest_lines_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "MAX_LINES", 3)
    store = MemoryStore()
    engine = written(store, "a", "b", "c", "d", "e")
    assert whats(engine) == ["e", "d", "c"]
    engine.commit()
    assert problems_of(store.crash()) == []
