"""Staged sends in the store: the name of a stage, its head, its chunks, and the outcome of a batch.

STAGES     app/batch/partition/attempt                the head of a stage
STAGED     the same, NUL, number of the chunk         a chunk: checksum, rows, payload
PUBLISHED  app/batch                                  how the batch ended
PUBLISHED  NUL, time, app/batch                       the same by age; no name begins with a NUL
"""

import re
import struct
import zlib
from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple
from uuid import UUID, uuid5

from tiercel.model.errors import InvalidParameterError, StoreDamagedError
from tiercel.wire.structure import encode_guid

_PART = re.compile(r"[A-Za-z0-9._-]{1,100}", re.ASCII)
_HEAD = struct.Struct("<IIIIQQ")  # created, changed, kept for, chunks, rows, bytes
_CHUNK = struct.Struct("<II")  # checksum of the rest, rows
_OUTCOME = struct.Struct("<BIQ")  # how it ended, when, how many messages
_TIME = struct.Struct(">xQ")
_ROWS = UUID("5c1f2c0e-7b0a-5d1c-9a53-8b6f0f3f9d2e")  # the namespace of published rows

BY_AGE, BY_NAME = b"\0", b"\1"  # where the two kinds of keys of PUBLISHED begin


class StageId(NamedTuple):
    """The name of a stage, which belongs to one attempt of one task: `app/batch/partition/attempt`."""

    app: str
    batch: str
    partition: str
    attempt: str

    def __str__(self) -> str:
        return "/".join(self)

    @property
    def key(self) -> bytes:
        return "/".join(self).encode()

    @classmethod
    def parse(cls, text: str) -> "StageId":
        parts = text.split("/")
        if len(parts) != 4:
            raise InvalidParameterError(f"stage {text[:100]}", limit="app/batch/partition/attempt")
        return cls(*parts).checked()

    def checked(self) -> "StageId":
        check_names(self)
        return self


def check_names(parts: Iterable[object]) -> None:
    for part in parts:
        if not isinstance(part, str) or not _PART.fullmatch(part):
            limit = "1 to 100 letters, digits, dots, underscores and hyphens"
            raise InvalidParameterError("name of a stage", present=f"{part!a:.100}", limit=limit)


class Stage(NamedTuple):
    """The head of a stage; times are in seconds since 1970."""

    id: StageId
    created: int
    changed: int
    keep_s: int = 0  # after its last change; 0: as long as the queue manager keeps any
    chunks: int = 0
    rows: int = 0
    size_bytes: int = 0

    def encode(self) -> bytes:
        return _HEAD.pack(*self[1:])


def decode_stage(key: bytes, data: bytes) -> Stage:
    """The head of a stage; anything else is a ValueError or a struct.error."""
    return Stage(StageId(*key.decode("ascii").split("/")), *_HEAD.unpack(data))


def chunk_key(stage: bytes, chunk: int) -> bytes:
    return stage + b"\0" + chunk.to_bytes(4, "big")


def split_chunk_key(key: bytes) -> tuple[bytes, int]:
    return key[:-5], int.from_bytes(key[-4:], "big")


class Chunk(NamedTuple):
    rows: int
    payload: bytes

    def encode(self) -> bytes:
        return _CHUNK.pack(_checksum(*self), self.rows) + self.payload


def decode_chunk(data: bytes) -> Chunk:
    """The chunk; raises StoreDamagedError for a damaged one."""
    if len(data) < _CHUNK.size:
        raise StoreDamagedError("staged chunk", present=f"{len(data)} bytes", limit=f"at least {_CHUNK.size}")
    checksum, rows = _CHUNK.unpack_from(data)
    chunk = Chunk(rows, data[_CHUNK.size :])
    if _checksum(*chunk) != checksum:
        raise StoreDamagedError("staged chunk", problem="its checksum is wrong")
    return chunk


def _checksum(rows: int, payload: bytes) -> int:
    return zlib.crc32(payload, rows)


def amount(data: bytes | None) -> tuple[int, int]:
    """The rows and the bytes that a stored chunk counts for, damaged or not."""
    if data is None or len(data) < _CHUNK.size:
        return 0, 0
    return _CHUNK.unpack_from(data)[1], len(data) - _CHUNK.size


class Ending(IntEnum):
    """How a batch of stages ended."""

    PUBLISHED = 1
    DISCARDED = 2


class Outcome(NamedTuple):
    ending: Ending
    time: int
    messages: int

    def encode(self) -> bytes:
        return _OUTCOME.pack(*self)


def decode_outcome(data: bytes) -> Outcome:
    """How a batch ended; anything else is a ValueError or a struct.error."""
    ending, time, messages = _OUTCOME.unpack(data)
    return Outcome(Ending(ending), time, messages)


def age_key(time: int, name: bytes) -> bytes:
    return _TIME.pack(time) + name


def split_age_key(key: bytes) -> tuple[int, bytes]:
    (time,) = _TIME.unpack_from(key)
    return time, key[_TIME.size :]


class RowMarks:
    """Correlation ids for the rows of a partition, the same whenever the batch is published.

    A message id cannot be derived: it names the queue manager that sends, and acknowledgements go by it. So a
    row carries its mark, in the form of a message id, where it has no correlation id of its own: the same
    mark twice is the same row twice.
    """

    def __init__(self, stage: StageId) -> None:
        self._guid = encode_guid(uuid5(_ROWS, "/".join(stage[:3])))
        self._row = 0

    def next(self) -> bytes:
        self._row += 1
        return self._guid + self._row.to_bytes(4, "little")
