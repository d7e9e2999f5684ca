"""Binary XML against .NET's own reader and writer: random documents both ways, and whole bodies."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nbfx.documents import documents
from nbfx.vectors import load, read, without_carriage_returns, write
from tiercel import nbfx, wcf
from tiercel.framing.body import read_body
from tiercel.framing.envelopes import EnvelopeWriter
from tiercel.framing.mtom import write_mtom
from tiercel.framing.receiver import read_envelopes
from tiercel.framing.records import Encoding
from tiercel.model.errors import DecodeError

from .dotnet_oracle import Oracle
from .malformed import Malformed

ROOT = Path(__file__).resolve().parents[2]
EACH = 1_000  # documents in each direction
MALFORMED = 10_000  # mutations, and as many random documents
FORMS = st.sampled_from(["nbfx", "nbfs", "nbfse"])
VALUES = {
    "order": {
        "Id": 7,
        "Name": "würfel 世",
        "When": datetime(2024, 2, 29, 12, tzinfo=UTC),
        "Key": UUID("00112233-4455-6677-8899-aabbccddeeff"),
        "Blob": bytes(range(256)) * 8,
        "Total": Decimal("12.30"),
        "Ratio": 0.1,
        "Span": timedelta(seconds=90),
        "Nothing": None,
        "Tags": ["a", "", "世"],
        "Counts": [1, 2, 300],
    }
}


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    try:
        started = Oracle(ROOT / "build" / "dotnet_xml")
    except FileNotFoundError as problem:
        pytest.skip(str(problem))
    yield started
    started.close()


def test_vectors(oracle: Oracle, transcript: Callable[[str], None]) -> None:
    count = 0
    for vector in load("nbfx"):
        answer = oracle.ask("decode", vector["format"], vector["hex"])
        assert answer["ok"] is not bool(vector.get("error"))
        if answer["ok"]:
            ours = nbfx.to_text(read(vector["format"], bytes.fromhex(vector["hex"])))
            assert without_carriage_returns(ours) == answer["xml"]
        count += 1
    transcript(f"{count} vectors: .NET reads and refuses what Tiercel reads and refuses")


def test_dotnet_reads_what_tiercel_writes(oracle: Oracle, transcript: Callable[[str], None]) -> None:
    seen = []

    @given(documents(), FORMS)
    @settings(max_examples=EACH, deadline=None)
    def check(events: list[nbfx.Event], form: str) -> None:
        data = write(form, events)
        (theirs,) = oracle.decode(form, data)
        assert nbfx.to_text(read(form, data)) == theirs
        seen.append(len(data))

    check()
    transcript(f"{len(seen)} documents of {sum(seen)} bytes: .NET reads in them what Tiercel has written")


def test_tiercel_reads_what_dotnet_writes(oracle: Oracle, transcript: Callable[[str], None]) -> None:
    """And writes the same bytes again."""
    seen = []

    @given(documents(typed=False), FORMS)
    @settings(max_examples=EACH, deadline=None)
    def check(events: list[nbfx.Event], form: str) -> None:
        text = nbfx.to_text(events)
        (data,) = oracle.encode(form, text)
        found = read(form, data)
        assert nbfx.to_text(found) == oracle.decode(form, data)[0]
        assert nbfx.to_elements(found).root.tag == nbfx.to_elements(events).root.tag
        assert write(form, found) == data
        seen.append(len(data))

    check()
    transcript(f"{len(seen)} documents of {sum(seen)} bytes by .NET: read, and written again byte for byte")


def test_sessions(oracle: Oracle, transcript: Callable[[str], None]) -> None:
    """The strings of a session run on from document to document, in both directions."""
    seen = []

    @given(st.lists(documents(typed=False), min_size=2, max_size=4))
    @settings(max_examples=100, deadline=None)
    def check(session: list[list[nbfx.Event]]) -> None:
        texts = [nbfx.to_text(events) for events in session]
        theirs, reading, writing = oracle.encode("nbfse", *texts), nbfx.ReaderSession(), nbfx.WriterSession()
        found = [list(nbfx.decode(data, reading)) for data in theirs]
        assert [nbfx.to_text(each) for each in found] == oracle.decode("nbfse", *theirs)
        assert [nbfx.encode(each, writing) for each in found] == theirs
        seen.append(len(theirs))

    check()
    transcript(
        f"{len(seen)} sessions of {sum(seen)} documents by .NET: read, and written again byte for byte"
    )


def test_truncated_documents(oracle: Oracle) -> None:
    """Every prefix of a document is refused by both."""
    data = bytes.fromhex(next(each["hex"] for each in load("nbfx") if each["name"] == "soap12_wsa_static"))
    for size in range(1, len(data)):
        assert not oracle.ask("decode", "nbfs", data[:size].hex())["ok"]


# What .NET's reader accepts and Tiercel does not; docs/wcf.md says why.
REFUSED_BY_US = (
    "there is no root element",
    "outside of the root element",
    "second root element",
    "cannot be bound to",
    "xmlns must be declared by a record of its own",
    "is not a valid XML name",
    "beyond the year 9999",
    "nested deeper than",
)


def judged(oracle: Oracle, form: str, data: bytes) -> str:
    """Accepted or refused by both; an error when they disagree."""
    answer = oracle.ask("decode", form, data.hex() or "-")
    ours, problem = "", ""
    try:
        ours = nbfx.to_text(read(form, data))
    except DecodeError as error:
        problem = str(error)
    if problem:
        assert not answer["ok"] or any(each in problem for each in REFUSED_BY_US), (data.hex(), answer)
        return "refused"
    assert answer["ok"], (data.hex(), ours, answer)
    return "accepted" if without_references(ours) == without_references(answer["xml"]) else "shown otherwise"


def without_references(text: str) -> str:
    """Line ends and tabs are written as references in an attribute, and by XmlWriter as they are."""
    return re.sub(r"&#x[0-9A-F]+;|[\r\n\t]", "#", text)


def test_malformed_documents(oracle: Oracle, transcript: Callable[[str], None]) -> None:
    """Whatever is not well-formed is refused by both readers."""
    malformed, seen = Malformed(seed=16), Counter[str]()
    good = [(each["format"], bytes.fromhex(each["hex"])) for each in load("nbfx")]
    for number in range(MALFORMED):
        form, data = good[number % len(good)]
        seen[judged(oracle, form, malformed.mutated(data))] += 1
        seen[judged(oracle, ("nbfx", "nbfs")[number % 2], malformed.document())] += 1
    assert seen["accepted"] > MALFORMED // 20
    assert seen["shown otherwise"] < MALFORMED // 100  # tiny doubles, bytes in a list
    transcript(f"malformed documents: {dict(seen)} by .NET and Tiercel alike")


@pytest.mark.parametrize(
    "encoding", [Encoding.BINARY, Encoding.BINARY_SESSION, Encoding.SOAP12_UTF8, Encoding.MTOM]
)
def test_whole_envelopes(oracle: Oracle, encoding: Encoding, transcript: Callable[[str], None]) -> None:
    """What a client sends, read by .NET."""
    endpoint = wcf.Endpoint(None, "net.msmq://localhost/private/orders")
    events = list(
        endpoint.envelope("http://example.org/IOrders/Submit", VALUES, namespace="http://example.org/")
    )
    form = {Encoding.BINARY: "nbfs", Encoding.BINARY_SESSION: "nbfse", Encoding.MTOM: "mtom"}.get(
        encoding, "text"
    )
    data = write_mtom(events) if encoding is Encoding.MTOM else EnvelopeWriter(encoding).write(events)
    (theirs,) = oracle.decode(form, data)
    assert nbfx.to_text(nbfx.from_text(theirs)) == nbfx.to_text(events)
    transcript(f"{form}: an envelope of {len(data)} bytes is read by .NET as it was meant")


def test_whole_bodies_of_dotnet(oracle: Oracle) -> None:
    for vector in load("nmfmb"):
        if vector.get("refused") or vector["envelope_format"] == "text":
            continue
        framed = read_body(bytes.fromhex(vector["hex"]))
        ours = [nbfx.to_text(events) for events in read_envelopes(framed)]
        assert ours == oracle.decode(vector["envelope_format"], *framed.envelopes)
