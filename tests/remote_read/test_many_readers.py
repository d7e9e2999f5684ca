"""Readers, senders and faults in an order that a seed decides.

Readers open, wait, cancel, end, close and vanish, several in one batch; answers get lost, readers fall
silent, the queue manager is killed. In the end every message is in its queue, or exactly one reader kept it.
"""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from os import urandom

import pytest

from engine.harness import SYSTEM
from tiercel.model.codes import LookupAction, QueueAccess, ReceiveAction
from tiercel.model.limits import INFINITE
from tiercel.model.message import Message
from tiercel.remote_read import calls
from tiercel.remote_read.calls import MQ_OK, RR_ACK, RR_NACK, Received
from tiercel.remote_read.packet import rebuild
from tiercel.rpc.associations import Associations
from tiercel.rpc.ndr import ContextHandle

from .site import RECEIVE, Reader, Site, Waiting, queue_format

STEPS = 150
FIRST, LAST = 0, 0xFFFF_FFFF_FFFF_FFFF
RECEIVES = [
    {},
    {"timeout_ms": 1000},
    {"timeout_ms": INFINITE},
    {"action": LookupAction.RECEIVE_NEXT, "lookup_id": FIRST},
    {"action": LookupAction.RECEIVE_PREV, "lookup_id": LAST},
]
PEEKS = [
    {"action": ReceiveAction.PEEK_CURRENT, "timeout_ms": 1000},
    {"action": LookupAction.PEEK_NEXT, "lookup_id": FIRST},
]


@dataclass(eq=False)
class Read:
    reader: Reader
    handle: ContextHandle
    wait: Waiting

    @property
    def body(self) -> bytes | None:
        answer = self.wait.answer
        if not isinstance(answer, Received) or answer.status != MQ_OK:
            return None
        return rebuild(answer.sections).packet.body


class Play:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.site = Site(cleanup_s=50)
        self.box = self.site.create("q")
        self.sent: list[bytes] = []
        self.kept: list[bytes] = []
        self.readers: list[Reader] = []
        self.opening: list[tuple[Reader, Waiting]] = []
        self.handles: list[tuple[Reader, ContextHandle]] = []
        self.reads: list[Read] = []
        self.ending: list[tuple[Read, Waiting]] = []
        self.request_ids = count(1)

    def run(self) -> None:
        often: list[Callable[[], None]] = [self.send, self.start, self.start, self.end, self.end]
        seldom = [self.connect, self.cancel, self.close, self.vanish, self.abandon, self.fall_silent]
        for _ in range(STEPS):
            together = self.random.choices(often * 3 + seldom, k=self.random.randint(1, 5))
            self.batch(together)
            if self.random.random() < 0.1:
                self.site.now += self.random.choice([0.5, 1, 20, 60])
                self.batch([])
            if self.random.random() < 0.02:
                self.kill()
        self.batch([self.vanish] * len(self.readers))

    def batch(self, together: list[Callable[[], None]]) -> None:
        self.site.run(lambda: [each() for each in together])
        for read, wait in self.ending:
            if wait.answer == calls.Done(MQ_OK):
                assert read.body is not None
                self.kept.append(read.body)
        self.ending.clear()
        for reader, wait in self.opening:
            if isinstance(wait.answer, calls.QueueOpened) and reader in self.readers:
                self.handles.append((reader, wait.answer.handle))
        self.opening.clear()

    def send(self) -> None:
        engine, body = self.site.engine, b"%d" % len(self.sent)
        opened = engine.opening.open(self.box.name, QueueAccess.SEND, token=SYSTEM)
        engine.sending.send(opened, Message(body, delivery=1, priority=self.random.randint(0, 7)))
        engine.opening.close(opened)
        self.sent.append(body)

    def connect(self) -> None:
        if len(self.readers) < 4:
            self.readers.append(self.site.reader())
        reader = self.random.choice(self.readers)
        self.opening.append((reader, reader.submit(calls.OpenQueue(queue_format("q"), RECEIVE))))

    def start(self) -> None:
        if not self.handles:
            self.connect()
            return
        reader, handle = self.random.choice(self.handles)
        how = self.random.choice(RECEIVES * 2 + PEEKS)
        request = calls.StartReceive(handle, request_id=next(self.request_ids), **how)
        self.reads.append(Read(reader, handle, reader.submit(request)))

    def end(self) -> None:
        """Of a read that has its message, or sometimes one that has none or was ended already."""
        if not self.reads:
            return
        read = self.random.choice(self.reads)
        assert isinstance(read.wait.request, calls.StartReceive)
        ack = self.random.choice([RR_ACK, RR_ACK, RR_NACK])
        ended = read.reader.submit(calls.EndReceive(read.handle, ack, read.wait.request.request_id))
        if ack == RR_ACK:
            self.ending.append((read, ended))
        if self.random.random() < 0.9:
            self.reads.remove(read)

    def cancel(self) -> None:
        if self.reads:
            read = self.random.choice(self.reads)
            assert isinstance(read.wait.request, calls.StartReceive)
            read.reader.submit(calls.CancelReceive(read.handle, read.wait.request.request_id))

    def close(self) -> None:
        if self.handles:
            reader, handle = self.handles.pop(self.random.randrange(len(self.handles)))
            reader.submit(calls.CloseQueue(handle))
            self.reads = [read for read in self.reads if read.handle != handle]

    def vanish(self) -> None:
        if self.readers:
            gone = self.readers.pop(self.random.randrange(len(self.readers)))
            gone.leave()
            self.handles = [each for each in self.handles if each[0] is not gone]
            self.reads = [read for read in self.reads if read.reader is not gone]

    def abandon(self) -> None:
        if self.reads:
            self.site.service.abandon(self.random.choice(self.reads).wait.id)

    def fall_silent(self) -> None:
        """An answer is lost, and its reader never ends it."""
        if self.reads:
            self.reads.pop(self.random.randrange(len(self.reads)))

    def kill(self) -> None:
        self.site.kill()  # and the sockets with it
        self.site.associations = Associations(urandom)
        self.readers, self.handles, self.reads = [], [], []


@pytest.mark.parametrize("start", range(0, 40, 10))
def test_every_message_is_there_or_was_kept_by_one(start: int) -> None:
    kept = 0
    for seed in range(start, start + 10):
        play = Play(seed)
        play.run()
        site, state = play.site, play.box.state
        left = play.box.bodies()
        assert Counter(left + play.kept) == Counter(play.sent), f"seed {seed}"
        assert (site.service.handle_count, site.service.pending_count) == (0, 0), f"seed {seed}"
        assert (state.locks, state.waiters) == ({}, []), f"seed {seed}"
        kept += len(play.kept)
    assert kept > 100
