"""The packets of many records at once are those of each."""

import pytest

from tiercel.engine.records import Record, encode_arrivals, packet_of, packets_of
from tiercel.model.errors import StoreDamagedError

PLAIN = encode_arrivals([b"one", b"two"], 7)
RECORDS = [
    *PLAIN,
    Record(b"three", 8).encode(),
    Record(b"four", 8, dead_letter_queue="DIRECT=OS:a\\b").encode(),
    Record(b"five", 8, reason=0x8005).encode(),
    Record(b"six", 8, verdict=b"proved").encode(),
    Record(b"seven", 8, is_copy=True).encode(),
    *PLAIN,
]


def test_of_all_kinds_of_records() -> None:
    assert packets_of(RECORDS) == [packet_of(record) for record in RECORDS]
    assert packets_of([]) == []


@pytest.mark.parametrize("at", range(len(RECORDS)))
def test_one_that_is_damaged_anywhere_is_an_error(at: int) -> None:
    sound = RECORDS[at]
    damaged = [sound[:cut] for cut in range(len(sound))]
    damaged += [sound[:byte] + bytes((sound[byte] ^ 1,)) + sound[byte + 1 :] for byte in range(len(sound))]
    for record in damaged:
        with pytest.raises(StoreDamagedError):
            packets_of([*RECORDS[:at], record, *RECORDS[at + 1 :]])
