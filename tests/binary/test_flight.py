"""What an acknowledgement means for messages that left together, beside the rule for single ones."""

from random import Random
from uuid import UUID

import pytest

from tiercel.binary.flight import Acked, Entry, Flight
from tiercel.engine.queue_state import QueueState
from tiercel.engine.taken import Taken
from tiercel.model.queue import Queue
from tiercel.wire.session_header import SessionHeader
from tiercel.wire.user_message import UserMessage

from .site import letter

QUEUE = QueueState(1, Queue(identifier=UUID(int=1)))
PACKETS = {kind: letter(1, recoverable=kind) for kind in (False, True)}
JUST_BEFORE_THE_WRAP = 65_500


class OneByOne:
    """[MS-MQQB] 3.1.5.5.1, message by message: the lookup ids of what is in flight, with its number."""

    def __init__(self, start: int) -> None:
        self.sent = self.stored = self.acked = start
        self._express: dict[int, int] = {}
        self._recoverable: dict[int, int] = {}

    def add(self, lookup_id: int, *, recoverable: bool) -> None:
        self.sent += 1
        if recoverable:
            self.stored += 1
            self._recoverable[lookup_id] = self.stored
        else:
            self._express[lookup_id] = self.sent

    def acknowledge(self, header: SessionHeader) -> set[int]:
        newly = (header.ack_sequence_number - self.acked) & 0xFFFF
        self.acked += newly if newly <= self.sent - self.acked else 0
        done = {each for each, number in self._express.items() if number <= self.acked}
        first, flags = header.recoverable_msg_ack_seq_number, header.recoverable_msg_ack_flags
        for each, number in self._recoverable.items() if first else ():
            distance = (number - first) & 0xFFFF
            if 32 <= distance < 0x8000:  # neither it nor any after it is meant
                break
            if distance == 0 or distance >= 0x8000 or flags >> distance & 1:
                done.add(each)
        for each in done:
            self._express.pop(each, None)
            self._recoverable.pop(each, None)
        return done

    def land(self) -> set[int]:
        return {*self._express, *self._recoverable}


def entry(first: int, count: int, *, recoverable: bool) -> Entry:
    """Messages whose lookup ids begin with `first`."""
    packet = PACKETS[recoverable]
    lookup_ids, size = range(first, first + count), count * len(packet)
    return Entry(Taken(QUEUE, lookup_ids, [packet] * count, UserMessage(packet), size), recoverable)


def lookup_ids(done: list[Acked]) -> set[int]:
    """Of messages that are complete; none is complete twice."""
    parts = [each.taken.part(mask) for each, mask in done if each.taken is not None]
    found = [lookup_id for part in parts for lookup_id in part.lookup_ids]
    assert len(set(found)) == len(found)
    return set(found)


@pytest.mark.parametrize("seed", range(60))
def test_an_acknowledgement_of_a_run_means_the_same_as_of_single_messages(seed: int) -> None:
    random, start = Random(seed), JUST_BEFORE_THE_WRAP if seed % 2 else 0
    flight, reference = Flight(), OneByOne(start)
    flight.sent = flight._acked = flight.recoverable_sent = start
    count = 0
    for _ in range(60):
        if random.random() < 0.4:
            length, recoverable = random.choice((1, 2, 31, 32, 33, 64, 300)), random.random() < 0.7
            flight.add([entry(count, length, recoverable=recoverable)])
            for each in range(length):
                reference.add(count + each, recoverable=recoverable)
            count += length
        stored = flight.recoverable_sent - random.choice((0, 0, 5, 40, 100, random.randrange(70_000)))
        header = SessionHeader(
            (flight.sent - random.choice((0, 3, 50, random.randrange(70_000)))) & 0xFFFF,
            random.choice((stored & 0xFFFF, 0, random.randrange(0x10000))),
            random.choice((0, 0xFFFF_FFFF, random.getrandbits(32))),
        )
        assert lookup_ids(flight.acknowledge(header)) == reference.acknowledge(header)
        assert flight.size == reference.sent - reference.acked
        assert flight.is_empty == (not flight.size and not reference.land())
    assert lookup_ids(flight.land()) == reference.land()
    assert flight.is_empty
