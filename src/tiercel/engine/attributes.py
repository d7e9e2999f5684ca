"""Attributes of queues and of the queue manager: which may be changed, and how those that last are stored."""

import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from enum import Enum
from types import NoneType
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
from tiercel.model.errors import (
    DecodeError,
    IllegalPropertyVariantTypeError,
    IllegalSecurityDescriptorError,
    MqError,
    PropertyNotAllowedError,
)
from tiercel.model.format_name import FormatName
from tiercel.model.path_name import PathName
from tiercel.model.queue import DirectoryObject, Queue, durability
from tiercel.model.queue_manager import ConnectedNetwork, QueueManager
from tiercel.security.descriptor import SecurityDescriptor

# The attributes that an administrator may change, with their types.
Settable = Mapping[str, tuple[type, ...]]
SETTABLE: Settable = {
    "label": (str,),
    "type": (UUID,),
    "journaling": (bool,),
    "quota_kib": (int,),
    "journal_quota_kib": (int,),
    "authentication": (bool,),
    "privacy_level": (QueuePrivacyLevel,),
    "multicast_address": (str, NoneType),
    "security": (bytes,),
    "base_priority": (int,),
}
SETTABLE_OF_MANAGER: Settable = {
    "queue_manager_quota_kib": (int,),
    "journal_quota_kib": (int,),
    "hardened_security": (bool,),
    "send_insecure_nacks": (bool,),
    "srmp_http_support": (bool,),
    "srmp_pgm_support": (bool,),
    "routing_server": (bool,),
    "out_routing_server_identifier_list": (list,),
    "in_routing_server_identifier_list": (list,),
}

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


def decode_queue_manager(data: bytes) -> QueueManager:
    """The stored queue manager; of its networks only the identifiers are stored."""
    values = decode_attributes(data)
    networks = values.get("connected_network_identifier_list", ())
    values["connected_network_collection"] = [ConnectedNetwork(identifier=each, name="") for each in networks]
    return QueueManager(**values)


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


def check_attributes(subject: object, attributes: Mapping[str, object], settable: Settable) -> None:
    """Raises the error of the first attribute that cannot be set, or not to this value."""
    for name, value in attributes.items():
        kinds = settable.get(name)
        if kinds is None:
            names = ", ".join(sorted(settable))
            raise PropertyNotAllowedError(f"property {name} of {subject}", fix=f"set one of {names}")
        if type(value) not in kinds:
            expected = " or ".join(kind.__name__ for kind in kinds)
            raise IllegalPropertyVariantTypeError(
                f"property {name} of {subject}",
                present=type(value).__name__,
                limit=expected,
                fix=f"pass {expected}",
            )
        if name == "security" and isinstance(value, bytes):
            _check_descriptor(subject, value)


def change(entity: Queue | QueueManager, attributes: Mapping[str, object], now: int) -> None:
    """Sets all the attributes, or none when the entity would not be valid with them."""
    before = {name: getattr(entity, name) for name in attributes}
    _set(entity, attributes)
    try:
        entity.validate()
    except MqError:
        _set(entity, before)
        raise
    entity.modify_time = now


def _set(entity: object, attributes: Mapping[str, object]) -> None:
    for name, value in attributes.items():
        setattr(entity, name, value)


def _check_descriptor(subject: object, security: bytes) -> None:
    try:
        SecurityDescriptor.decode(security)
    except DecodeError as problem:
        raise IllegalSecurityDescriptorError(f"security of {subject}", problem=str(problem)) from problem
