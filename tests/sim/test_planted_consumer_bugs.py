"""Bugs in leases, claims, stages and remote reading are planted, and the simulator must find each."""

from collections.abc import Callable
from typing import Any

import pytest

from tiercel.admin.leases import End, Leases
from tiercel.engine import catalog
from tiercel.engine.claims import Claims
from tiercel.engine.consumers import Consumer, Consumers
from tiercel.engine.reading import Reading
from tiercel.engine.stages import Stages
from tiercel.remote_read.service import RemoteReadService
from tiercel.sim.simulation import Result, run

SEEDS = 500

Plant = Callable[[pytest.MonkeyPatch], None]


def first_found() -> Result | None:
    return next((result for seed in range(1, SEEDS + 1) if (result := run(seed)).problems), None)


def acknowledged_leases_go_back(patch: pytest.MonkeyPatch) -> None:
    def acknowledge(self: Leases, identifier: str) -> bool:
        self._give_back(self._find(identifier, None), End.ACKNOWLEDGED)
        return True

    patch.setattr(Leases, "acknowledge", acknowledge)


def leases_that_ran_out_can_be_acknowledged(patch: pytest.MonkeyPatch) -> None:
    acknowledge = Leases.acknowledge

    def forgiving(self: Leases, identifier: str) -> bool:
        return self._ended_as(identifier, None) is End.EXPIRED or acknowledge(self, identifier)

    patch.setattr(Leases, "acknowledge", forgiving)


def acknowledged_claims_are_offered_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Claims, "_end", lambda *_arguments: 0)


def consumers_are_not_fenced(patch: pytest.MonkeyPatch) -> None:
    def current(self: Consumers, name: str, _epoch: int) -> Consumer:
        return self.find(name)

    patch.setattr(Consumers, "current", current)


def batches_are_published_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Stages, "_remember", lambda *_arguments: None)
    patch.setattr(Stages, "_remove", lambda *_arguments: 0)
    patch.setattr(Stages, "_reap_later", lambda *_arguments: None)  # what stays would be due for ever


def published_batches_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Stages, "_remember", lambda *_arguments: None)


def unpublished_messages_stay_after_a_crash(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(catalog, "remove_unpublished", lambda _batch: None)


def remote_acknowledgements_give_back(patch: pytest.MonkeyPatch) -> None:
    end = RemoteReadService._end

    def careless(self: RemoteReadService, *arguments: Any) -> Any:
        def end_receive(reading: Reading, opened: Any, lookup_id: int, *, delete: bool) -> None:
            del delete
            original(reading, opened, lookup_id, delete=False)

        original = Reading.end_receive
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(Reading, "end_receive", end_receive)
            return end(self, *arguments)

    patch.setattr(RemoteReadService, "_end", careless)


PLANTS: list[Plant] = [
    acknowledged_leases_go_back,
    leases_that_ran_out_can_be_acknowledged,
    acknowledged_claims_are_offered_again,
    consumers_are_not_fenced,
    batches_are_published_again,
    published_batches_are_forgotten,
    unpublished_messages_stay_after_a_crash,
    remote_acknowledgements_give_back,
]


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert first_found() is not None
