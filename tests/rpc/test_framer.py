from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiercel.model.errors import DecodeError
from tiercel.rpc.framer import Framer
from tiercel.rpc.pdu import Bind, CoCancel, Pdu, Request

from .strategies import pdus


def cut(*chunks: bytes) -> list[bytes]:
    framer = Framer()
    found: list[bytes] = []
    for chunk in chunks:
        framer.receive(chunk)
        found += framer.pdus()
    assert framer.is_between_pdus == (b"".join(found) == b"".join(chunks))
    return found


@given(st.lists(pdus, max_size=4), st.lists(st.floats(0, 1), max_size=8))
def test_any_chunks_give_the_same_pdus(values: list[Pdu], cuts: list[float]) -> None:
    whole = [value.encode() for value in values]
    stream = b"".join(whole)
    places = [0, *sorted(int(at * len(stream)) for at in cuts), len(stream)]
    assert cut(*(stream[a:b] for a, b in pairwise(places))) == whole


def test_a_pdu_of_sixteen_bytes() -> None:
    data = CoCancel(call_id=1).encode()
    assert len(data) == 16
    assert cut(data, data[:9], data[9:]) == [data, data]


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        (b"GET / HTTP/1.1\r\n", "rpc_vers"),
        (Bind().encode()[:4] + b"\0" + Bind().encode()[5:], "packed_drep"),
        (Bind().encode()[:8] + b"\xff\xff" + Bind().encode()[10:], "frag_length"),
    ],
)
def test_errors_come_after_the_good_pdus_and_stay(bad: bytes, field: str) -> None:
    framer = Framer()
    framer.receive(Bind().encode() + bad)
    found = framer.pdus()
    assert next(found) == Bind().encode()
    for _ in range(2):
        with pytest.raises(DecodeError) as caught:
            next(framer.pdus())
        assert caught.value.field == field


def test_what_was_negotiated_is_the_limit() -> None:
    framer = Framer(max_fragment=1432)
    framer.receive(Request(stub=bytes(1432 - 24)).encode())
    assert len(list(framer.pdus())) == 1
    framer.receive(Request(stub=bytes(1433 - 24)).encode())
    with pytest.raises(DecodeError, match="1433, the negotiated limit is 1432"):
        list(framer.pdus())
