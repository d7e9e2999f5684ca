"""Whether the staged sends of a store make sense: the part of `tiercel check` that knows them."""

import struct
from collections.abc import Iterator

from tiercel.engine.stage_records import (
    BY_NAME,
    Stage,
    age_key,
    amount,
    check_names,
    chunk_key,
    decode_chunk,
    decode_outcome,
    decode_stage,
    split_age_key,
    split_chunk_key,
)
from tiercel.model.errors import MqError, StoreDamagedError
from tiercel.store.interface import Keyspace, View

_END = b"\xff"
_UNREADABLE = (ValueError, TypeError, struct.error, MqError)

Finding = tuple[Keyspace, str]


def check_stages(view: View) -> Iterator[Finding]:
    """A problem, and its keyspace."""
    for key, data in view.range(Keyspace.STAGES, b"", _END):
        try:
            stage = decode_stage(key, data)
            check_names(stage.id)
        except _UNREADABLE:
            yield Keyspace.STAGES, f"the head of stage {key!a} cannot be read"
            continue
        yield from _check_amount(view, stage)
    for key, data in view.range(Keyspace.STAGED, b"", _END):
        name, chunk = split_chunk_key(key)
        what = f"chunk {chunk} of stage {name!a}"
        if view.get(Keyspace.STAGES, name) is None:
            yield Keyspace.STAGED, f"{what} belongs to no stage"
        try:
            decode_chunk(data)
        except StoreDamagedError as damage:
            yield Keyspace.STAGED, f"{what} is damaged ({damage.problem})"


def _check_amount(view: View, stage: Stage) -> Iterator[Finding]:
    rows = size = 0
    for chunk in range(stage.chunks):
        data = view.get(Keyspace.STAGED, chunk_key(stage.id.key, chunk))
        if data is None:
            yield Keyspace.STAGES, f"chunk {chunk} of stage {stage.id} is missing"
            return
        rows, size = rows + amount(data)[0], size + amount(data)[1]
    if (rows, size) != (stage.rows, stage.size_bytes):
        counted, there = f"{stage.rows} rows with {stage.size_bytes} bytes", f"{rows} with {size}"
        yield Keyspace.STAGES, f"stage {stage.id}: {counted} are counted, {there} are there"


def check_published(view: View) -> Iterator[Finding]:
    """The batches that ended, by name and by age."""
    for key, _ in view.range(Keyspace.PUBLISHED, b"", BY_NAME):
        try:
            name = split_age_key(key)[1]
        except struct.error:
            yield Keyspace.PUBLISHED, f"the key {key.hex()} is none of a batch"
            continue
        if view.get(Keyspace.PUBLISHED, name) is None:
            yield Keyspace.PUBLISHED, f"how batch {name!a} ended is missing"
    for name, data in view.range(Keyspace.PUBLISHED, BY_NAME, _END):
        try:
            time = decode_outcome(data).time
        except _UNREADABLE:
            yield Keyspace.PUBLISHED, f"how batch {name!a} ended cannot be read"
            continue
        if view.get(Keyspace.PUBLISHED, age_key(time, name)) is None:
            yield Keyspace.PUBLISHED, f"batch {name!a} would be remembered for ever"
