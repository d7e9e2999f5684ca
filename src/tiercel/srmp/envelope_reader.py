"""SOAP envelopes to values: [MC-MQSRM] 2.2.2 to 2.2.7, 3.1.5.1.1.

Elements are found by namespace and name, in any order. Unknown ones are skipped, except header elements that
must be understood. A known element may appear once (SRMP-034).
"""

import re
from collections.abc import Callable
from typing import NamedTuple, TypeVar
from uuid import UUID

from tiercel.message_security.xml_signature import XMLDSIG, Reference, XmlSignature
from tiercel.model.codes import HashAlgorithm
from tiercel.model.errors import DecodeError
from tiercel.model.format_name import MAX_ELEMENTS
from tiercel.model.limits import LABEL_MAX_UTF16_UNITS, PRIORITY_MAX
from tiercel.model.message import CORRELATION_ID_BYTES
from tiercel.model.path_name import utf16_length
from tiercel.srmp.envelope import (
    FOREIGN_ID,
    LABEL_PREFIX,
    MSMQ,
    RP,
    SE,
    SRMP,
    CommitmentReceipt,
    CommitmentReceiptRequest,
    Decision,
    DeliveryReceipt,
    Envelope,
    Eod,
    Msmq,
    Path,
    Properties,
    Provider,
    Services,
    Stream,
    StreamReceipt,
)
from tiercel.srmp.queue_urls import read_destination, read_queue, read_url
from tiercel.srmp.values import (
    U16_MAX,
    U32_MAX,
    parse_base64,
    parse_date,
    parse_guid,
    parse_message_id,
    parse_number,
    parse_stream_id,
)
from tiercel.srmp.xml_tree import Element, read_xml

_T = TypeVar("_T")
_WHITE = " \t\r\n"
_MUST_UNDERSTAND = f"{SE} mustUnderstand"
_ACTOR = f"{SE} actor"
_NEXT_ACTOR = "http://schemas.xmlsoap.org/soap/actor/next"


class Parsed(NamedTuple):
    """An envelope, and the elements that it was read from."""

    envelope: Envelope
    root: Element
    header: Element
    body: Element


def read_envelope(document: bytes, base: int = 0) -> Parsed:
    """The envelope in a document that stands at `base` in its request."""
    root = read_xml(document, base)
    header, body = _frame(root)
    known = _known(header)
    if (path := known.get("path")) is None:
        raise header.error("the path is missing", "path")
    if (properties := known.get("properties")) is None:
        raise header.error("the properties are missing", "properties")
    msmq = known.get("Msmq")
    stream = known.get("stream")
    if stream is not None and msmq is None:
        raise stream.error("needs an Msmq element")
    envelope = Envelope(
        path=_path(path, has_msmq=msmq is not None),
        properties=_properties(properties),
        services=_optional(known.get("services"), _services),
        stream=_optional(stream, _stream),
        delivery_receipt=_optional(known.get("deliveryReceipt"), _delivery_receipt),
        stream_receipt=_optional(known.get("streamReceipt"), _stream_receipt),
        commitment_receipt=_optional(known.get("commitmentReceipt"), _commitment_receipt),
        msmq=_optional(msmq, _msmq),
        signature=_optional(known.get("Signature"), _signature),
    )
    return Parsed(envelope, root, header, body)


def _frame(root: Element) -> tuple[Element, Element]:
    """2.2.2: a Header, and directly after it a Body."""
    if root.qualified != f"{SE} Envelope":
        raise root.error(f"must be an Envelope of {SE}, not of {root.namespace[:80]!a}")
    for at, name in enumerate(("Header", "Body")):
        if len(root.children) <= at:
            raise root.error("is missing", name)
        if (child := root.children[at]).qualified != f"{SE} {name}":
            raise child.error(f"must be the {name} of {SE}")
    return root.children[0], root.children[1]


Names = dict[str, str]  # names of elements by their qualified names


def _names_in(namespace: str, *names: str) -> Names:
    return {f"{namespace} {name}": name for name in names}


_HEADERS = {
    **_names_in(RP, "path"),
    **_names_in(SRMP, "properties", "services", "stream"),
    f"{SRMP} Stream": "stream",  # the text spells stream, every example Stream (trap 18)
    **_names_in(SRMP, "deliveryReceipt", "commitmentReceipt", "streamReceipt"),
    **_names_in(MSMQ, "Msmq"),
    **_names_in(XMLDSIG, "Signature"),
}


def _known(header: Element) -> dict[str, Element]:
    known: dict[str, Element] = {}
    for child in header.children:
        name = _HEADERS.get(child.qualified)
        if name is None:
            # SOAP 1.1, 4.2.2: a header with an actor is for another computer, unless it is for the next one.
            is_ours = child.attributes.get(_ACTOR, _NEXT_ACTOR).strip(_WHITE) in {"", _NEXT_ACTOR}
            if is_ours and child.attributes.get(_MUST_UNDERSTAND, "0").strip(_WHITE) not in {"0", "false"}:
                raise child.error(
                    f"must be understood, but the namespace {child.namespace[:80]!a} has no such header"
                )
        elif name in known:
            raise child.error("appears twice")
        else:
            known[name] = child
    return known


def _optional(element: Element | None, read: Callable[[Element], _T]) -> _T | None:
    return None if element is None else read(element)


class _Children:
    """The children of an element with the given names."""

    __slots__ = ("_by_name", "_element")

    def __init__(self, element: Element, names: Names) -> None:
        self._element = element
        self._by_name: dict[str, Element] = {}
        for child in element.children:
            name = names.get(child.qualified)
            if name is not None:
                if name in self._by_name:
                    raise child.error("appears twice")
                self._by_name[name] = child

    def has(self, name: str) -> bool:
        return name in self._by_name

    def element(self, name: str) -> Element | None:
        return self._by_name.get(name)

    def required(self, name: str) -> Element:
        if (child := self._by_name.get(name)) is None:
            raise self._element.error("is missing", name)
        return child

    def read(self, name: str, parse: Callable[[str], _T]) -> _T:
        return _parse(self.required(name), parse)

    def read_optional(self, name: str, parse: Callable[[str], _T], default: _T) -> _T:
        child = self._by_name.get(name)
        return default if child is None else _parse(child, parse)


def _parse(element: Element, parse: Callable[[str], _T]) -> _T:
    text = _text(element).strip(_WHITE)
    try:
        return parse(text)
    except ValueError as problem:
        raise DecodeError("Envelope", element.name, element.at, str(problem)) from None


def _text(element: Element) -> str:
    if element.children:
        raise element.error(f"must contain text only, not the element {element.children[0].name[:80]!a}")
    return element.text


def _url(text: str) -> str:
    """Where receipts go."""
    if read_url(text).is_read_only:
        raise ValueError(f"{text[:80]!a} is a queue that nobody can send to")
    return text


def parse_destination(text: str) -> str:
    read_destination(text)
    return text


def parse_u32(text: str) -> int:
    return parse_number(text, U32_MAX)


def parse_class(text: str) -> int:
    return parse_number(text, U16_MAX)


def parse_priority(text: str) -> int:
    return parse_number(text, PRIORITY_MAX)


# The children that are read, of each element.

_PATH = _names_in(RP, "action", "to", "id", "rev")
_PROPERTIES = _names_in(SRMP, "expiresAt", "sentAt")
_SERVICES = _names_in(SRMP, "durable", "deliveryReceiptRequest", "commitmentReceiptRequest")
_RECEIPT_REQUEST = _names_in(SRMP, "sendTo", "positiveOnly", "negativeOnly")
_STREAM = _names_in(SRMP, "streamId", "current", "previous", "start")
_START = _names_in(SRMP, "sendReceiptsTo")
_DELIVERY_RECEIPT = _names_in(SRMP, "receivedAt", "id")
_COMMITMENT_RECEIPT = _names_in(SRMP, "decidedAt", "decision", "id")
_STREAM_RECEIPT = _names_in(SRMP, "streamId", "lastOrdinal")
_EOD = _names_in(MSMQ, "First", "Last", "ConnectorId")
_PROVIDER = _names_in(MSMQ, "Type", "Name")
_MSMQ = _names_in(
    MSMQ,
    "Class",
    "Priority",
    "Journal",
    "DeadLetter",
    "Correlation",
    "Trace",
    "ConnectorType",
    "App",
    "BodyType",
    "HashAlgorithm",
    "Eod",
    "Provider",
    "SourceQmGuid",
    "DestinationMqf",
    "AdminMqf",
    "ResponseMqf",
    "TTrq",
)


# Path


def _path(element: Element, *, has_msmq: bool) -> Path:
    """2.2.4; fwd, from, relatesTo and fault are ignored."""
    children = _Children(element, _PATH)
    action = _text(children.required("action"))
    try:
        check_label(action)
    except ValueError as problem:
        raise children.required("action").error(str(problem)) from None
    to = children.read("to", parse_destination)
    identifier = children.required("id")
    rev = children.element("rev")
    return Path(
        action=action,
        to=to,
        id=_parse(identifier, parse_message_id) if has_msmq else FOREIGN_ID,
        via="" if rev is None else _via(rev),
    )


def check_label(action: str) -> None:
    if action.startswith(LABEL_PREFIX) and utf16_length(action) - len(LABEL_PREFIX) > LABEL_MAX_UTF16_UNITS:
        raise ValueError(f"the label has more than {LABEL_MAX_UTF16_UNITS} characters")


def _via(rev: Element) -> str:
    """2.2.4.4: exactly one via, which may be empty."""
    vias = [child for child in rev.children if child.qualified == f"{RP} via"]
    if len(vias) != 1:
        raise rev.error(f"must contain one via, not {len(vias)}")
    return _parse(vias[0], parse_response)


def parse_response(text: str) -> str:
    if text:
        read_queue(text)
    return text


# SRMP header elements


def _properties(element: Element) -> Properties:
    """2.2.5.1"""
    children = _Children(element, _PROPERTIES)
    return Properties(
        children.read("expiresAt", parse_date),
        children.read_optional("sentAt", parse_sent_at, None),
    )


def parse_sent_at(text: str) -> int | None:
    if (seconds := parse_date(text)) > U32_MAX:
        raise ValueError(f"{text} is after 2106, which a message cannot have")
    return seconds


def _services(element: Element) -> Services:
    """2.2.5.2"""
    children = _Children(element, _SERVICES)
    return Services(
        children.has("durable"),
        _optional(children.element("deliveryReceiptRequest"), _delivery_receipt_request),
        _optional(children.element("commitmentReceiptRequest"), _commitment_receipt_request),
    )


def _delivery_receipt_request(element: Element) -> str:
    """2.2.5.2.2"""
    return _Children(element, _RECEIPT_REQUEST).read("sendTo", _url)


def _commitment_receipt_request(element: Element) -> CommitmentReceiptRequest:
    """2.2.5.2.3"""
    children = _Children(element, _RECEIPT_REQUEST)
    return CommitmentReceiptRequest(
        children.read("sendTo", _url), children.has("positiveOnly"), children.has("negativeOnly")
    )


def _stream(element: Element) -> Stream:
    """2.2.5.3"""
    children = _Children(element, _STREAM)
    stream = Stream(
        children.read("streamId", parse_stream_id),
        children.read("current", parse_u32),
        children.read_optional("previous", parse_u32, None),
        _optional(children.element("start"), _start),
        element.name,
    )
    if field := check_stream(stream):
        problem = f"is {stream.previous}, current is {stream.current}"
        raise children.required(field).error(
            problem if field == "previous" else "is 0; the first message has 1"
        )
    return stream


def check_stream(stream: Stream) -> str:
    """The element with a number that cannot be, or empty."""
    if not stream.current:
        return "current"
    return "previous" if stream.previous is not None and stream.previous >= stream.current else ""


def _start(element: Element) -> str:
    """2.2.5.3.4"""
    return _Children(element, _START).read("sendReceiptsTo", _url)


def _delivery_receipt(element: Element) -> DeliveryReceipt:
    """2.2.5.4"""
    children = _Children(element, _DELIVERY_RECEIPT)
    return DeliveryReceipt(children.read("receivedAt", parse_date), children.read("id", parse_message_id))


def _commitment_receipt(element: Element) -> CommitmentReceipt:
    """2.2.5.5"""
    children = _Children(element, _COMMITMENT_RECEIPT)
    return CommitmentReceipt(
        children.read("decidedAt", parse_date),
        children.read("decision", _decision),
        children.read("id", parse_message_id),
    )


def _decision(text: str) -> Decision:
    try:
        return Decision(text)
    except ValueError:
        raise ValueError(f"must be positive or negative, not {text[:80]!a}") from None


def _stream_receipt(element: Element) -> StreamReceipt:
    """2.2.5.6"""
    children = _Children(element, _STREAM_RECEIPT)
    return StreamReceipt(children.read("streamId", parse_stream_id), children.read("lastOrdinal", parse_u32))


# Msmq


def _msmq(element: Element) -> Msmq:
    """2.2.6"""
    children = _Children(element, _MSMQ)
    return Msmq(
        source_qm_guid=children.read("SourceQmGuid", parse_guid),
        ttrq=children.read("TTrq", parse_date),
        message_class=children.read("Class", parse_class),
        priority=children.read("Priority", parse_priority),
        journal=children.has("Journal"),
        dead_letter=children.has("DeadLetter"),
        correlation=children.read_optional("Correlation", parse_correlation, bytes(CORRELATION_ID_BYTES)),
        trace=children.has("Trace"),
        connector_type=_guid(children, "ConnectorType"),
        app=children.read_optional("App", parse_u32, 0),
        body_type=children.read("BodyType", parse_u32),
        hash_algorithm=children.read_optional("HashAlgorithm", parse_u32, int(HashAlgorithm.SHA1)),
        eod=_optional(children.element("Eod"), _eod),
        provider=_optional(children.element("Provider"), _provider),
        destination_mqf=children.read_optional("DestinationMqf", _names, ()),
        admin_mqf=children.read_optional("AdminMqf", _names, ()),
        response_mqf=children.read_optional("ResponseMqf", _names, ()),
    )


def parse_correlation(text: str) -> bytes:
    return parse_base64(text, CORRELATION_ID_BYTES)


def _guid(children: _Children, name: str) -> UUID | None:
    return children.read(name, parse_guid) if children.has(name) else None


def _eod(element: Element) -> Eod:
    """2.2.6.11"""
    children = _Children(element, _EOD)
    return Eod(children.has("First"), children.has("Last"), _guid(children, "ConnectorId"))


def _provider(element: Element) -> Provider:
    """2.2.6.12"""
    children = _Children(element, _PROVIDER)
    return Provider(children.read("Type", parse_u32), _text(children.required("Name")))


def _names(text: str) -> tuple[str, ...]:
    """2.2.6.14 to 2.2.6.16: separated by any white space (trap 35)."""
    names = tuple(re.findall(r"[^ \t\r\n]+", text))
    if len(names) > MAX_ELEMENTS:
        raise ValueError(f"has {len(names)} names, the limit is {MAX_ELEMENTS}")
    for name in names:
        read_queue(name)
    return names


# Signature


def _signature(element: Element) -> XmlSignature:
    """2.2.7. Empty if SignedInfo has anything that is not expected: it could change what is signed."""
    infos, values = _all(element, "SignedInfo"), _all(element, "SignatureValue")
    if len(infos) != 1 or len(values) != 1:
        return XmlSignature()
    (info,), (value,) = infos, values
    methods, references = _all(info, "SignatureMethod"), _all(info, "Reference")
    if len(methods) != 1 or len(info.children) != 1 + len(references):
        return XmlSignature()
    return XmlSignature(
        methods[0].attributes.get("Algorithm", ""),
        tuple(map(_reference, references)),
        value.text.strip(_WHITE),
        info.raw,
    )


def _reference(element: Element) -> Reference:
    """2.2.7.1.2; without a method if there are transforms, or anything else."""
    methods, values = _all(element, "DigestMethod"), _all(element, "DigestValue")
    uri = element.attributes.get("URI", "")
    if len(methods) != 1 or len(values) != 1 or len(element.children) != 2:
        return Reference(uri, "", "")
    return Reference(uri, methods[0].attributes.get("Algorithm", ""), values[0].text.strip(_WHITE))


def _all(element: Element, name: str) -> list[Element]:
    return [child for child in element.children if child.qualified == f"{XMLDSIG} {name}"]
