"""A slice of the simulated worlds; `make simulate-multicast` runs as many as one likes."""

import pytest

from pgm.simulation import run_seed
from tiercel.pgm import repairs, session
from tiercel.pgm.repairs import Repairs
from tiercel.pgm.session import Session


@pytest.mark.conformance("SRMP-191")
@pytest.mark.parametrize("start", range(1, 121, 30))
def test_every_receiver_gets_everything_in_order_or_says_what_is_lost(start: int) -> None:
    for seed in range(start, start + 30):
        run_seed(seed)


def seed_that_finds_it() -> int | None:
    for seed in range(1, 121):
        try:
            run_seed(seed)
        except AssertionError:
            return seed
    return None


def test_it_finds_a_receiver_that_delivers_out_of_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Session, "_lose", lambda _self, _count: None)
    monkeypatch.setattr(Repairs, "__contains__", lambda _self, _number: False)
    assert seed_that_finds_it() is not None


def test_it_finds_a_loss_that_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(self: Session, count: int) -> None:
        self.lost += count
        self.reassembly.lost()

    monkeypatch.setattr(session.Session, "_lose", lose)
    assert seed_that_finds_it() is not None


def test_it_finds_a_receiver_that_never_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repairs.Repairs, "next_deadline", None)
    assert seed_that_finds_it() is not None
