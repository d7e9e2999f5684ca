"""Bodies of WCF's NetMsmqBinding: the SOAP body as XML and as a value; action and addresses as headers.

[MS-NMFMB]. A session has several envelopes: their bodies follow one another, their values are in a list, and
the headers are those of the first. Binary XML has typed values, so a value has numbers where XML text would
have strings.
"""

from collections.abc import Iterator, Mapping
from typing import Final
from xml.etree.ElementTree import Element

from tiercel.bodies.decoded import Decoded, Kind, Value, valid_text
from tiercel.bodies.limits import characters_limit
from tiercel.framing.body import looks_framed, read_body
from tiercel.framing.receiver import read_envelopes
from tiercel.framing.records import Mode
from tiercel.model.errors import DecodeError
from tiercel.nbfx import Event, declaration, to_elements, to_text
from tiercel.nbfx import Value as NbfxValue
from tiercel.nbfx.elements import SERIALIZATION, XSI, Document, split_tag
from tiercel.nbfx.events import XMLNS

BODY_TYPES: Final = frozenset({0, 0x1011})  # none, and VT_VECTOR | VT_UI1, which .NET writes
_ARRAYS: Final = "http://schemas.microsoft.com/2003/10/Serialization/Arrays"
_SOAP: Final = ("http://www.w3.org/2003/05/soap-envelope", "http://schemas.xmlsoap.org/soap/envelope/")
_ID, _REF = f"{{{SERIALIZATION}}}Id", f"{{{SERIALIZATION}}}Ref"
_REPEATED_MAX: Final = 256  # characters of a text that stands at every reference to it
_HEADERS: Final = {"Action": "action", "To": "to", "MessageID": "message_id"}


def is_wcf(body: bytes, body_type: int) -> bool:
    return body_type in BODY_TYPES and looks_framed(body)


def read_wcf(body: bytes) -> Decoded:
    """The envelopes of a body; DecodeError if it is invalid."""
    framed = read_body(body)
    limit = characters_limit(len(body))
    texts, values = [], []
    headers: Mapping[str, str] | None = None
    for events in read_envelopes(framed):
        text = to_text(_body_events(events), limit)
        limit -= len(text)
        texts.append(text)
        document = to_elements(events)
        content = _content(document.root)
        values.append(None if content is None else _value(content, document))
        headers = headers if headers is not None else _headers(document.root)
    value: Value = values[0] if framed.preamble.mode is Mode.SINGLETON_SIZED else values
    return Decoded(Kind.WCF, value, valid_text("\n".join(texts)), headers=headers or {})


def _content(root: Element) -> Element | None:
    """The first element of the SOAP body."""
    namespace, name = split_tag(root.tag)
    if name != "Envelope" or namespace not in _SOAP:
        raise DecodeError("SOAP", "Envelope", 0, f"the root is {root.tag[:120]!a}")
    return root.find(f"{{{namespace}}}Body/*")


def _headers(root: Element) -> dict[str, str]:
    found = {}
    for header in root.iterfind("{*}Header/*"):
        namespace, name = split_tag(header.tag)
        if name in _HEADERS and "/addressing" in namespace:
            found[_HEADERS[name]] = valid_text((header.text or "").strip())
    return {name: found[name] for name in _HEADERS.values() if name in found}


def _body_events(events: list[Event]) -> list[Event]:
    """The content of the SOAP body alone, with the namespace prefixes that its ancestors declare."""
    depth, outer, inside = 0, dict[str, NbfxValue](), list[Event]()
    is_body = False
    for event in events:
        if event[0] == "end":
            depth -= 1
            is_body = is_body and depth > 1
        if is_body:
            inside.append(event)
        if event[0] == "start":
            depth += 1
            if depth <= 2 and event[2] in {"Envelope", "Body"}:
                outer.update(_declared(event[4]))
                is_body = is_body or (depth == 2 and event[2] == "Body")
    return list(_closed(inside, outer))


def _closed(events: list[Event], outer: Mapping[str, NbfxValue]) -> Iterator[Event]:
    used = {event[1] for event in events if event[0] in {"start", "array"}}
    used |= {each[0] for event in events if event[0] == "start" for each in event[4]}
    kept = [prefix for prefix in outer if prefix in used or prefix not in {"s", "a"}]
    is_first = True
    for event in events:
        if is_first and event[0] == "start":
            own = dict(_declared(event[4]))
            missing = tuple(declaration(each, str(outer[each])) for each in kept if each not in own)
            yield (*event[:4], (*missing, *event[4]))
            is_first = False
        else:
            yield event


def _declared(attributes: tuple[tuple[str, str, str, NbfxValue], ...]) -> Iterator[tuple[str, NbfxValue]]:
    for prefix, name, namespace, value in attributes:
        if namespace == XMLNS:
            yield (name if prefix else ""), value


def _value(element: Element, document: Document) -> Value:
    """An object that others refer to has an `$id`, and they are `{"$ref": id}`: it may be its own part."""
    if element in document.references:
        target = document.references[element]
        if target is None or len(target) or len(target.text or "") > _REPEATED_MAX:
            return {"$ref": valid_text(element.get(_REF, ""))}
        element = target
    if element.get(f"{{{XSI}}}nil") in {"true", "1"}:
        return None
    if not len(element):
        value = document.values.get(element)
        if isinstance(value, bool | int | float | bytes):
            return float(value) if isinstance(value, float) else value
        return valid_text(element.text or "")
    if all(split_tag(child.tag)[0] == _ARRAYS for child in element):
        items = [_value(child, document) for child in element]
        return {"$id": _id(element), "$values": items} if element in document.referred else items
    members: dict[str, Value] = {"$id": _id(element)} if element in document.referred else {}
    repeated: dict[str, list[Value]] = {}
    for child in element:
        name, value_ = split_tag(child.tag)[1], _value(child, document)
        if name in repeated:
            repeated[name].append(value_)
        elif name in members:
            members[name] = repeated[name] = [members[name], value_]
        else:
            members[name] = value_
    return members


def _id(element: Element) -> str:
    return valid_text(element.get(_ID, ""))
