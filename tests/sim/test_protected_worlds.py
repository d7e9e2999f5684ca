"""Worlds in which messages are signed and encrypted: they arrive once, in order and in clear."""

from collections.abc import Iterator
from typing import Any

import pytest

from tiercel.message_security.body_encryption import BodySealer
from tiercel.message_security.ciphers import SessionKey
from tiercel.sim.machine import Parts
from tiercel.sim.simulation import World, run
from tiercel.wire.user_message import UserMessage

SEEDS = 12
SLICES = 2


def trace_of(seed: int) -> list[str]:
    lines: list[str] = []
    run(seed, listener=lines.append, protected=True)
    return lines


@pytest.mark.parametrize("first", range(1, SEEDS, SEEDS // SLICES))
def test_nothing_is_lost_doubled_or_reordered(first: int) -> None:
    results = [run(seed, protected=True, enemies=True) for seed in range(first, first + SEEDS // SLICES)]
    failed = [result for result in results if result.problems]
    assert not failed, "\n".join(map(str, failed))


def test_beside_http() -> None:
    results = [run(seed, protected=True, http=True) for seed in range(1, 3)]
    failed = [result for result in results if result.problems]
    assert not failed, "\n".join(map(str, failed))


def test_a_seed_is_the_same_world_every_time() -> None:
    assert trace_of(6) == trace_of(6)


def test_messages_are_signed_encrypted_both_and_neither() -> None:
    kinds = set()
    for seed in range(1, 4):
        world = World(seed, Parts(), None, protected=True)
        world.run()
        kinds |= {(sent.is_signed, sent.is_encrypted) for sent in world.sent_messages.all.values()}
    assert len(kinds) == 4


def test_the_way_to_replay_a_seed_names_the_option() -> None:
    assert run(3, protected=True).command == "python -m tiercel.sim --seed 3 --trace --protected"


@pytest.fixture
def seeds() -> Iterator[int]:
    return iter(range(1, 20))


class TestPlantedBugs:
    """What the simulator must find."""

    def finds(self, seeds: Iterator[int], word: str) -> bool:
        return any(word in str(run(seed, protected=True)) for seed in seeds)

    def test_a_body_that_is_not_decrypted(
        self, seeds: Iterator[int], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(SessionKey, "decrypt", lambda _self, data: data[:10].ljust(10))
        assert self.finds(seeds, "problems")

    def test_a_message_that_leaves_in_clear(
        self, seeds: Iterator[int], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def clear(_self: BodySealer, packet: UserMessage, *_rest: Any) -> UserMessage:
            return UserMessage(packet.with_clear_body())

        monkeypatch.setattr(BodySealer, "seal", clear)
        assert self.finds(seeds, "received")
