"""ElementTree elements: what they carry, and what stands beside them."""

from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID
from xml.etree import ElementTree as ET

import pytest

from tiercel import nbfx
from tiercel.nbfx.limits import DEPTH_MAX

from .vectors import load, read

ORDER = next(vector for vector in load("nmfmb") if vector["name"] == "02_datagram_order")
UUID_OF_KEY = UUID("00112233-4455-6677-8899-aabbccddeeff")


def order() -> nbfx.Document:
    return nbfx.to_elements(read("nbfs", bytes.fromhex(ORDER["envelopes"][0]["hex"])))


def test_an_envelope_as_elements() -> None:
    root = order().root
    found = root.find("{*}Body/{*}Submit/{*}order/{*}Id")
    assert root.tag == "{http://www.w3.org/2003/05/soap-envelope}Envelope"
    assert found is not None
    assert found.text == "1"
    assert [each.text for each in root.findall(".//{*}double")] == ["1.5", "2.25", "-1E+300"]


def test_typed_values_stand_beside_the_elements() -> None:
    document = order()
    values = {element.tag.rpartition("}")[2]: value for element, value in document.values.items()}
    assert values["When"] == nbfx.DateTime.of(datetime(2024, 2, 29, 12, tzinfo=UTC))
    assert isinstance(values["Total"], Decimal)
    assert isinstance(values["Blob"], bytes)
    assert isinstance(values["MessageID"], nbfx.UniqueId)


def test_bytes_in_several_records_are_one_value() -> None:
    document = nbfx.to_elements(read("nbfx", bytes.fromhex("4001789e0300070e9f0115")))
    assert document.values[document.root] == bytes.fromhex("00070e15")
    assert document.root.text == "AAcOFQ=="


def test_a_value_with_text_around_it_is_text() -> None:
    events: list[nbfx.Event] = [("start", "", "r", "", ()), ("text", 5), ("text", "x"), ("text", 6), nbfx.END]
    document = nbfx.to_elements(events)
    assert document.root.text == "5x6"
    assert document.values == {}


def test_prefixes_in_scope_can_be_looked_up() -> None:
    document = nbfx.to_elements(nbfx.from_text('<r xmlns:a="urn:a"><c xmlns="urn:d"/></r>'))
    child = document.root[0]
    assert document.scopes[document.root]["a"] == "urn:a"
    assert {"": "urn:d", "a": "urn:a"}.items() <= document.scopes[child].items()


def text_of(element: ET.Element) -> str:
    return nbfx.to_text(nbfx.from_elements(element))


def test_elements_get_prefixes() -> None:
    root = nbfx.to_elements(nbfx.from_text('<a xmlns="urn:a"><b xmlns=""/><c>t</c>u</a>')).root
    assert text_of(root) == '<a xmlns="urn:a"><b xmlns=""></b><c>t</c>u</a>'


def test_attributes_get_prefixes() -> None:
    root = ET.Element("r", {"{urn:a}x": "1", "y": "2", "{http://www.w3.org/XML/1998/namespace}lang": "en"})
    assert text_of(root) == '<r xmlns:p0="urn:a" p0:x="1" y="2" xml:lang="en"></r>'


def test_qualified_names_as_values() -> None:
    root = ET.Element("r", {"{http://www.w3.org/2001/XMLSchema-instance}type": ET.QName("urn:t", "T")})  # type: ignore[dict-item]
    root.text = ET.QName("plain")  # type: ignore[assignment]
    said = '<r xmlns:i="http://www.w3.org/2001/XMLSchema-instance" xmlns:p0="urn:t" i:type="p0:T">plain</r>'
    assert text_of(root) == said


def test_comments_stay_and_instructions_go() -> None:
    root = ET.Element("r")
    root.append(ET.Comment("c"))
    root.append(ET.ProcessingInstruction("p"))
    root[-1].tail = "t"
    assert text_of(root) == "<r><!--c-->t</r>"


def test_names_are_numbers_where_a_dictionary_has_them() -> None:
    root = ET.Element("{http://www.w3.org/2003/05/soap-envelope}Envelope")
    spelled, numbered = (nbfx.encode(nbfx.from_elements(root, intern=intern)) for intern in (False, True))
    assert numbered.hex() == "56020b01730401"
    assert len(spelled) > len(numbered)


def test_depth() -> None:
    root = element = ET.Element("r")
    for _ in range(DEPTH_MAX):
        element = ET.SubElement(element, "r")
    with pytest.raises(ValueError, match="nested deeper"):
        list(nbfx.from_elements(root))
