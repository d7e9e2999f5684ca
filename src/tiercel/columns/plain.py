"""The columns of plain packets, each made for all rows at once."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from numpy.lib.recfunctions import repack_fields

from tiercel.columns.joined import Mask, fixed_binary, mapped, texts
from tiercel.columns.messages import guid_text, queue_text, signed32, text
from tiercel.columns.schema import BY_NAME
from tiercel.columns.walk import SECURITY, SECURITY_ITEMS, Walk, aligned
from tiercel.model.codes import Journal
from tiercel.wire import base_header, security_header, transaction_header, user_header
from tiercel.wire.message import decode_message
from tiercel.wire.message_properties_header import ACKNOWLEDGEMENTS
from tiercel.wire.security_header import decode_provider_info
from tiercel.wire.structure import decode_guid, decode_text
from tiercel.wire.user_message import UserMessage

_MICROSECONDS = 1_000_000


class PlainPackets:
    """Packets as `walk` found them; whatever several columns need is read once."""

    def __init__(self, walk: Walk) -> None:
        self.walk = walk
        self.count = len(walk.record)

    def column(self, name: str) -> pa.Array:
        return _COLUMNS[name](self, name)

    def nulls(self, name: str) -> pa.Array:
        return pa.nulls(self.count, BY_NAME[name].type)

    def number(self, name: str, values: npt.NDArray[Any], mask: Mask | None = None) -> pa.Array:
        """A column of numbers: in the same bits where it has no unsigned ones."""
        kind = BY_NAME[name].type
        return pa.array(values.astype(kind.to_pandas_dtype()), kind, mask=mask)

    def time(self, name: str, seconds: npt.NDArray[Any]) -> pa.Array:
        """Points in time; 0 means never."""
        kind = BY_NAME[name].type
        return pa.array(seconds.astype(np.int64) * _MICROSECONDS, mask=seconds == 0).cast(kind)

    def slices(self, at: npt.NDArray[Any], size: npt.NDArray[Any]) -> pa.Array:
        return self.walk.joined.slices(at, size, empty_is_null=True)

    @cached_property
    def source(self) -> pa.Array:
        return fixed_binary(self.walk.fixed["source"])

    def identifiers(self, numbers: npt.NDArray[Any], mask: Mask | None = None) -> pa.Array:
        r"""`{source queue manager}\number`, as OBJECTIDs are written."""
        lineage = mapped(self.source, lambda guid: f"{{{decode_guid(guid)}}}\\", pa.string())
        return pc.binary_join_element_wise(lineage, pa.array(numbers, mask=mask).cast(pa.string()), "")

    @cached_property
    def queue_names(self) -> dict[str, pa.Array]:
        """The names of the queues: of all packets that say the same, one is asked in the plain way."""
        walk = self.walk
        managers = fixed_binary(repack_fields(walk.fixed[["source", "address"]]))  # that a number may mean
        at = walk.packet + walk.fixed.itemsize
        names = walk.joined.slices(at, walk.names_end - at)
        kinds = walk.flags >> user_header.DESTINATION_SHIFT & 0x1FF
        codes = (_codes(managers) * self.count + _codes(names)) * 0x200 + kinds
        same = _codes(pa.array(codes))
        firsts = np.empty(same.max(initial=-1) + 1, np.int64)
        firsts[same[::-1]] = np.arange(self.count)[::-1]
        messages = [decode_message(UserMessage(self._packet(row))) for row in firsts.tolist()]
        found = {
            "dest_queue": [queue_text(message.destination_queue) for message in messages],
            "resp_queue": [queue_text(message.response_queue) for message in messages],
            "admin_queue": [queue_text(message.administration_queue) for message in messages],
        }
        return {name: pa.array(values, pa.string()).take(pa.array(same)) for name, values in found.items()}

    def _packet(self, row: int) -> bytes:
        walk = self.walk
        return walk.joined.data[walk.packet[row] : walk.end[row]]

    @cached_property
    def transaction_flags(self) -> npt.NDArray[np.uint32]:
        walk = self.walk
        is_transactional = walk.has(user_header.TRANSACTION_HEADER)
        return walk.joined.numbers("<u4", np.where(is_transactional, walk.transaction, walk.joined.zeros))

    def security_item(self, name: str) -> pa.Array:
        header = self.walk.security_header
        at = self.walk.security + SECURITY.itemsize
        for item in SECURITY_ITEMS[: SECURITY_ITEMS.index(name)]:
            at += aligned(header[item].astype(np.int64))
        size = header[name].astype(np.int64)
        return self.slices(at, size)

    @cached_property
    def provider(self) -> pa.Array:
        return self.security_item("provider")

    @property
    def body_sizes(self) -> npt.NDArray[np.int64]:
        """Of an encrypted message all that is reserved for the body, which may be more than `body_size`."""
        header = self.walk.properties_header
        is_encrypted = self.walk.security_header["flags"] & security_header.ENCRYPTED_BODY != 0
        size = header["body_size"].astype(np.int64)
        return np.where(is_encrypted, np.maximum(size, header["reserved_body_size"]), size)


def _codes(values: pa.Array) -> npt.NDArray[np.int64]:
    """The same small number for the same value."""
    codes: npt.NDArray[np.int64] = values.dictionary_encode().indices.to_numpy().astype(np.int64)
    return codes


def _of_record(field: str) -> Callable[[PlainPackets, str], pa.Array]:
    return lambda packets, name: packets.number(name, packets.walk.head[field])


def _of_fixed(field: str) -> Callable[[PlainPackets, str], pa.Array]:
    return lambda packets, name: packets.number(name, packets.walk.fixed[field])


def _of_properties(field: str) -> Callable[[PlainPackets, str], pa.Array]:
    return lambda packets, name: packets.number(name, packets.walk.properties_header[field])


def _record_time(field: str) -> Callable[[PlainPackets, str], pa.Array]:
    return lambda packets, name: packets.time(name, packets.walk.head[field])


def _bit(mask: int) -> Callable[[PlainPackets, str], pa.Array]:
    """Whether the transaction header has that flag."""
    return lambda packets, _: pa.array(packets.transaction_flags & mask != 0)


def _item(item: str) -> Callable[[PlainPackets, str], pa.Array]:
    return lambda packets, _: packets.security_item(item)


def _queue(packets: PlainPackets, name: str) -> pa.Array:
    return packets.queue_names[name]


def _sent_time(packets: PlainPackets, name: str) -> pa.Array:
    return packets.time(name, packets.walk.fixed["sent_time"])


def _message_id(packets: PlainPackets, _: str) -> pa.Array:
    return packets.identifiers(packets.walk.fixed["number"])


def _correlation_id(packets: PlainPackets, name: str) -> pa.Array:
    return fixed_binary(packets.walk.properties_header["correlation_id"]).cast(BY_NAME[name].type)


def _src_machine_id(packets: PlainPackets, _: str) -> pa.Array:
    return mapped(packets.source, lambda guid: str(decode_guid(guid)), pa.string())


def _priority(packets: PlainPackets, name: str) -> pa.Array:
    """0 for a transactional message, whatever the packet says."""
    walk = packets.walk
    priority = walk.fixed["base_flags"] & base_header.PRIORITY
    return packets.number(name, np.where(walk.has(user_header.TRANSACTION_HEADER), 0, priority))


def _delivery(packets: PlainPackets, name: str) -> pa.Array:
    recoverable = user_header.DELIVERY | user_header.TRANSACTION_HEADER
    return packets.number(name, packets.walk.has(recoverable))


def _acknowledge(packets: PlainPackets, name: str) -> pa.Array:
    return packets.number(name, packets.walk.properties_header["acknowledgements"] & ACKNOWLEDGEMENTS)


def _journal(packets: PlainPackets, name: str) -> pa.Array:
    has = packets.walk.has
    journal = has(user_header.POSITIVE_JOURNALING) * int(Journal.JOURNAL)
    return packets.number(name, journal + has(user_header.NEGATIVE_JOURNALING) * int(Journal.DEADLETTER))


def _trace(packets: PlainPackets, name: str) -> pa.Array:
    return packets.number(name, packets.walk.fixed["base_flags"] & base_header.TRACING != 0)


def _dead_letter_queue(packets: PlainPackets, _: str) -> pa.Array:
    walk = packets.walk
    names = packets.slices(walk.record + walk.head.itemsize, walk.head["name_size"])
    return mapped(names, lambda name: text(name.decode()), pa.string())


def _label(packets: PlainPackets, _: str) -> pa.Array:
    walk = packets.walk
    sizes = np.maximum(walk.extension - walk.label - 2, 0)  # without the NUL
    return texts(walk.joined.slices(walk.label, sizes), lambda units: text(decode_text(units)))


def _body(packets: PlainPackets, _: str) -> pa.Array:
    return packets.walk.joined.slices(packets.walk.body, packets.body_sizes)


def _extension(packets: PlainPackets, _: str) -> pa.Array:
    return packets.slices(packets.walk.extension, packets.walk.properties_header["extension_size"])


def _sender_id_type(packets: PlainPackets, name: str) -> pa.Array:
    return packets.number(name, packets.walk.security_header["flags"] & security_header.SENDER_ID_TYPE)


def _not_authenticated(packets: PlainPackets, name: str) -> pa.Array:
    """0 or false for each row, whatever its packet claims: records with a verdict are not plain."""
    return pa.array(np.zeros(packets.count, BY_NAME[name].type.to_pandas_dtype()), BY_NAME[name].type)


def _provider_name(packets: PlainPackets, _: str) -> pa.Array:
    return mapped(packets.provider, lambda info: text(decode_provider_info(info)[1]) or None, pa.string())


def _provider_type(packets: PlainPackets, name: str) -> pa.Array:
    kinds = mapped(packets.provider, lambda info: signed32(decode_provider_info(info)[0]), BY_NAME[name].type)
    return kinds.fill_null(0)


def _connector_type(packets: PlainPackets, _: str) -> pa.Array:
    walk = packets.walk
    sizes = walk.transaction - walk.names_end
    return mapped(
        packets.slices(walk.names_end, sizes), lambda guid: guid_text(decode_guid(guid)), pa.string()
    )


def _xact_id(packets: PlainPackets, _: str) -> pa.Array:
    numbers = packets.transaction_flags >> transaction_header.TRANSACTION_ID_SHIFT
    is_outside = ~packets.walk.has(user_header.TRANSACTION_HEADER)
    return packets.identifiers(numbers & transaction_header.TRANSACTION_ID_MASK, is_outside)


def _raw(packets: PlainPackets, _: str) -> pa.Array:
    return packets.walk.joined.slices(packets.walk.packet, packets.walk.end - packets.walk.packet)


def _nulls(packets: PlainPackets, name: str) -> pa.Array:
    return packets.nulls(name)


_COLUMNS: dict[str, Callable[[PlainPackets, str], pa.Array]] = {
    "arrived_time": _record_time("arrival_time"),
    "sent_time": _sent_time,
    "message_id": _message_id,
    "correlation_id": _correlation_id,
    "class": _of_properties("message_class"),
    "src_machine_id": _src_machine_id,
    "version": _of_fixed("version"),
    "priority": _priority,
    "delivery": _delivery,
    "acknowledge": _acknowledge,
    "journal": _journal,
    "trace": _trace,
    "ttrq": _of_fixed("time_to_reach_queue"),
    "ttbr": _of_fixed("time_to_be_received"),
    "dest_queue": _queue,
    "resp_queue": _queue,
    "admin_queue": _queue,
    "deadletter_queue": _dead_letter_queue,
    "xact_status_queue": _nulls,
    "label": _label,
    "body": _body,
    "body_type": _of_properties("body_type"),
    "body_size": _of_properties("body_size"),
    "extension": _extension,
    "app_specific": _of_properties("application_tag"),
    "soap_envelope": _nulls,
    "sender_id": _item("sender"),
    "sender_id_type": _sender_id_type,
    "authenticated": _not_authenticated,
    "auth_level": _not_authenticated,
    "verified_sender": _nulls,
    "verified_name": _nulls,
    "priv_level": _of_properties("privacy_level"),
    "hash_alg": _of_properties("hash_algorithm"),
    "encryption_alg": _of_properties("encryption_algorithm"),
    "signature": _item("signature"),
    "sender_cert": _item("certificate"),
    "provider_name": _provider_name,
    "provider_type": _provider_type,
    "connector_type": _connector_type,
    "xact_id": _xact_id,
    "first_in_xact": _bit(transaction_header.FIRST_IN_TRANSACTION),
    "last_in_xact": _bit(transaction_header.LAST_IN_TRANSACTION),
    "abort_count": _of_record("abort_count"),
    "move_count": _of_record("move_count"),
    "last_move_time": _record_time("last_move_time"),
    "raw": _raw,
    "decode_error": _nulls,
}
