"""XML text: what goes in and what is refused."""

import pytest

from tiercel import nbfx
from tiercel.model.errors import DecodeError
from tiercel.nbfx.limits import DEPTH_MAX


def test_prefixes_and_order_stay() -> None:
    text = '<b:r z="1" xmlns:b="urn:b" b:y="2"><c xmlns="urn:c">x<!--note-->y</c></b:r>'
    assert nbfx.to_text(nbfx.from_text(text)) == text


def test_namespaces_are_resolved() -> None:
    start = nbfx.from_text('<b:r b:y="2" z="1" xmlns:b="urn:b"/>')[0]
    assert start[1:4] == ("b", "r", "urn:b")
    assert ("b", "y", "urn:b", "2") in start[4]  # type: ignore[misc]
    assert ("", "z", "", "1") in start[4]  # type: ignore[misc]


@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_encodings(codec: str) -> None:
    data = "<r>größe</r>".encode(codec)
    assert nbfx.to_text(nbfx.from_text(data, codec)) == "<r>größe</r>"
    assert nbfx.to_text(nbfx.from_text(data)) == "<r>größe</r>"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<r>", "no element found"),
        ("<!DOCTYPE r><r/>", "document types and processing instructions are not allowed"),
        ('<!DOCTYPE r [<!ENTITY a "aa">]><r>&a;</r>', "document types"),
        ("<?pi?><r/>", "processing instructions are not allowed"),
        ("<b:r/>", "the prefix 'b' is not declared"),
        ('<r b:a=""/>', "the prefix 'b' is not declared"),
        ('<r xmlns:b=""/>', "cannot be bound"),
        ('<r xmlns:b="http://www.w3.org/2000/xmlns/"/>', "cannot be bound"),
        ('<r xmlns:a="u" xmlns:b="u" a:x="" b:x=""/>', "an attribute comes twice"),
        ("<r/><r/>", "junk after document element"),
        ("\ud800", "unpaired surrogates"),
        ("<r>" * (DEPTH_MAX + 1), "nested deeper"),
    ],
)
def test_refused(text: str, said: str) -> None:
    with pytest.raises(DecodeError, match=said):
        nbfx.from_text(text)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'<?xml version="1.0" encoding="iso-8859-1"?><r/>', "must be UTF-8 or UTF-16, not 'iso-8859-1'"),
        (b"<r>\xff</r>", "not valid UTF-8"),
        (b"\xff\xfe<", "not valid UTF-16"),
    ],
)
def test_other_encodings_are_refused(data: bytes, said: str) -> None:
    with pytest.raises(DecodeError, match=said):
        nbfx.from_text(data)


def test_characters_without_a_place_in_xml_become_references() -> None:
    events: list[nbfx.Event] = [
        ("start", "", "r", "", (("", "a", "", '<&>"\n\x01'),)),
        ("text", "\r\x00]]>"),
        nbfx.END,
    ]
    assert nbfx.to_text(events) == '<r a="&lt;&amp;&gt;&quot;&#xA;&#x1;">&#xD;&#x0;]]&gt;</r>'


def test_comments_stay_well_formed() -> None:
    events: list[nbfx.Event] = [("start", "", "r", "", ()), ("comment", "a--b-"), nbfx.END]
    assert nbfx.to_text(nbfx.from_text(nbfx.to_text(events))) == "<r><!--a- -b- --></r>"
