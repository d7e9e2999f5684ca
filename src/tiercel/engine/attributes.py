"""Attributes of queues and of the queue manager as JSON: those that outlive a restart, by their names."""

import json
from collections.abc import Callable
from dataclasses import fields
from enum import Enum
from typing import Any
from uuid import UUID

from tiercel.model.codes import (
    DirectoryServerType,
    Durability,
    OperatingSystemType,
    QueuePrivacyLevel,
    QueueScope,
    QueueType,
)
from tiercel.model.format_name import FormatName
from tiercel.model.path_name import PathName
from tiercel.model.queue import DirectoryObject, durability

_KEPT = (Durability.PERSISTENT, Durability.DIRECTORY)
# Kept elsewhere in the store (streams, counters), or not made by anything yet (keys).
_ELSEWHERE = {
    "incoming_transactional_transfer_infos",
    "transfer_info",
    "sequential_id",
    "public_encryption_key_list",
    "public_signing_key_list",
}


def _guids(texts: list[str]) -> list[UUID]:
    return [UUID(text) for text in texts]


# How the attributes are read that JSON has no type for.
_READERS: dict[str, Callable[[Any], Any]] = {
    "identifier": UUID,
    "type": UUID,
    "last_domain": UUID,
    "pathname": PathName.parse,
    "qualified_pathname": PathName.parse,
    "destination_format_name": FormatName.parse,
    "security": bytes.fromhex,
    "privacy_level": QueuePrivacyLevel,
    "scope": QueueScope,
    "queue_type": QueueType,
    "operating_system_type": OperatingSystemType,
    "directory_server_type": DirectoryServerType,
    "site_identifier_list": _guids,
    "connected_network_identifier_list": _guids,
    "out_routing_server_identifier_list": _guids,
    "in_routing_server_identifier_list": _guids,
}


def encode_attributes(entity: DirectoryObject, **extra: object) -> bytes:
    values = dict(extra)
    for each in fields(entity):
        if each.name not in _ELSEWHERE and durability(type(entity), each.name) in _KEPT:
            values[each.name] = _plain(getattr(entity, each.name))
    return json.dumps(values).encode()


def decode_attributes(data: bytes) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(data)
    for name, read in _READERS.items():
        if values.get(name) is not None:
            values[name] = read(values[name])
    return values


def _plain(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, UUID | PathName | FormatName):
        return str(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value
