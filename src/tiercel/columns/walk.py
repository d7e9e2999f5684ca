"""Finds the headers of many stored messages at once, and which packets are plain.

A plain packet is complete and has no rare headers after its properties. The steps and checks are those of
`UserMessage`, applied to all rows together. Rows that fail here are not refused but left to `UserMessage`,
which handles rare headers and reports errors.
"""

from copy import copy
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from tiercel.columns.joined import Joined, Mask, Places
from tiercel.engine import records
from tiercel.model.codes import QueueFormatType
from tiercel.model.limits import MAX_PACKET_SIZE
from tiercel.wire import base_header, transaction_header, user_header
from tiercel.wire.message_properties_header import LABEL_LENGTH_MAX
from tiercel.wire.queue_names import STRUCTURE_OF_KIND

Structures = npt.NDArray[Any]

RECORD = np.dtype(
    [
        ("checksum", "<u4"),
        ("version", "u1"),
        ("is_copy", "u1"),
        ("name_size", "<u2"),
        ("arrival_time", "<u4"),
        ("abort_count", "<u4"),
        ("move_count", "<u4"),
        ("last_move_time", "<u4"),
    ]
)
# BaseHeader and the fixed part of UserHeader.
FIXED = np.dtype(
    [
        ("version", "u1"),
        ("reserved", "u1"),
        ("base_flags", "<u2"),
        ("signature", "<u4"),
        ("packet_size", "<u4"),
        ("time_to_reach_queue", "<u4"),
        ("source", "V16"),
        ("address", "V16"),
        ("time_to_be_received", "<u4"),
        ("sent_time", "<u4"),
        ("number", "<u4"),
        ("flags", "<u4"),
    ]
)
SECURITY = np.dtype(
    [
        ("flags", "<u2"),
        ("sender", "<u2"),
        ("key", "<u2"),
        ("signature", "<u2"),
        ("certificate", "<u4"),
        ("provider", "<u4"),
    ]
)
PROPERTIES = np.dtype(
    [
        ("acknowledgements", "u1"),
        ("label_length", "u1"),
        ("message_class", "<u2"),
        ("correlation_id", "V20"),
        ("body_type", "<u4"),
        ("application_tag", "<u4"),
        ("body_size", "<u4"),
        ("reserved_body_size", "<u4"),
        ("privacy_level", "<u4"),
        ("hash_algorithm", "<u4"),
        ("encryption_algorithm", "<u4"),
        ("extension_size", "<u4"),
    ]
)
SECURITY_ITEMS = ("sender", "key", "signature", "certificate", "provider")

_RARE_BASE = base_header.SESSION_HEADER | base_header.DEBUG_HEADER
_RARE = user_header.ARRIVED_OVER_HTTP | user_header.SOAP_HEADER | user_header.MULTI_QUEUE_FORMAT_HEADER
# In wire order: where the kind of a name is in the flags, and which kinds are allowed there.
_NAMES = (
    (user_header.DESTINATION_SHIFT, user_header.DESTINATION_KINDS),
    (user_header.ADMIN_SHIFT, user_header.ADMIN_KINDS),
    (user_header.RESPONSE_SHIFT, user_header.RESPONSE_KINDS),
)
_NAME_SIZES = np.array(
    [STRUCTURE_OF_KIND[kind].LAYOUT.size if kind in STRUCTURE_OF_KIND else 0 for kind in range(8)], np.int64
)


class Walk:
    """Offsets are in the joined data; those of rows that are not plain are meaningless."""

    def __init__(self, joined: Joined, head_size: int = 0) -> None:
        self.joined = joined
        self._has_head = head_size > 0
        self.record: Places = joined.starts + head_size
        self.end: Places = joined.ends
        self.head = joined.structures(RECORD, self.record)
        self.packet: Places = self.record + RECORD.itemsize + self.head["name_size"]
        self.fixed = joined.structures(FIXED, self.packet)
        self.is_plain: Mask = self._is_whole() & self._is_common()
        self.flags: npt.NDArray[np.uint32] = self.fixed["flags"]
        self.names_end = self._pass_names()
        self.transaction = self.names_end + self._where(user_header.CONNECTOR_TYPE, 16)
        self.security = self.transaction + self._transaction_sizes()
        self.security_header = self._header(user_header.SECURITY_HEADER, SECURITY, self.security)
        self.properties = self.security + self._security_sizes()
        self.properties_header = joined.structures(PROPERTIES, self.properties)
        self._check_properties()

    def plain_rows(self) -> Self:
        """The same of the plain rows alone."""
        if self.is_plain.all():
            return self
        chosen = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray):
                setattr(chosen, name, value[self.is_plain])
        return chosen

    def has(self, flag: int) -> Mask:
        """Whether UserHeader.Flags announces that header."""
        announced: Mask = self.flags & flag != 0
        return announced

    def _where(self, flag: int, size: int) -> Places:
        return np.where(self.has(flag), size, 0)

    def _is_whole(self) -> Mask:
        """Whether the checksum matches; checked before anything else."""
        checksums = self.joined.checksums(self.record + 4, self.end)
        whole: Mask = (checksums == self.head["checksum"]) & (self.head["version"] == records.VERSION)
        if self._has_head:  # of a claim, with a checksum of its own at its end
            at = self.record - 4
            whole &= self.joined.checksums(self.joined.starts, at) == self.joined.numbers(">u4", at)
        return whole

    def _is_common(self) -> Mask:
        fixed = self.fixed
        flags = fixed["flags"]
        allowed = flags & user_header.MESSAGE_PROPERTIES_HEADER != 0
        for shift, kinds in _NAMES:
            allowed &= np.isin(np.arange(8), list(kinds))[flags >> shift & 7]
        common: Mask = (
            allowed
            & (fixed["version"] == base_header.VERSION)
            & (fixed["signature"] == base_header.SIGNATURE)
            & (fixed["packet_size"] == self.end - self.packet)  # so the record is not too short, either
            & (fixed["packet_size"] <= MAX_PACKET_SIZE)
            & (fixed["base_flags"] & _RARE_BASE == 0)
            & (flags & _RARE == 0)
        )
        return common

    def _pass_names(self) -> Places:
        at = self.packet + FIXED.itemsize
        for shift, _ in _NAMES:
            kinds = self.flags >> shift & 7
            size = _NAME_SIZES[kinds]
            is_direct = kinds == QueueFormatType.DIRECT
            if is_direct.any():
                count = np.where(is_direct, self.joined.numbers("<u2", at), 0)
                nul = self.joined.numbers(
                    "<u2", at + count
                )  # its last character: the count has 2 bytes itself
                self.is_plain &= ~is_direct | ((count >= 2) & (count % 2 == 0) & (nul == 0))
                size = np.where(is_direct, aligned(size + count), size)
            at = at + size
        return at

    def _transaction_sizes(self) -> Places:
        has = self.has(user_header.TRANSACTION_HEADER)
        if not has.any():
            return np.zeros(len(has), np.int64)
        flags = self.joined.numbers("u1", self.transaction)
        return np.where(has, np.where(flags & transaction_header.CONNECTOR_GUID, 36, 20), 0)

    def _header(self, flag: int, layout: np.dtype[Any], places: Places) -> Structures:
        """The header where it is announced, zeros elsewhere."""
        return self.joined.structures(layout, np.where(self.has(flag), places, self.joined.zeros))

    def _security_sizes(self) -> Places:
        sizes = self._where(user_header.SECURITY_HEADER, SECURITY.itemsize)
        for item in SECURITY_ITEMS:
            sizes += aligned(self.security_header[item].astype(np.int64))
        return sizes

    def _check_properties(self) -> None:
        header = self.properties_header
        length = header["label_length"].astype(np.int64)
        self.label = self.properties + PROPERTIES.itemsize
        self.extension = self.label + 2 * length
        self.body = self.extension + header["extension_size"]
        after = self.body + np.maximum(header["body_size"], header["reserved_body_size"])
        nul = self.joined.numbers("<u2", self.extension - 2)
        is_label = (length == 0) | ((length <= LABEL_LENGTH_MAX) & (nul == 0))
        # No step goes back, so what ends inside the packet did so at every step.
        self.is_plain &= is_label & (aligned(after - self.packet) <= self.end - self.packet)


def aligned(size: Places) -> Places:
    return size + 3 & ~3
