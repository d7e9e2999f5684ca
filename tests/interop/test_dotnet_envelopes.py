"""SOAP envelopes that Tiercel writes, read by .NET's XML reader."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srmp.strategies import envelopes, messages
from srmp.vectors import CANONICAL, document
from tiercel.srmp.envelope import Envelope
from tiercel.srmp.envelope_writer import write_envelope
from tiercel.srmp.message import envelope_of
from tiercel.srmp.xml_tree import Element, read_xml

from .dotnet_oracle import Oracle
from .http_peers import ROOT

EACH = 500


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    try:
        started = Oracle(ROOT / "build" / "dotnet_xml")
    except FileNotFoundError as problem:
        pytest.skip(str(problem))
    yield started
    started.close()


def ours(element: Element) -> Iterator[tuple[object, ...]]:
    """Every element with its attributes and text, in the order of the document."""
    yield "start", element.namespace, element.name, sorted(element.attributes.items())
    if element.text:
        yield "text", element.text
    for child in element.children:
        yield from ours(child)
    yield ("end",)


def theirs(events: list[dict[str, Any]]) -> Iterator[tuple[object, ...]]:
    for event in events:
        if "start" in event:
            _, name, namespace = event["start"]
            attributes = [
                (f"{uri} {local}" if uri else local, value)
                for prefix, local, uri, value in event["attrs"]
                if "xmlns" not in {prefix, local}
            ]
            yield "start", namespace, name, sorted(attributes)
            if event["empty"]:
                yield ("end",)
        elif "end" in event:
            yield ("end",)
        else:
            yield "text", event["text"]


def joined(events: Iterator[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """.NET reads long text in pieces."""
    found: list[tuple[object, ...]] = []
    for event in events:
        if event[0] == "text" and found and found[-1][0] == "text":
            found[-1] = "text", f"{found[-1][1]}{event[1]}"
        else:
            found.append(event)
    return found


def check(oracle: Oracle, data: bytes) -> None:
    answer = oracle.ask("decode", "text", data.hex())
    assert answer["ok"], answer["error"]
    assert joined(theirs(answer["events"])) == list(ours(read_xml(data)))


@pytest.mark.parametrize("name", CANONICAL)
def test_the_vectors(oracle: Oracle, name: str) -> None:
    check(oracle, document(name))


def test_dotnet_reads_what_tiercel_writes(oracle: Oracle, transcript: Callable[[str], None]) -> None:
    seen = []
    written = st.one_of(envelopes, messages().map(envelope_of))

    @given(written)
    @settings(max_examples=EACH, deadline=None)
    def read(envelope: Envelope) -> None:
        data = write_envelope(envelope)
        check(oracle, data)
        seen.append(len(data))

    read()
    transcript(f"{len(seen)} envelopes of {sum(seen)} bytes: .NET reads in them what Tiercel has written")
