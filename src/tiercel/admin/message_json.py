"""Messages as JSON: `to_json` and `from_json`, exact for every property.

Properties at their default are omitted. Enumerations are lower-case names, times ISO 8601, bytes base64, ids
and format names strings. 64-bit numbers are strings too: many JSON parsers would round them.
"""

import base64
import binascii
import difflib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from enum import IntEnum, IntFlag
from typing import Any, Final, NamedTuple
from uuid import UUID

from tiercel import bodies
from tiercel.model.codes import (
    Acknowledgements,
    AuthenticationLevel,
    BodyType,
    DeliveryGuarantee,
    EncryptionAlgorithm,
    HashAlgorithm,
    MessageClass,
    PrivacyLevel,
    SenderIdType,
)
from tiercel.model.errors import (
    IllegalPropertyValueError,
    InvalidParameterError,
    MqError,
    PropertyNotAllowedError,
)
from tiercel.model.format_name import FormatName, UnreadableFormatName
from tiercel.model.identifiers import MessageId, TxSequenceId
from tiercel.model.limits import INFINITE, PRIORITY_MAX
from tiercel.model.message import SET_BY_QUEUE_MANAGERS, Message
from tiercel.model.path_name import PathName, shown
from tiercel.model.queue_name import parse_given_queue_name
from tiercel.wire.structure import encode_guid

Json = dict[str, Any]

_SHOWN: Final = 60
_U16, _U32, _U64 = 0xFFFF, 0xFFFF_FFFF, 0xFFFF_FFFF_FFFF_FFFF
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
_NO_QUEUE: Final = "a queue name, as orders, host\\private$\\orders or DIRECT=OS:host\\private$\\orders"


class _Kind(NamedTuple):
    """How a property is written and read; `read` raises a `ValueError` that names the expected form."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]
    schema: Json


def _same(value: Any) -> Any:
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("a string")  # noqa: TRY004  # one error type for every invalid value
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false")  # noqa: TRY004
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(limit: int) -> _Kind:
    def read(value: Any) -> int:
        if not _is_number(value) or not 0 <= value <= limit:
            raise ValueError(f"a whole number from 0 to {limit}")
        return int(value)

    return _Kind(_same, read, {"type": "integer", "minimum": 0, "maximum": limit})


def _seconds() -> _Kind:
    def write(value: int) -> Any:
        return "infinite" if value == INFINITE else value

    def read(value: Any) -> int:
        if value == "infinite":
            return INFINITE
        if not _is_number(value) or not 0 <= value <= _U32:
            raise ValueError('seconds, or "infinite"')
        return int(value)

    number = {"type": "integer", "minimum": 0, "maximum": _U32}
    return _Kind(write, read, {"anyOf": [number, {"const": "infinite"}], "description": "seconds"})


def _large(limit: int) -> _Kind:
    def read(value: Any) -> int:
        if not isinstance(value, str) or not (value.isascii() and value.isdigit()) or int(value) > limit:
            raise ValueError(f"digits in quotes, up to {limit}")
        return int(value)

    return _Kind(str, read, {"type": "string", "pattern": "^[0-9]{1,20}$"})


def _enumeration(kind: type[IntEnum], limit: int | None = None) -> _Kind:
    """The member names; with a limit, also numbers without a name."""
    names = {member.value: member.name.lower() for member in kind}
    values = {name.lower(): member.value for name, member in kind.__members__.items()}

    def write(value: int) -> Any:
        return names.get(value, int(value))

    def read(value: Any) -> int:
        found = values.get(value.lower()) if isinstance(value, str) else None
        if found is None and limit is not None and _is_number(value) and 0 <= value <= limit:
            found = value
        if found is None:
            raise ValueError(f"one of {', '.join(values)}{'' if limit is None else ', or a number'}")
        return int(found)

    schema: Json = {"type": "string", "enum": sorted(values)}
    if limit is not None:
        schema = {"anyOf": [schema, {"type": "integer", "minimum": 0, "maximum": limit}]}
    return _Kind(write, read, schema)


def _flags(kind: type[IntFlag]) -> _Kind:
    single = {member.name.lower(): member.value for member in kind if member.name}
    values = {name.lower(): int(member) for name, member in kind.__members__.items()}

    def write(value: int) -> list[str]:
        return [name for name, bit in single.items() if value & bit]

    def read(value: Any) -> int:
        names = [value] if isinstance(value, str) else value
        if not isinstance(names, list) or not all(isinstance(name, str) and name in values for name in names):
            raise ValueError(f"a list of {', '.join(values)}")
        found = 0
        for name in names:
            found |= values[name]
        return found

    return _Kind(write, read, {"type": "array", "items": {"type": "string", "enum": sorted(values)}})


def _write_time(value: int) -> str:
    return datetime.fromtimestamp(value, UTC).strftime(_TIME)


def time_text(value: int | None) -> str | None:
    """Seconds since 1970 as ISO 8601; None for never."""
    return _write_time(value) if value else None


def _read_time(value: Any) -> int:
    try:
        time = datetime.fromisoformat(_text(value))
        seconds = int(time.timestamp()) if time.tzinfo is not None else -1
    except (ValueError, OverflowError, OSError):
        seconds = -1
    if not 0 <= seconds <= _U32:
        raise ValueError("a time as 2026-01-31T12:00:00Z")
    return seconds


def _write_bytes(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _read_bytes(value: Any) -> bytes:
    try:
        return base64.b64decode(_text(value), validate=True)
    except (binascii.Error, ValueError) as problem:
        raise ValueError("bytes in base64") from problem


def _write_correlation(value: bytes) -> str:
    return str(MessageId(UUID(bytes_le=value[:16]), int.from_bytes(value[16:], "little")))


def _read_message_id(value: Any) -> MessageId:
    try:
        return MessageId.parse(_text(value))
    except ValueError as problem:
        raise ValueError("an id as {guid}\\number") from problem


def _read_correlation(value: Any) -> bytes:
    lineage, number = _read_message_id(value)
    return encode_guid(lineage) + number.to_bytes(4, "little")


def _read_guid(value: Any) -> UUID:
    try:
        return UUID(_text(value))
    except ValueError as problem:
        raise ValueError("a GUID") from problem


def _write_queue(value: FormatName) -> Any:
    # A name that breaks the grammar must round-trip unchanged.
    return {"unreadable": value.wire_name} if isinstance(value, UnreadableFormatName) else str(value)


def _read_queue(value: Any) -> FormatName:
    if isinstance(value, dict) and value.keys() == {"unreadable"}:
        return UnreadableFormatName(_text(value["unreadable"]))
    try:
        return parse_given_queue_name(_text(value))
    except (MqError, ValueError) as problem:
        raise ValueError(_NO_QUEUE) from problem


def _read_queues(value: Any) -> tuple[FormatName, ...]:
    if not isinstance(value, list):
        raise ValueError(f"a list, each {_NO_QUEUE}")  # noqa: TRY004
    return tuple(_read_queue(each) for each in value)


def _read_path(value: Any) -> PathName:
    try:
        return PathName.parse(_text(value))
    except (MqError, ValueError) as problem:
        raise ValueError("a path name, as .\\private$\\orders") from problem


def _read_sequence(value: Any) -> TxSequenceId:
    numbers = _text(value).split(".")
    if len(numbers) != 2 or not all(each.isascii() and each.isdigit() for each in numbers):
        raise ValueError("timestamp.ordinal")
    return TxSequenceId(*map(int, numbers))


_GUID_PATTERN: Final = "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_ID_SCHEMA: Final = {"type": "string", "pattern": rf"^\{{{_GUID_PATTERN}\}}\\[0-9]{{1,10}}$"}
_QUEUE_SCHEMA: Final = {"anyOf": [{"type": "string"}, {"type": "object"}], "description": _NO_QUEUE}

_BOOLEAN: Final = _Kind(_same, _flag, {"type": "boolean"})
_STRING: Final = _Kind(_same, _text, {"type": "string"})
_BYTES: Final = _Kind(_write_bytes, _read_bytes, {"type": "string", "contentEncoding": "base64"})
_WHEN: Final = _Kind(_write_time, _read_time, {"type": "string", "format": "date-time"})
_GUID: Final = _Kind(str, _read_guid, {"type": "string", "pattern": f"^{_GUID_PATTERN}$"})
_QUEUE: Final = _Kind(_write_queue, _read_queue, _QUEUE_SCHEMA)
_QUEUES: Final = _Kind(
    lambda value: [_write_queue(each) for each in value],
    _read_queues,
    {"type": "array", "items": _QUEUE_SCHEMA},
)

_KINDS: Final[dict[str, _Kind]] = {
    "body": _BYTES,
    "label": _STRING,
    "priority": _number(PRIORITY_MAX),
    "delivery": _enumeration(DeliveryGuarantee),
    "body_type": _enumeration(BodyType, _U32),
    "extension": _BYTES,
    "application_tag": _number(_U32),
    "correlation_id": _Kind(_write_correlation, _read_correlation, _ID_SCHEMA),
    "message_class": _enumeration(MessageClass, _U16),
    "time_to_reach_queue": _seconds(),
    "time_to_be_received": _seconds(),
    "acknowledgements": _flags(Acknowledgements),
    "positive_journaling": _BOOLEAN,
    "negative_journaling": _BOOLEAN,
    "tracing": _BOOLEAN,
    "tracing_queue": _GUID,
    "dead_letter_queue": _Kind(str, _read_path, {"type": "string"}),
    "destination_queue": _QUEUE,
    "administration_queue": _QUEUE,
    "response_queue": _QUEUE,
    "destination_queues": _QUEUES,
    "administration_queues": _QUEUES,
    "response_queues": _QUEUES,
    "destination_queue_manager": _GUID,
    "transaction_status_queue": _QUEUE,
    "id": _Kind(str, _read_message_id, _ID_SCHEMA),
    "lookup_id": _large(_U64),
    "sent_time": _WHEN,
    "arrival_time": _WHEN,
    "abort_count": _number(_U32),
    "move_count": _number(_U32),
    "last_move_time": _WHEN,
    "allow_peek_when_locked": _BOOLEAN,
    "transaction_id": _number(_U32),
    "tx_sequence_id": _Kind(lambda value: f"{value[0]}.{value[1]}", _read_sequence, {"type": "string"}),
    "tx_sequence_number": _number(_U32),
    "previous_tx_sequence_number": _number(_U32),
    "first_in_transaction": _BOOLEAN,
    "last_in_transaction": _BOOLEAN,
    "final_ack_required": _BOOLEAN,
    "sender_id": _BYTES,
    "sender_id_type": _enumeration(SenderIdType),
    "sender_certificate": _BYTES,
    "authentication_level": _enumeration(AuthenticationLevel, 0xF),
    "verified_sender": _BYTES,
    "verified_name": _STRING,
    "privacy_level": _enumeration(PrivacyLevel, _U32),
    "hash_algorithm": _enumeration(HashAlgorithm, _U32),
    "encryption_algorithm": _enumeration(EncryptionAlgorithm, _U32),
    "symmetric_key": _BYTES,
    "signature": _BYTES,
    "multiple_destination_signature": _BYTES,
    "authentication_provider_type": _number(_U32),
    "authentication_provider_name": _STRING,
    "connector_type": _GUID,
    "connector_queue_manager": _GUID,
    "soap_envelope": _STRING,
    "soap_compound_message": _BYTES,
    "soap_header": _STRING,
    "soap_body": _STRING,
}
_DEFAULTS: Final = {item.name: item.default for item in fields(Message)}
assert _KINDS.keys() == _DEFAULTS.keys(), "every property of a message has its form"

# Shown, and ignored when the message is sent again.
READ_ONLY: Final = SET_BY_QUEUE_MANAGERS
# Extra fields of responses.
_BESIDE: Final = frozenset({"body_size", "decoded", "locked", "locked_by", "lease", "queue", "reason"})
_WAYS_TO_SAY_A_BODY: Final = ("body", "text", "json")
_SETTABLE: Final = [*(name for name in _KINDS if name not in READ_ONLY), "text", "json"]
_TEXT_FORMS: Final[dict[int, bodies.encoding.Form]] = {
    BodyType.EMPTY: "utf-8",
    BodyType.LPWSTR: "lpwstr",
    BodyType.BSTR: "bstr",
    BodyType.LPSTR: "lpstr",
}


def to_json(message: Message, *, body: bool = True) -> Json:
    """Every property that differs from its default."""
    written = {}
    for name, kind in _KINDS.items():
        value = getattr(message, name)
        if value != _DEFAULTS[name] and (body or name != "body"):
            written[name] = kind.write(value)
    written["body_size"] = len(message.body)
    return written


def fields_to_json(read: Callable[[str], Any], names: Iterable[str]) -> Json:
    """Only some properties; `read` returns one by its name."""
    values = {name: read(name) for name in names}
    return {name: _KINDS[name].write(value) for name, value in values.items() if value != _DEFAULTS[name]}


def check_names(names: Iterable[str]) -> None:
    """Raises unless each is the name of a property."""
    for name in names:
        if name not in _KINDS:
            near = difflib.get_close_matches(name, _KINDS, 1)
            fix = f"perhaps {near[0]} is meant" if near else f"there are {', '.join(_KINDS)}"
            problem = f"there is no property {shown(name[:_SHOWN])}"
            raise InvalidParameterError("fields", problem=problem, fix=fix)


def from_json(given: object, *, whole: bool = False) -> Message:
    """The message to send; properties set by queue managers are ignored unless `whole`.

    Raises an `MqError` that names the property.
    """
    if not isinstance(given, Mapping):
        raise IllegalPropertyValueError("message", problem="it must be a JSON object", fix="write {...}")
    values: Json = {}
    for name, value in given.items():
        if name in _BESIDE or (name in READ_ONLY and not whole):
            continue
        kind = _KINDS.get(name)
        if kind is not None:
            values[name] = _read(name, kind, value)
        elif name not in _WAYS_TO_SAY_A_BODY:
            raise _unknown(name)
    _say_body(given, values)
    message = Message(**values)
    message.check()
    return message


def _read(name: str, kind: _Kind, value: Any) -> Any:
    try:
        return kind.read(value)
    except ValueError as wanted:
        present = shown(repr(value)[:_SHOWN])
        raise IllegalPropertyValueError(
            f"message {name}", present=present, limit=str(wanted), fix=f"give {wanted}"
        ) from wanted


def _unknown(name: str) -> PropertyNotAllowedError:
    near = difflib.get_close_matches(name, _SETTABLE, 1)
    fix = f"perhaps {near[0]} is meant" if near else f"there are {', '.join(_SETTABLE)}"
    return PropertyNotAllowedError(
        f"message property {shown(name[:_SHOWN])}", problem="there is no such property", fix=fix
    )


def _say_body(given: Mapping[str, Any], values: Json) -> None:
    """Sets the body from `text` or `json`."""
    ways = [name for name in _WAYS_TO_SAY_A_BODY if name in given]
    if len(ways) > 1:
        fix = "give body, text or json"
        raise IllegalPropertyValueError("message body", problem=f"it is given by {ways}", fix=fix)
    if ways == ["text"]:
        values["body"] = _body_of_text(given["text"], values.get("body_type", 0))
    elif ways == ["json"]:
        try:
            values["body"] = json.dumps(given["json"], ensure_ascii=False, allow_nan=False).encode()
        except ValueError as problem:
            raise IllegalPropertyValueError("message json", problem=str(problem)) from problem


def _body_of_text(text: Any, body_type: int) -> bytes:
    form = _TEXT_FORMS.get(body_type)
    if form is None:
        fix = "give body_type lpwstr, bstr or lpstr, none for UTF-8, or give body"
        raise IllegalPropertyValueError("message text", present=f"body_type {body_type}", fix=fix)
    return bodies.encode(_read("text", _STRING, text), form).body


_compact: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode  # made once: it is slow


def dumps(value: object) -> bytes:
    """JSON as UTF-8; a lone surrogate, which a label may contain, is escaped."""
    text = _compact(value)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def schema() -> Json:
    """The JSON schema of a message, for OpenAPI."""
    properties: Json = {}
    for name, kind in _KINDS.items():
        properties[name] = {**kind.schema, "readOnly": True} if name in READ_ONLY else kind.schema
    properties |= {
        "text": {"type": "string", "writeOnly": True, "description": "the body as text; see body_type"},
        "json": {"writeOnly": True, "description": "the body as a JSON value"},
        "body_size": {"type": "integer", "readOnly": True},
        "locked": {"type": "boolean", "readOnly": True, "description": "held by another reader"},
        "reason": {"type": "string", "readOnly": True, "description": "why it is a dead letter"},
        "lease": {"type": "string", "readOnly": True},
        "queue": {"type": "string", "readOnly": True},
        "decoded": {
            "type": "object",
            "readOnly": True,
            "properties": {"kind": {}, "text": {}, "headers": {}, "error": {}},
        },
    }
    return {"type": "object", "title": "Message", "properties": properties, "additionalProperties": False}
