"""Events to records, in the forms that .NET's writer chooses: [MC-NBFX] 2."""

from collections.abc import Iterable
from typing import Final

from tiercel.nbfx import records
from tiercel.nbfx.dictionary import SPELLED_OUT, Ids
from tiercel.nbfx.events import XMLNS, Attributes, Event
from tiercel.nbfx.int31 import write_int31
from tiercel.nbfx.text_records import write_items, write_text, write_value
from tiercel.nbfx.values import QName, Value

_STATIC: Final = Ids()
_STARTS_KEPT: Final = 4_096
_LETTER: Final = {letter: index for index, letter in enumerate(records.LETTERS)}


def write_events(events: Iterable[Event], ids: Ids = _STATIC) -> bytes:
    """The document of the events. Only a DictionaryString is looked up; every other string is spelled out."""
    writer = _Writer(ids)
    writer.write(events)
    return bytes(writer.out)


class _Writer:
    def __init__(self, ids: Ids) -> None:
        self.out = bytearray()
        self._dictionary_id = ids.of
        self._starts = ids.starts

    def write(self, events: Iterable[Event]) -> None:
        out, starts, text_at = self.out, self._starts, -1
        for event in events:
            kind = event[0]
            if kind == "start":
                _, prefix, name, _, attributes = event  # type: ignore[misc]
                known = starts.get(type(name), SPELLED_OUT).get((prefix, name))
                if known is None:
                    self._start(prefix, name)
                else:
                    out += known
                if attributes:
                    self._attributes(attributes)
                text_at = -1
            elif kind == "text":
                text_at = len(out)
                value = event[1]
                if type(value) is str:
                    write_text(out, value)
                else:
                    self._value(value)
                    if type(value) is tuple:
                        text_at = -1  # a list has no form with an end
            elif kind == "end":
                if text_at >= 0 and event[1]:
                    out[text_at] |= 1
                else:
                    out.append(records.END_ELEMENT)
                text_at = -1
            elif kind == "comment":
                out.append(records.COMMENT)
                self._string(event[1])  # type: ignore[arg-type]  # kind says which event it is
                text_at = -1
            else:
                self._array(event)  # type: ignore[arg-type]
                text_at = -1

    def _start(self, prefix: str, name: str) -> None:
        """[MC-NBFX] 2.2.1."""
        out = self.out
        start = len(out)
        number = self._dictionary_id(name)
        self._tag(prefix, number, records.SHORT_ELEMENT, records.PREFIX_ELEMENT_A)
        self._name(name, number)
        known = self._starts.get(type(name), SPELLED_OUT)
        if len(known) < _STARTS_KEPT and len(out) - start < 128:
            known[prefix, name] = bytes(out[start:])

    def _tag(self, prefix: str, number: int | None, short: int, letter_a: int) -> None:
        """The record type: without prefix, with one letter, or with a prefix that is spelled out."""
        if number is not None:
            letter_a -= 26  # PrefixDictionary... stands before Prefix...
            short += 2
        if not prefix:
            self.out.append(short)
        elif (letter := _LETTER.get(prefix)) is not None:
            self.out.append(letter_a + letter)
        else:
            self.out.append(short + 1)
            self._string(prefix)

    def _name(self, name: str, number: int | None) -> None:
        if number is None:
            self._string(name)
        else:
            write_int31(self.out, number)

    def _string(self, string: str) -> None:
        encoded = string.encode()
        write_int31(self.out, len(encoded))
        self.out += encoded

    def _attributes(self, attributes: Attributes) -> None:
        """[MC-NBFX] 2.2.2."""
        for prefix, name, namespace, value in attributes:
            number: int | None
            if namespace == XMLNS:
                self._declaration(name if prefix else "", value)
            else:
                number = self._dictionary_id(name)
                self._tag(prefix, number, records.SHORT_ATTRIBUTE, records.PREFIX_ATTRIBUTE_A)
                self._name(name, number)
                self._value(value)

    def _declaration(self, prefix: str, namespace: Value) -> None:
        assert isinstance(namespace, str)
        number = self._dictionary_id(namespace)
        record = records.SHORT_XMLNS if number is None else records.SHORT_DICTIONARY_XMLNS
        if prefix:
            self.out.append(record + 1)
            self._string(prefix)
        else:
            self.out.append(record)
        self._name(namespace, number)

    def _value(self, value: Value) -> None:
        number = self._dictionary_id(value)
        if number is not None:
            self.out.append(records.DICTIONARY)
            write_int31(self.out, number)
        elif type(value) is QName and (number := self._dictionary_id(value.name)) is not None:
            self.out.append(records.QNAME_DICTIONARY)
            self.out.append(_LETTER[value.prefix])
            write_int31(self.out, number)
        elif type(value) is tuple:
            self.out.append(records.START_LIST)
            for item in value:
                self._value(item)
            self.out.append(records.END_LIST)
        else:
            write_value(self.out, value)

    def _array(self, event: tuple[str, str, str, str, Attributes, int, tuple[Value, ...]]) -> None:
        """[MC-NBFX] 2.3.3."""
        _, prefix, name, _, attributes, record, values = event
        self.out.append(records.ARRAY)
        self._start(prefix, name)
        self._attributes(attributes)
        self.out.append(records.END_ELEMENT)
        write_items(self.out, record, values)
