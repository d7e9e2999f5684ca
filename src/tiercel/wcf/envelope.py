"""SOAP envelopes: what a message says, to whom and under which action."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar
from uuid import UUID
from xml.etree.ElementTree import Element

from tiercel.model.errors import DecodeError
from tiercel.model.message import Message
from tiercel.nbfx import (
    END,
    DictionaryString,
    Document,
    Event,
    UniqueId,
    Value,
    declaration,
    from_elements,
    to_elements,
    to_text,
)
from tiercel.wcf.data_values import from_element, from_members
from tiercel.wcf.soap import ADDRESSING_NAMESPACES, SOAP_BY_NAMESPACE, Addressing, Soap

T = TypeVar("T")


_TRUE = frozenset({"1", "true"})
_OUR_ROLES = frozenset({"next", "ultimateReceiver"})  # the ends of their URIs


class Envelope:
    """An envelope that has arrived."""

    def __init__(self, events: list[Event], message: Message | None = None) -> None:
        self.message = message
        """The MSMQ message that the envelope came in: its label, times, `abort_count` and `move_count`."""
        self._events = events
        self._document = to_elements(events)
        self.soap = self._version()

    def _version(self) -> Soap:
        namespace, _, name = self._document.root.tag.removeprefix("{").rpartition("}")
        soap = SOAP_BY_NAMESPACE.get(namespace)  # type: ignore[call-overload]  # a DictionaryString is a str
        if soap is None or name != "Envelope":
            problem = (
                f"the root must be an Envelope of SOAP 1.1 or 1.2, not {self._document.root.tag[:120]!a}"
            )
            raise DecodeError("SOAP", "Envelope", 0, problem)
        return Soap(soap)

    def __repr__(self) -> str:
        return f"<Envelope {self.action}>"

    @property
    def document(self) -> Document:
        """The whole envelope as elements, with the values and prefixes that stand beside them."""
        return self._document

    @property
    def xml(self) -> str:
        """The whole envelope as text."""
        return to_text(self._events)

    # Headers.

    @cached_property
    def headers(self) -> tuple[Element, ...]:
        header = self._document.root.find(f"{{{self.soap.namespace}}}Header")
        return () if header is None else tuple(header)

    def not_understood(self, understood: Collection[str]) -> str | None:
        """The first header that a receiver has to understand (mustUnderstand) and that is not among these.

        Headers of WS-Addressing are understood, and those for another role are not ours.
        """
        for header in self.headers:
            namespace = header.tag.removeprefix("{").partition("}")[0]
            if (
                header.get(f"{{{self.soap.namespace}}}mustUnderstand") in _TRUE
                and namespace not in ADDRESSING_NAMESPACES
                and header.tag not in understood
                and self._is_ours(header)
            ):
                return header.tag
        return None

    def _is_ours(self, header: Element) -> bool:
        name = "role" if self.soap is Soap.V12 else "actor"
        role = header.get(f"{{{self.soap.namespace}}}{name}", "")
        return not role or role.rpartition("/")[2] in _OUR_ROLES

    def _addressing(self, name: str) -> Element | None:
        for header in self.headers:
            namespace, _, local = header.tag.removeprefix("{").rpartition("}")
            if local == name and namespace in ADDRESSING_NAMESPACES:
                return header
        return None

    def _text(self, name: str) -> str:
        header = self._addressing(name)
        return "" if header is None else (header.text or "").strip()

    @property
    def action(self) -> str:
        """The action, which selects the operation."""
        return self._text("Action")

    @property
    def to(self) -> str:
        return self._text("To")

    @property
    def message_id(self) -> str:
        return self._text("MessageID")

    @property
    def relates_to(self) -> str:
        return self._text("RelatesTo")

    @property
    def reply_to(self) -> str:
        header = self._addressing("ReplyTo")
        address = None if header is None else header.find("{*}Address")
        return "" if address is None else (address.text or "").strip()

    # The body.

    @property
    def body(self) -> Element:
        """The first element in the body: of a WCF operation, its wrapper."""
        body = self._document.root.find(f"{{{self.soap.namespace}}}Body")
        if body is None or not len(body):
            problem = "the envelope has no body" if body is None else "the body is empty"
            raise DecodeError("SOAP", "Body", 0, problem)
        return body[0]

    @property
    def arguments(self) -> dict[str, Any]:
        """The parameters of the operation as plain Python values."""
        return from_members(self.body, self._document)

    def argument(self, name: str, kind: type[T]) -> T:
        """One parameter as a value of a type: a dataclass, list[int], datetime, ..."""
        element = self.body.find(f"{{*}}{name}")
        if element is None:
            problem = f"there is no parameter {name!a}"
            raise DecodeError("SOAP", "Body", 0, problem)
        return from_element(element, self._document, kind)

    @property
    def is_fault(self) -> bool:
        return self.body.tag == f"{{{self.soap.namespace}}}Fault"

    @property
    def fault_reason(self) -> str:
        """The text of a fault, or ""."""
        if not self.is_fault:
            return ""
        found = (
            self.body.find("{*}Reason/{*}Text") if self.soap is Soap.V12 else self.body.find("faultstring")
        )
        return "" if found is None else found.text or ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Headers:
    """The headers of an envelope that is about to be sent."""

    action: str
    to: str
    message_id: UUID | None = None
    reply_to: str = ""
    others: tuple[Element, ...] = ()


def write_envelope(
    headers: Headers, body: Iterable[Event], soap: Soap = Soap.V12, addressing: Addressing = Addressing.V10
) -> Iterator[Event]:
    """The events of an envelope, with names and order as WCF writes them."""
    writer = _EnvelopeWriter(soap, addressing)
    declared = [declaration("s", soap.namespace)]
    if addressing is not Addressing.NONE:
        declared.append(declaration("a", addressing.namespace))
    yield ("start", "s", _ENVELOPE, soap.namespace, tuple(declared))
    yield ("start", "s", _HEADER, soap.namespace, ())
    yield from writer.headers(headers)
    for other in headers.others:
        yield from from_elements(other, scope={"": "", "s": soap.namespace, "a": addressing.namespace})
    yield END
    yield ("start", "s", _BODY, soap.namespace, ())
    yield from body
    yield END
    yield END


_ENVELOPE, _HEADER, _BODY = map(DictionaryString, ("Envelope", "Header", "Body"))
_ACTION, _TO, _MESSAGE_ID, _REPLY_TO, _ADDRESS = map(
    DictionaryString, ("Action", "To", "MessageID", "ReplyTo", "Address")
)
_MUST_UNDERSTAND = DictionaryString("mustUnderstand")


class _EnvelopeWriter:
    def __init__(self, soap: Soap, addressing: Addressing) -> None:
        self._soap = soap
        self._addressing = addressing

    def headers(self, headers: Headers) -> Iterator[Event]:
        if self._addressing is Addressing.NONE:
            yield from self._unaddressed(headers)
            return
        yield from self._header(_ACTION, headers.action, must_understand=True)
        if headers.message_id is not None:
            yield from self._header(_MESSAGE_ID, UniqueId(headers.message_id))
        if headers.reply_to:
            yield ("start", "a", _REPLY_TO, self._addressing.namespace, ())
            yield from self._header(_ADDRESS, DictionaryString(headers.reply_to))
            yield END
        yield from self._header(_TO, headers.to, must_understand=True)

    def _unaddressed(self, headers: Headers) -> Iterator[Event]:
        """WCF's own headers for messages without addressing."""
        namespace = self._addressing.namespace
        for name, value in ((_TO, headers.to), (_ACTION, headers.action)):
            attributes = (self._understood(), declaration("", namespace))
            yield ("start", "", name, namespace, attributes)
            yield ("text", value)
            yield END

    def _header(
        self, name: DictionaryString, value: Value, *, must_understand: bool = False
    ) -> Iterator[Event]:
        attributes = (self._understood(),) if must_understand else ()
        yield ("start", "a", name, self._addressing.namespace, attributes)
        yield ("text", value)
        yield END

    def _understood(self) -> tuple[str, str, str, Value]:
        return ("s", _MUST_UNDERSTAND, self._soap.namespace, "1")
