"""Messages as JSON and back: every property, whatever it holds."""

import json
from contextlib import suppress
from dataclasses import fields
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiercel.admin.message_json import READ_ONLY, dumps, from_json, schema, to_json
from tiercel.model.codes import BodyType, EncryptionAlgorithm, HashAlgorithm, MessageClass
from tiercel.model.errors import MqError, PropertyNotAllowedError
from tiercel.model.format_name import FormatName, UnreadableFormatName
from tiercel.model.identifiers import MessageId, TxSequenceId
from tiercel.model.limits import INFINITE, TRANSACTION_ID_MAX
from tiercel.model.message import Message
from tiercel.model.path_name import PathName

_U32 = 0xFFFF_FFFF
_QUEUES: list[FormatName] = [
    FormatName.parse(text)
    for text in (
        r"DIRECT=OS:host\private$\orders",
        r"DIRECT=TCP:192.0.2.1\orders",
        "DIRECT=HTTP://host/msmq/private$/orders",
        "PUBLIC=00112233-4455-6677-8899-aabbccddeeff",
        r"PRIVATE=00112233-4455-6677-8899-aabbccddeeff\7",
    )
] + [UnreadableFormatName("nonsense:\u00e4")]

_u32 = st.integers(0, _U32)
_seconds = st.one_of(_u32, st.just(INFINITE))
_queue = st.sampled_from(_QUEUES)
_optional_queue = st.one_of(st.none(), _queue)
_queues = st.lists(_queue, max_size=3).map(tuple)
_data = st.binary(max_size=40)
# Labels of strangers may have half a surrogate pair.
_text = st.text(st.characters(codec=None), max_size=40)

_STRATEGIES: dict[str, st.SearchStrategy[Any]] = {
    "body": _data,
    "label": _text,
    "priority": st.integers(0, 7),
    "delivery": st.integers(0, 1),
    "body_type": st.one_of(st.sampled_from(BodyType).map(int), _u32),
    "extension": _data,
    "application_tag": _u32,
    "correlation_id": st.binary(min_size=20, max_size=20),
    "message_class": st.one_of(st.sampled_from(MessageClass).map(int), st.integers(0, 0xFFFF)),
    "time_to_reach_queue": _seconds,
    "time_to_be_received": _seconds,
    "acknowledgements": st.integers(0, 15),
    "dead_letter_queue": st.one_of(st.none(), st.just(PathName.parse(r".\private$\dead"))),
    "destination_queue": _optional_queue,
    "administration_queue": _optional_queue,
    "response_queue": _optional_queue,
    "transaction_status_queue": _optional_queue,
    "destination_queues": _queues,
    "administration_queues": _queues,
    "response_queues": _queues,
    "id": st.builds(MessageId, st.uuids(), _u32),
    "lookup_id": st.integers(0, 2**64 - 1),
    "transaction_id": st.one_of(st.none(), st.integers(0, TRANSACTION_ID_MAX)),
    "tx_sequence_id": st.builds(TxSequenceId, _u32, _u32),
    "sender_id_type": st.integers(0, 2),
    "authentication_level": st.integers(0, 15),
    "hash_algorithm": st.one_of(st.sampled_from(HashAlgorithm).map(int), _u32),
    "encryption_algorithm": st.one_of(st.sampled_from(EncryptionAlgorithm).map(int), _u32),
    "sender_certificate": _data,
}


def _strategy(name: str, default: object) -> st.SearchStrategy[Any]:
    if name in _STRATEGIES:
        return _STRATEGIES[name]
    match default:
        case bool():
            return st.booleans()
        case int():
            return _u32
        case bytes():
            return _data
        case str():
            return _text
        case UUID():
            return st.uuids()
    raise AssertionError(name)


_properties = st.fixed_dictionaries(
    {}, optional={item.name: _strategy(item.name, item.default) for item in fields(Message)}
)


@given(_properties)
def test_there_and_back(properties: dict[str, Any]) -> None:
    message = Message(**properties)
    text = dumps(to_json(message) | {"decoded": {"kind": "text", "text": "ignored"}})
    assert from_json(json.loads(text), whole=True) == message


@given(_properties)
def test_what_is_sent_again_keeps_all_that_a_sender_may_set(properties: dict[str, Any]) -> None:
    message = Message(**properties)
    again = from_json(json.loads(dumps(to_json(message))))
    fresh = Message()
    for item in fields(Message):
        wanted = fresh if item.name in READ_ONLY else message
        assert getattr(again, item.name) == getattr(wanted, item.name), item.name


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from([*_STRATEGIES, "text", "json", "tracing", "signature", "x"]), _json))
def test_nonsense_is_refused_in_words(given: dict[str, Any]) -> None:
    with suppress(MqError):  # and nothing else
        from_json(given, whole=True)


def test_defaults_are_left_out() -> None:
    assert to_json(Message()) == {"body_size": 0}


def test_the_nearest_property_is_named() -> None:
    with pytest.raises(PropertyNotAllowedError, match="Perhaps priority is meant"):
        from_json({"prority": 1})


def test_the_schema_has_every_property() -> None:
    found = schema()["properties"]
    assert {item.name for item in fields(Message)} <= found.keys()
    assert {name for name, each in found.items() if each.get("readOnly")} >= READ_ONLY
