"""Whatever a peer sends, however it is cut: the same happens, and the worst is that the session ends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiercel.binary.actions import Dial, Resolve, SessionEvent
from tiercel.engine.machine import Close, Write
from tiercel.wire.internal_packets import (
    ConnectionParameters,
    ConnectionParametersHeader,
    EstablishConnection,
    EstablishConnectionHeader,
    SessionAck,
)
from wire import strategies
from wire.packets import frame

from .site import HERE, PEER, Peer, Site, establish, in_stream, letter
from .test_session_setup import to_anybody
from .test_transitions import WAYS

guids = st.sampled_from([PEER, Site().guid]) | strategies.guids
internal_packets = st.one_of(
    st.builds(
        EstablishConnection.of,
        st.builds(EstablishConnectionHeader, guids, guids, strategies.u32, strategies.u16),
        refused=st.booleans(),
    ),
    st.builds(
        ConnectionParameters.of,
        st.builds(ConnectionParametersHeader, strategies.u32, strategies.u32, window_size=strategies.u16),
        refused=st.booleans(),
    ),
    st.builds(SessionAck.of, strategies.session_headers),
).map(lambda packet: packet.encode())
ours = st.sampled_from(
    [letter(1), letter(1, recoverable=True), letter(2), in_stream(1), in_stream(2), in_stream(4)]
)
packets = internal_packets | strategies.packets | ours


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A packet with some bytes that are none of its own."""
    data = bytearray(draw(packets))
    for _ in range(draw(st.integers(1, 4))):
        data[draw(st.integers(0, len(data) - 1))] = draw(strategies.u8)
    return bytes(data)


streams = st.lists(packets | damaged() | st.binary(max_size=100), max_size=8)


def new_site() -> Site:
    site = Site(routing_server=True)
    site.creates("q")
    site.creates("tx", transactional=True)
    return site


@pytest.mark.conformance("MQQB-013")
@given(way=st.sampled_from(sorted(WAYS)), stream=streams)
def test_no_bytes_do_worse_than_end_the_session(way: str, stream: list[bytes]) -> None:
    site = new_site()
    peer = WAYS[way][0](site)
    peer.says(*stream)
    site.wait(600_000)
    allowed = (Close, Dial, Resolve, SessionEvent, Write)
    assert all(isinstance(action, allowed) for _, action in site.actions)
    assert peer.is_closed  # by its own mistake, or because nothing came for so long
    site.opens().assert_open()  # and nobody else was disturbed


def what_happens(pieces: list[bytes]) -> tuple[bytes, bool, list[bytes], list[str]]:
    site = new_site()
    peer = site.accepts()
    peer.says(*pieces)
    return peer.raw, peer.is_closed, site.bodies(HERE), [event.reason for _, event in site.did(SessionEvent)]


@st.composite
def cut_streams(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    """A session from its beginning, whole, and in pieces."""
    numbers = draw(st.lists(st.integers(1, 40), max_size=40))
    said = [letter(number, recoverable=bool(number % 2)) for number in numbers]
    start = [establish().encode(), Peer(Site(), 0, PEER).parameters(window=8).encode()]
    data = b"".join([*start, *said, draw(st.just(b"") | damaged())])
    cuts = sorted(draw(st.sets(st.integers(0, len(data)), max_size=12)))
    pieces = [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    return data, pieces


@pytest.mark.conformance("MQQB-007")
@given(cut_streams())
def test_it_does_not_matter_how_bytes_are_cut(stream: tuple[bytes, list[bytes]]) -> None:
    data, pieces = stream
    assert what_happens(pieces) == what_happens([data])


@pytest.mark.conformance("MQQB-007")
def test_one_byte_at_a_time() -> None:
    data = to_anybody() + frame(5) + letter(1)
    expected = what_happens([data])
    assert what_happens([data[at : at + 1] for at in range(len(data))]) == expected
    assert expected[2] == [b"1"]
