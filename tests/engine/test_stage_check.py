"""What `tiercel check` says of staged sends."""

import re
from collections.abc import Callable

import pytest

from crash.stage_scenarios import discard, publish, stage
from crash.world import World, problems_of
from tiercel.engine.check import Checker
from tiercel.engine.stage_records import age_key, chunk_key
from tiercel.store import Keyspace, MemoryStore

Damage = Callable[[dict[Keyspace, dict[bytes, bytes]]], object]
NAME = b"app/8/0/x"
CHUNK = chunk_key(NAME, 1)

STAGES, STAGED, PUBLISHED = Keyspace.STAGES, Keyspace.STAGED, Keyspace.PUBLISHED

DAMAGES: dict[str, tuple[Damage, str]] = {
    "unpublished messages": (
        lambda spaces: spaces[Keyspace.UNPUBLISHED].update({b"?": b""}),
        "unpublished: .*row 3f of unpublished messages",
    ),
    "unpublished messages that end too early": (
        lambda spaces: spaces[Keyspace.UNPUBLISHED].update({bytes(11) + b"\2": bytes(7) + b"\1"}),
        "unpublished: .*it ends before it begins",
    ),
    "a head": (lambda spaces: spaces[STAGES].update({NAME: b"?"}), "stages: the head .*app/8/0/x.* read"),
    "the name of a head": (
        lambda spaces: spaces[STAGES].update({b"app/8": spaces[STAGES][NAME]}),
        "stages: the head of stage b'app/8' cannot be read",
    ),
    "a name that no stage can have": (
        lambda spaces: spaces[STAGES].update({b"app/8/0/x y": spaces[STAGES][NAME]}),
        "stages: the head of stage b'app/8/0/x y' cannot be read",
    ),
    "a head that is lost": (lambda spaces: spaces[STAGES].pop(NAME), "staged: chunk 0 .*to no stage"),
    "a chunk that is lost": (
        lambda spaces: spaces[STAGED].pop(CHUNK),
        "stages: chunk 1 of stage app/8/0/x is missing",
    ),
    "a chunk that is cut": (
        lambda spaces: spaces[STAGED].update({CHUNK: spaces[STAGED][CHUNK][:-1]}),
        "stages: stage app/8/0/x: 3 rows with 4 bytes are counted, 3 with 3 are there\nstaged: chunk 1 .*",
    ),
    "a chunk that is nearly gone": (
        lambda spaces: spaces[STAGED].update({CHUNK: b"?"}),
        "staged: chunk 1 .* is damaged",
    ),
    "what became of a batch": (
        lambda spaces: spaces[PUBLISHED].update({b"app/7": b"?"}),
        "published: how batch b'app/7' ended cannot be read",
    ),
    "what became of a batch is lost": (
        lambda spaces: spaces[PUBLISHED].pop(b"app/7"),
        "published: how batch b'app/7' ended is missing",
    ),
    "a batch for ever": (
        lambda spaces: spaces[PUBLISHED].pop(next(iter(spaces[PUBLISHED]))),
        "published: batch b'app/7' would be remembered for ever",
    ),
    "a key by age": (lambda spaces: spaces[PUBLISHED].update({b"\0a": b""}), "published: the key 0061"),
    "a batch that never was": (
        lambda spaces: spaces[PUBLISHED].update({age_key(7, b"no/1"): b""}),
        "published: how batch b'no/1' ended is missing",
    ),
}


def staged_store(*, published: bool = True) -> MemoryStore:
    store = MemoryStore()
    world = World(store, lambda same: same)
    world.create("a", transactional=True)
    stage(world, "app/7/0/x", "1 2")
    stage(world, "app/8/0/x", "1 2")
    stage(world, "app/8/0/x", "3", chunk=1)
    if published:
        publish(world, "app/7/0/x")
    else:
        discard(world)
    return store.crash()


@pytest.mark.parametrize("published", [False, True])
def test_sound_stages_are_counted(published: bool) -> None:
    with staged_store(published=published).snapshot() as view:
        checker = Checker(view)
        assert list(checker.problems()) == []
    assert checker.counts.stages == 1


@pytest.mark.parametrize("name", DAMAGES)
def test_finds(name: str) -> None:
    damage, expected = DAMAGES[name]
    store = staged_store()
    damage(store.spaces)  # type: ignore[arg-type]
    problems = "\n".join(problems_of(store))
    assert re.search(expected, problems), problems
