"""A pull reader: the events of a document, one at a time. [MC-NBFX] 2.

`read_events` is one long loop because a call for each record would halve its speed; the records that are rare
in envelopes have functions of their own. It keeps the open elements and nothing else of what it has read.

The reader refuses what .NET's readers refuse, and also names that are not valid in XML, which .NET finds out
when it writes the document as text.
"""

from collections.abc import Iterator, Mapping
from struct import error as StructError  # noqa: N812 - the name of the class
from typing import Final

from tiercel.model.errors import DecodeError
from tiercel.nbfx import records
from tiercel.nbfx.dictionary import STATIC, DictionaryString, Strings
from tiercel.nbfx.events import (
    END,
    SEPARATE_END,
    XML,
    XMLNS,
    Array,
    Attribute,
    Attributes,
    Event,
    declare,
    is_bindable,
    restore,
)
from tiercel.nbfx.int31 import BadRecordError, read_int31
from tiercel.nbfx.limits import (
    ATTRIBUTES_MAX,
    DEPTH_MAX,
    ELEMENTS_MAX,
    LIST_MAX,
    NAME_MAX_BYTES,
    TEXT_MAX_CHARACTERS,
)
from tiercel.nbfx.names import is_name
from tiercel.nbfx.records import LETTERS, record_name
from tiercel.nbfx.text_records import ARRAY_TYPES, DECODERS
from tiercel.nbfx.values import QName, Value

_STRUCTURE: Final = "binary XML"
_NAMES_KEPT: Final = 4_096
_names: dict[bytes, str] = {}  # names that were found valid: envelopes use the same few again and again
_valid: set[str] = set()

# (prefix, whether the name is a DictionaryString); None is a prefix that is spelled out.
_ELEMENTS: Final[dict[int, tuple[str | None, bool]]] = {
    records.SHORT_ELEMENT: ("", False),
    records.ELEMENT: (None, False),
    records.SHORT_DICTIONARY_ELEMENT: ("", True),
    records.DICTIONARY_ELEMENT: (None, True),
    **{records.PREFIX_DICTIONARY_ELEMENT_A + index: (letter, True) for index, letter in enumerate(LETTERS)},
    **{records.PREFIX_ELEMENT_A + index: (letter, False) for index, letter in enumerate(LETTERS)},
}
_ELEMENT_OR_NONE: Final = [_ELEMENTS.get(record) for record in range(256)]
_ATTRIBUTES: Final[dict[int, tuple[str | None, bool]]] = {
    records.SHORT_ATTRIBUTE: ("", False),
    records.ATTRIBUTE: (None, False),
    records.SHORT_DICTIONARY_ATTRIBUTE: ("", True),
    records.DICTIONARY_ATTRIBUTE: (None, True),
    **{records.PREFIX_DICTIONARY_ATTRIBUTE_A + index: (letter, True) for index, letter in enumerate(LETTERS)},
    **{records.PREFIX_ATTRIBUTE_A + index: (letter, False) for index, letter in enumerate(LETTERS)},
}
_NOT_IN_LISTS: Final = {records.START_LIST, records.QNAME_DICTIONARY}
_DECLARATIONS: Final = {
    records.SHORT_XMLNS: (False, False),
    records.XMLNS_ATTRIBUTE: (True, False),
    records.SHORT_DICTIONARY_XMLNS: (False, True),
    records.DICTIONARY_XMLNS: (True, True),
}


def read_events(data: bytes, strings: Strings = STATIC, *, at: int = 0) -> Iterator[Event]:
    """The events of the one document from `at` to the end of the data; `strings` are those of the
    dictionaries.

    Every problem is a DecodeError that names record and offset.
    """
    size, start, depth, count = len(data), at, 0, 0
    scope: dict[str, str] = {"": "", "xml": XML}
    scopes: list[tuple[int, dict[str, str | None]]] = []  # what `declared_at` and the prefixes were before
    declared_at = -1  # the depth of the innermost element that declares prefixes
    is_text = has_root = False
    valid_here: set[str] = set()
    names, valid, elements, decoders = _names, _valid, _ELEMENT_OR_NONE, DECODERS
    try:
        while at < size:
            start = at
            record = data[at]
            at += 1
            element = elements[record]
            if element is not None:
                if depth == 0 and has_root:
                    raise BadRecordError("there is a second root element")
                prefix, by_id = element
                if prefix is None:
                    prefix, at = _read_prefix(data, at)
                length = data[at]
                if by_id:
                    at += 1
                    if length > 0x7F:
                        length, at = read_int31(data, at - 1)
                    name: str = strings[length]
                    if name not in valid:
                        _check_name(name, valid_here)
                elif length > 0x7F:
                    name, at = _read_name(data, at)
                else:
                    end = at + 1 + length
                    raw = data[at + 1 : end]
                    name = names.get(raw) or _new_name(raw)
                    at = end
                attributes: Attributes = ()
                depth += 1
                if 0x03 < data[at] <= 0x3F:
                    attributes, declared, at = _read_attributes(data, at, strings, scope, valid_here)
                    if declared:
                        scopes.append((declared_at, declare(scope, declared)))
                        declared_at = depth
                count += 1
                if depth > DEPTH_MAX or count > ELEMENTS_MAX:
                    raise BadRecordError(_too_many(depth))
                has_root, is_text = True, False
                yield ("start", prefix, name, scope[prefix], attributes)
            elif record >= 0x80:
                if depth == 0:
                    raise BadRecordError("text outside of the root element")
                if record & 0xFE == 0x98:  # Chars8Text, the most frequent one
                    end = at + 1 + data[at]
                    if end > size:
                        raise BadRecordError(f"{data[at]} bytes are announced, but {size - at - 1} are left")
                    yield ("text", data[at + 1 : end].decode())
                    at = end
                else:
                    decode = decoders.get(record & 0xFE)
                    if decode is None:
                        value, at = _read_rare(data, at, record, strings)
                    else:
                        value, at = decode(data, at)
                    yield ("text", value)
                if record & 1:
                    if depth == declared_at:
                        declared_at, before = scopes.pop()
                        restore(scope, before)
                    depth -= 1
                    is_text = False
                    yield END
                else:
                    is_text = True
            elif record == 0x01:
                if depth == 0:
                    raise BadRecordError("there is no open element to end")
                if depth == declared_at:
                    declared_at, before = scopes.pop()
                    restore(scope, before)
                depth -= 1
                yield SEPARATE_END if is_text else END
                is_text = False
            elif record == records.COMMENT:
                text, at = _read_string(data, at)
                yield ("comment", text)
                is_text = False
            elif record == records.ARRAY:
                if depth == 0:
                    raise BadRecordError("an array outside of the root element")
                event, at = _read_array(data, at, strings, scope, valid_here)
                count += len(event[6]) * (1 + len(event[4]))  # its attributes belong to each of its items
                if count > ELEMENTS_MAX:
                    raise BadRecordError(_too_many(depth))
                yield event
                is_text = False
            elif record in _ATTRIBUTES or record in _DECLARATIONS:
                raise BadRecordError("an attribute must follow the start of its element")
            else:
                raise BadRecordError("unknown record type")
    except (IndexError, StructError):
        raise _error(data, start, f"the data ends inside the record, after {size} bytes") from None
    except KeyError as missing:
        raise _error(data, start, _undefined(missing.args[0])) from None
    except UnicodeDecodeError as problem:
        raise _error(data, start, f"not valid UTF-8: {problem.reason}") from None
    except BadRecordError as problem:
        raise _error(data, start, str(problem)) from None
    if depth or not has_root:
        problem_ = f"{depth} elements are not closed" if depth else "there is no root element"
        raise DecodeError(_STRUCTURE, "end", size, problem_)


def _error(data: bytes, at: int, problem: str) -> DecodeError:
    return DecodeError(_STRUCTURE, record_name(data[at]), at, problem)


def _undefined(key: object) -> str:
    if isinstance(key, int):
        return f"the dictionary has no string {key}"
    return f"the prefix {key!r} is not declared"


def _too_many(depth: int) -> str:
    if depth > DEPTH_MAX:
        return f"elements are nested deeper than {DEPTH_MAX} levels"
    return f"the document has more than {ELEMENTS_MAX} elements"


def _read_length(data: bytes, at: int) -> tuple[int, int]:
    length = data[at]
    return (length, at + 1) if length < 0x80 else read_int31(data, at)


def _read_octets(data: bytes, at: int) -> tuple[bytes, int]:
    length, at = _read_length(data, at)
    end = at + length
    if end > len(data):
        raise BadRecordError(f"a string of {length} bytes is announced, but {len(data) - at} are left")
    return data[at:end], end


def _read_string(data: bytes, at: int) -> tuple[str, int]:
    """[MC-NBFX] 2.1.3."""
    raw, at = _read_octets(data, at)
    return raw.decode(), at


def _read_name(data: bytes, at: int) -> tuple[str, int]:
    """A record goes on behind a name, so that data which ends inside of a short one is noticed there."""
    length = data[at]
    if length < 0x80:
        end = at + 1 + length
        raw = data[at + 1 : end]
        return _names.get(raw) or _new_name(raw), end
    raw, at = _read_octets(data, at)
    if len(raw) > NAME_MAX_BYTES:
        raise BadRecordError(f"a name has {len(raw)} bytes, more than {NAME_MAX_BYTES}")
    return _names.get(raw) or _new_name(raw), at


def _read_prefix(data: bytes, at: int) -> tuple[str, int]:
    length = data[at]
    return ("", at + 1) if length == 0 else _read_name(data, at)


def _new_name(raw: bytes) -> str:
    name = raw.decode()
    if not is_name(name):
        raise BadRecordError(f"{name[:40]!a} is not a valid XML name")
    if len(_names) < _NAMES_KEPT and len(raw) < 0x80:
        _names[raw] = name
    return name


def _check_name(name: str, valid_here: set[str]) -> None:
    """`valid_here`: the names of this document, of which a dictionary may have very long ones."""
    if name in valid_here:
        return
    if not is_name(name):
        raise BadRecordError(f"{name[:40]!a} is not a valid XML name")
    if len(_valid) < _NAMES_KEPT and len(name) < 0x80:
        _valid.add(name)
    else:
        valid_here.add(name)


def _read_dictionary(data: bytes, at: int, strings: Strings) -> tuple[DictionaryString, int]:
    """[MC-NBFX] 2.1.4."""
    number = data[at]
    if number < 0x80:
        return strings[number], at + 1
    number, at = read_int31(data, at)
    return strings[number], at


def _read_attributes(
    data: bytes, at: int, strings: Strings, scope: Mapping[str, str], valid_here: set[str]
) -> tuple[Attributes, dict[str, str], int]:
    """The attributes of an element, and the prefixes that they declare: [MC-NBFX] 2.2.2."""
    found: list[Attribute] = []
    declared: dict[str, str] = {}
    has_prefix = False
    while 0x03 < (record := data[at]) <= 0x3F:
        at += 1
        known = _ATTRIBUTES.get(record)
        if known is not None:
            prefix, by_id = known
            if prefix is None:
                prefix, at = _read_prefix(data, at)
            if by_id:
                name, at = _read_dictionary(data, at, strings)
                if name not in _valid:
                    _check_name(name, valid_here)
            else:
                name, at = _read_name(data, at)  # type: ignore[assignment]
            if name == "xmlns" and not prefix:
                raise BadRecordError("xmlns must be declared by a record of its own")
            value, at = _read_value(data, at, strings)
            has_prefix = has_prefix or prefix != ""
            found.append((prefix, name, "", value))
        else:
            attribute, at = _read_declaration(data, at, record, strings)
            prefix = "" if attribute[0] == "" else attribute[1]
            if prefix in declared:
                raise BadRecordError(f"the prefix {prefix!r} is declared twice")
            declared[prefix] = attribute[3]
            found.append(attribute)
        if len(found) > ATTRIBUTES_MAX:
            raise BadRecordError(f"an element has more than {ATTRIBUTES_MAX} attributes")
    if has_prefix:
        found = [_with_namespace(attribute, declared, scope) for attribute in found]
    if len(found) > 1 and len({(attribute[2], attribute[1]) for attribute in found}) < len(found):
        raise BadRecordError("an attribute comes twice")
    return tuple(found), declared, at


def _with_namespace(attribute: Attribute, declared: Mapping[str, str], scope: Mapping[str, str]) -> Attribute:
    prefix, name, namespace, value = attribute
    if namespace == XMLNS or not prefix:
        return attribute
    uri = declared.get(prefix)
    return (prefix, name, scope[prefix] if uri is None else uri, value)


def _read_declaration(
    data: bytes, at: int, record: int, strings: Strings
) -> tuple[tuple[str, str, str, str], int]:
    """[MC-NBFX] 2.2.2.5 to 2.2.2.8."""
    has_prefix, by_id = _DECLARATIONS[record]
    prefix, namespace = "", ""
    if has_prefix:
        prefix, at = _read_prefix(data, at)
    if by_id:
        namespace, at = _read_dictionary(data, at, strings)
    else:
        namespace, at = _read_string(data, at)
        if len(namespace) > NAME_MAX_BYTES:
            raise BadRecordError(f"a namespace has more than {NAME_MAX_BYTES} characters")
    if not is_bindable(prefix, namespace):
        raise BadRecordError(f"the prefix {prefix!r} cannot be bound to {namespace[:60]!a}")
    if not prefix:
        return ("", "xmlns", XMLNS, namespace), at
    if not namespace:
        raise BadRecordError(f"the prefix {prefix!r} is bound to the empty namespace")
    return ("xmlns", prefix, XMLNS, namespace), at


def _read_value(data: bytes, at: int, strings: Strings) -> tuple[Value, int]:
    """The value of an attribute: a text record without an end."""
    record = data[at]
    if record < 0x80 or record & 1:
        raise BadRecordError(f"an attribute needs a text record, not {record_name(record)}")
    decode = DECODERS.get(record)
    return _read_rare(data, at + 1, record, strings) if decode is None else decode(data, at + 1)


def _read_rare(data: bytes, at: int, record: int, strings: Strings) -> tuple[Value, int]:
    """Text records that need the dictionary or contain others."""
    if record & 0xFE == records.DICTIONARY:
        return _read_dictionary(data, at, strings)
    if record & 0xFE == records.QNAME_DICTIONARY:
        letter = data[at]
        if letter >= len(LETTERS):
            raise BadRecordError(f"the prefix of a QName must be 0 to 25, not {letter}")
        name, at = _read_dictionary(data, at + 1, strings)
        return QName(LETTERS[letter], name), at
    if record == records.START_LIST:
        return _read_list(data, at, strings)
    raise BadRecordError("unknown record type")


def _read_list(data: bytes, at: int, strings: Strings) -> tuple[Value, int]:
    """[MC-NBFX] 2.2.3.19."""
    values: list[Value] = []
    characters = 0
    while (record := data[at]) != records.END_LIST:
        if record < 0x80 or record & 1 or record in _NOT_IN_LISTS:
            raise BadRecordError(f"a list contains {record_name(record)}")
        value, at = _read_value(data, at, strings)
        values.append(value)
        characters += len(value) if isinstance(value, str) else 0
        # Two bytes may stand for a long string.
        if len(values) > LIST_MAX or characters > TEXT_MAX_CHARACTERS:
            limit = f"{LIST_MAX} values of together {TEXT_MAX_CHARACTERS} characters"
            raise BadRecordError(f"a list has more than {limit}")
    return tuple(values), at + 1


def _read_array(
    data: bytes, at: int, strings: Strings, scope: Mapping[str, str], valid_here: set[str]
) -> tuple[Array, int]:
    """[MC-NBFX] 2.3.3: an element, its attributes, the type of the values, their number and the values."""
    record = data[at]
    if record not in _ELEMENTS:
        raise BadRecordError(f"an array needs an element, not {record_name(record)}")
    prefix, by_id = _ELEMENTS[record]
    at += 1
    if prefix is None:
        prefix, at = _read_prefix(data, at)
    name: str
    if by_id:
        name, at = _read_dictionary(data, at, strings)
        _check_name(name, valid_here)
    else:
        name, at = _read_name(data, at)
    attributes, declared, at = _read_attributes(data, at, strings, scope, valid_here)
    if data[at] != records.END_ELEMENT:
        raise BadRecordError(f"the element of an array must be empty, not contain {record_name(data[at])}")
    kind = data[at + 1]
    if kind not in ARRAY_TYPES:
        raise BadRecordError(f"an array cannot contain {record_name(kind)}")
    values, at = _read_items(data, at + 2, kind)
    namespace = declared[prefix] if prefix in declared else scope[prefix]
    return ("array", prefix, name, namespace, attributes, kind, values), at


def _read_items(data: bytes, at: int, kind: int) -> tuple[tuple[Value, ...], int]:
    count, at = _read_length(data, at)
    if count == 0:
        raise BadRecordError("an array has no items")
    if count > len(data) - at:  # an item has at least one byte
        raise BadRecordError(f"{count} items are announced, but {len(data) - at} bytes are left")
    decode, values = DECODERS[kind & 0xFE], []
    for _ in range(count):
        value, at = decode(data, at)
        values.append(value)
    return tuple(values), at
