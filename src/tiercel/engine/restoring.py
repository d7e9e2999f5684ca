"""The first start of a store that was restored from a backup skips numbers.

Numbers given out after the backup would be given out again, and others would take new messages for ones that
they have: a receiver by the place in a stream or by the message id, a browsing reader by the sequence.
Messages that still wait to be sent keep their numbers, so that a receiver that has them recognises them.
"""

from typing import Final

from tiercel.engine.stream import SIZES, Stream
from tiercel.store.interface import COPIED_KEY, Batch, Keyspace

# How far each counter leaps. None of them is used up within a thousand restores.
_LEAPS: Final = {
    b"message_ordinal": 2**31,  # half around the circle of 32 bits
    b"sequential_id": 2**40,  # of 56 bits
    b"slot": 2**16,  # of 31 bits; private queues are addressed by it
    b"consumer_epoch": 2**32,  # of 64 bits
}
_STREAM_LEAP: Final = 2**28  # of 32 bits, and a stream that is through begins anew
_LAST_NUMBER: Final = 2**32 - 2**24


def leap(batch: Batch) -> bool:
    """Skips the numbers if the store is a copy that was not opened yet; False otherwise."""
    if batch.get(Keyspace.META, COPIED_KEY) is None:
        return False
    for key, width in _LEAPS.items():
        stored = batch.get(Keyspace.META, key) or bytes(8)
        if len(stored) == 8:  # else it is damaged, and its counter raises
            batch.put(Keyspace.META, key, (int.from_bytes(stored, "big") + width).to_bytes(8, "big"))
    for key, data in list(batch.range(Keyspace.SEQUENCES, b"", b"\xff" * 5)):
        if len(data) in SIZES:  # streams to local queues are shorter, and stay here
            batch.put(Keyspace.SEQUENCES, key, _leapt(Stream.decode(data)).encode())
    batch.delete(Keyspace.META, COPIED_KEY)
    return True


def _leapt(stream: Stream) -> Stream:
    if stream.acked < stream.number:  # else the next message begins a new sequence
        stream.number = max(stream.number, min(stream.number + _STREAM_LEAP, _LAST_NUMBER))
        stream.sent = stream.number  # the receiver may have any number given out since the backup
    return stream
