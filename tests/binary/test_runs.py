"""Messages that come together on a session are one run: [MS-MQQB] 3.1.5.1, 3.1.5.8."""

from collections.abc import Sequence

import pytest

from tiercel.engine.arrivals import ArrivedRun, Source
from tiercel.wire.internal_packets import SessionAck
from tiercel.wire.user_message import UserMessage

from .site import HERE, Site, letter


@pytest.fixture
def runs(site: Site, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths of the runs that arrive."""
    found: list[int] = []
    arrive = site.engine.arrivals.arrive

    def noted(run: Sequence[UserMessage], source: Source) -> ArrivedRun:
        found.append(len(run))
        return arrive(run, source)

    monkeypatch.setattr(site.engine.arrivals, "arrive", noted)
    return found


def test_a_single_message_is_a_run_of_one(site: Site, runs: list[int]) -> None:
    peer = site.opens()
    peer.sends(letter(1))
    peer.sends(letter(2))
    assert runs == [1, 1]


def test_those_of_one_read_are_one_run(site: Site, runs: list[int]) -> None:
    site.opens().sends(*map(letter, range(1, 21)))
    assert runs == [20]
    assert len(site.bodies(HERE)) == 20


def test_another_packet_ends_a_run(site: Site, runs: list[int]) -> None:
    peer = site.opens()
    peer.sent = 2
    peer.says(letter(1) + letter(2) + SessionAck.of(peer.header()).encode() + letter(3))
    assert runs == [2, 1]
    peer.assert_open()


def test_a_run_without_room_is_tried_once(site: Site, runs: list[int]) -> None:
    peer = site.opens()
    site.run(lambda: site.engine.administration.set_properties(queue_manager_quota_kib=0))
    peer.says(letter(1) + letter(2) + SessionAck.of(peer.header()).encode())
    assert runs == [2]
    peer.assert_closed()
    assert site.bodies(HERE) == []
