"""Documents that .NET has written, or has judged."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tiercel import nbfx
from tiercel.model.errors import DecodeError
from tiercel.nbfx.dictionary import DictionaryString, static_id
from tiercel.nbfx.reader import read_events

from .vectors import VECTORS, as_mono, load, read, without_carriage_returns, write

GOOD = [vector for vector in load("nbfx") if not vector.get("error")]
BAD = [vector for vector in load("nbfx") if vector.get("error")]
WRITTEN_BY_DOTNET = [vector for vector in GOOD if vector["producer"].startswith("mono")]
ENVELOPES = [
    (vector["name"], vector["envelope_format"], [bytes.fromhex(each["hex"]) for each in vector["envelopes"]])
    for vector in load("nmfmb")
    if vector["envelope_format"] in {"nbfs", "nbfse"} and vector["envelopes"]
]
EXAMPLES = json.loads((VECTORS / "nbfx_examples.json").read_text("utf-8"))


def name_of(vector: Any) -> str:
    return str(vector["name"])


@pytest.mark.parametrize("vector", GOOD, ids=name_of)
def test_reads_what_dotnet_reads(vector: dict[str, Any]) -> None:
    events = read(vector["format"], bytes.fromhex(vector["hex"]))
    assert without_carriage_returns(nbfx.to_text(events)) == vector["xml"]
    if vector["name"] != "reader_mixed_text":  # .NET reports an empty text twice there
        assert as_mono(events) == vector["events"]


@pytest.mark.parametrize("vector", WRITTEN_BY_DOTNET, ids=name_of)
def test_writes_the_bytes_that_dotnet_writes(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    assert write(vector["format"], read(vector["format"], data)).hex() == data.hex()


@pytest.mark.parametrize("vector", BAD, ids=name_of)
def test_refuses_what_dotnet_refuses(vector: dict[str, Any]) -> None:
    with pytest.raises(DecodeError):
        read(vector["format"], bytes.fromhex(vector["hex"]))


@pytest.mark.parametrize(("name", "form", "documents"), ENVELOPES, ids=lambda each: str(each)[:30])
def test_envelopes_survive_byte_for_byte(name: str, form: str, documents: list[bytes]) -> None:
    """The envelopes of a session share one dictionary, in both directions."""
    reading, writing = nbfx.ReaderSession(), nbfx.WriterSession()
    for document in documents:
        if form == "nbfs":
            assert nbfx.encode(nbfx.decode(document)) == document, name
        else:
            assert nbfx.encode(nbfx.decode(document, reading), writing) == document, name


class Numbered(dict[int, DictionaryString]):
    """The examples of the specification call the string with the id 8 "str8"."""

    def __missing__(self, number: int) -> DictionaryString:
        return DictionaryString(f"str{number}")


@pytest.mark.parametrize("example", EXAMPLES, ids=name_of)
def test_examples_of_the_specification(example: Mapping[str, str]) -> None:
    assert nbfx.to_text(read_events(bytes.fromhex(example["hex"]), Numbered())) == example["xml"]


def test_examples_cover_every_kind_of_record() -> None:
    """[MC-NBFX] 3 has an example for each; of those with a letter for their prefix it has a few."""
    from tiercel.nbfx.reader import _ATTRIBUTES, _DECLARATIONS, _ELEMENTS  # noqa: PLC0415
    from tiercel.nbfx.text_records import DECODERS  # noqa: PLC0415

    seen = {int(example["record"]) for example in EXAMPLES}
    assert {0x01, 0x02, 0x03, *_DECLARATIONS, *DECODERS, *(each | 1 for each in DECODERS)} <= seen | {0x01}
    assert {record for record in seen if record < 0x80} - {1, 2, 3} <= {
        *_ATTRIBUTES,
        *_DECLARATIONS,
        *_ELEMENTS,
    }


def test_the_example_of_the_string_table() -> None:
    """[MC-NBFSE] 3."""
    session = nbfx.ReaderSession()
    assert session.read_table(bytes.fromhex("1106616374696f6e09496e76656e746f7279")) == 18
    assert (session.strings[1], session.strings[3]) == ("action", "Inventory")


def test_the_static_dictionary() -> None:
    """[MC-NBFS] 2.2: ids are even, and the last one is 0x3CC."""
    ids = {
        "mustUnderstand": 0x00,
        "Envelope": 0x02,
        "http://www.w3.org/2005/08/addressing": 0x06,
        "nil": 0x37B,
    }
    assert static_id("mustUnderstand") == ids["mustUnderstand"]
    assert static_id("Envelope") == ids["Envelope"]
    assert static_id("http://www.w3.org/2005/08/addressing") == ids["http://www.w3.org/2005/08/addressing"]
    assert static_id("detail") == 0x3CC
    assert static_id("no such string") is None
