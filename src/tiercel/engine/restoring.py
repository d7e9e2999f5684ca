"""A store that comes from a backup does not know what its queue manager said after the backup was made.

Numbers that were given out since would be given out again, and whoever remembers them would take new things
for old ones: a receiver the messages of a stream, or those with an id that it has seen; a browsing reader
what it has read already. So the first start of a copy leaps over them. What still waits to be sent keeps its
numbers: a receiver that has it knows it by them, and that is right.
"""

from typing import Final

from tiercel.engine.outgoing import STREAM, Stream
from tiercel.store.interface import COPIED_KEY, Batch, Keyspace

# How far, and why so far. None of these comes near its end within a thousand restores.
_LEAPS: Final = {
    b"message_ordinal": 2**31,  # half around the circle of 32 bits
    b"sequential_id": 2**40,  # of 56 bits
    b"slot": 2**16,  # of 31 bits; private queues are addressed by it
    b"consumer_epoch": 2**32,  # of 64 bits
}
_STREAM_LEAP: Final = 2**28  # of 32 bits, and a stream that is through begins anew
_LAST_NUMBER: Final = 2**32 - 2**24


def leap(batch: Batch) -> bool:
    """Leaps if the store is a copy that nobody has opened yet; False when it is not."""
    if batch.get(Keyspace.META, COPIED_KEY) is None:
        return False
    for key, width in _LEAPS.items():
        stored = batch.get(Keyspace.META, key) or bytes(8)
        if len(stored) == 8:  # else it is damaged, and whoever counts with it says so
            batch.put(Keyspace.META, key, (int.from_bytes(stored, "big") + width).to_bytes(8, "big"))
    for key, data in list(batch.range(Keyspace.SEQUENCES, b"", b"\xff" * 5)):
        if len(data) == STREAM.size:  # those of queues of this computer are shorter, and nobody's business
            batch.put(Keyspace.SEQUENCES, key, _leapt(Stream(*STREAM.unpack(data))).encode())
    batch.delete(Keyspace.META, COPIED_KEY)
    return True


def _leapt(stream: Stream) -> Stream:
    if stream.acked < stream.number:  # else the next message begins a new sequence
        stream.number = max(stream.number, min(stream.number + _STREAM_LEAP, _LAST_NUMBER))
    return stream
