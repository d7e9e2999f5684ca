"""A transport session as a receiver sees it: packets in any order, APDUs out in theirs. RFC 3208 6.

`next` is the first number that was not delivered; `trail..lead` is the window of the source as far as it is
known. Numbers up to `lead` that are not here are in `repairs`, or lost. Delivery is in order, as on Windows
([MC-MQSRM] `<3>` on 6.1). A receiver that joins late asks for nothing older than its first packet.
"""

import heapq
from collections.abc import Callable
from enum import Enum, auto
from ipaddress import IPv4Address

from tiercel.pgm.limits import (
    BUFFERED_MAX_BYTES,
    BUFFERED_MAX_BYTES_IN_ALL,
    JUMP_CONFIRMED_WITHIN,
    JUMP_MAX,
    NAKS_A_SECOND,
    NAKS_A_SECOND_IN_ALL,
    PACKET_COST_BYTES,
)
from tiercel.pgm.outputs import Outgoing
from tiercel.pgm.packet import NAK_LIST_MAX, Data, Nak, Options, PacketType, Spm, Tsi, encode
from tiercel.pgm.reassembly import Reassembly
from tiercel.pgm.repairs import Repairs
from tiercel.pgm.sequence import distance, unwrap, wrap
from tiercel.pgm.settings import Settings
from tiercel.pgm.token_bucket import TokenBucket

_NO_WINDOW = (0, 0x8000_0000)  # trail and lead of an SPM without window information
_NO_PATH_RETRY_S = 0.5


def has_window(spm: Spm) -> bool:
    """Whether the SPM tells the window, and one that is possible."""
    return (spm.trail, spm.lead) != _NO_WINDOW and distance(spm.lead + 1, spm.trail) < 1 << 31


class State(Enum):
    HEARD = auto()  # SPMs only
    OPEN = auto()
    ENDING = auto()  # FIN was seen; repairs go on
    CLOSED = auto()


class Shared:
    """What all sessions of a host share: the number of NAKs, and memory."""

    def __init__(self, now: float, allow_loopback: bool = False) -> None:
        self.naks = TokenBucket(NAKS_A_SECOND_IN_ALL, NAKS_A_SECOND_IN_ALL, now)
        self.buffered_bytes = 0
        self.allow_loopback = allow_loopback  # paths like 127.0.0.1


class Session:
    def __init__(
        self,
        packet: Data | Spm,
        group: str,
        address: str,
        settings: Settings,
        draw: Callable[[], float],
        shared: Shared,
        now: float,
    ) -> None:
        """Opened by a packet of a source at `address`, which is received afterwards as any other."""
        self.tsi: Tsi = packet.tsi
        self.group, self.port, self.address = group, packet.port, address
        self.where = f"{group}:{packet.port}"
        self.state = State.HEARD
        self.path: str | None = None
        self.heard_at = now
        self.delivered: list[
            bytes | None
        ] = []  # APDUs, and None where something is lost; taken by the holder
        self.packets = self.duplicates = self.repaired = self.lost = self.naks = 0  # since the start
        self.reassembly = Reassembly()
        first = packet.number if isinstance(packet, Data) else packet.lead + 1
        self._settings = settings
        self._shared = shared
        self._repairs = Repairs(settings, draw)
        self._nak_bucket = TokenBucket(NAKS_A_SECOND, NAKS_A_SECOND, now)
        self._buffer: dict[int, Data] = {}
        self._kept: list[int] = []  # a heap of the numbers in it
        self._buffered_bytes = 0
        self._fin: int | None = None
        self._spm_number: int | None = None
        self._next_path = ""
        self._jumps: dict[str, int] = {}  # steps that a second packet must confirm
        self._begin_at(first)

    def _begin_at(self, number: int) -> None:
        self.next = self._first = number
        self.lead = self.trail = number - 1
        self._is_constrained = True  # ask for nothing before the first number until the window has passed it

    # Inputs.

    def receive(self, packet: Data | Spm | Nak, now: float) -> None:
        """A packet of the source, or a NAK that another receiver sent to the group."""
        if self.state is State.CLOSED:
            return
        if isinstance(packet, Data):
            self.heard_at = now
            self._receive_data(packet, now)
        elif isinstance(packet, Spm):
            self.heard_at = now
            self._receive_spm(packet, now)
        elif packet.kind is PacketType.NCF:
            self._repairs.ncf_heard(self._numbers(packet), now)
        elif packet.kind is PacketType.NAK:
            self._repairs.nak_heard(self._numbers(packet), now)
        if self._fin is not None and self.next > self._fin:
            self.close()

    def _numbers(self, nak: Nak) -> list[int]:
        return [unwrap(number, self.lead) for number in nak.numbers]

    def _receive_data(self, packet: Data, now: float) -> None:
        """RFC 3208 6.1 and 6.2."""
        number = unwrap(packet.number, self.lead)
        trail = unwrap(packet.trail, number)
        if number < trail:
            return
        self.packets += 1
        if number > self.lead + JUMP_MAX and not self._jumped("data", number):
            return
        self.state = State.OPEN if self.state is State.HEARD else self.state
        self._advance(trail)
        if packet.options.fin:
            self._end(number)
        if number < self.next or number in self._buffer:
            self.duplicates += 1
            return
        if number > self.lead:
            if number > self.lead + 1:
                self._repairs.lack(self.lead + 1, number - 1, now)
            self.lead = number
        else:
            self._repairs.got(number)
        self.repaired += packet.kind is PacketType.RDATA
        self._keep(number, packet)
        self._deliver()
        if self._is_over_the_limit:
            self._give_up_oldest_gap()

    def _receive_spm(self, spm: Spm, now: float) -> None:
        """RFC 3208 6.2; an SPM that is older than the last one is ignored."""
        if not self._is_next_spm(spm.number):
            return
        self._take_path(spm.path)
        if spm.options.rst is not None:
            self.close()  # at once, whether repairs are possible or not: [MC-MQSRM] `<3>` on 9.8
            return
        if not has_window(spm):
            return
        lead = unwrap(spm.lead, self.lead)
        if lead > self.lead + JUMP_MAX and not self._jumped("lead", lead + 1):
            return
        self._advance(lead + 1 - distance(spm.lead + 1, spm.trail))
        if lead > self.lead:
            self._repairs.lack(self.lead + 1, lead, now)
            self.lead = lead
        self._deliver()
        if spm.options.fin:
            self._end(lead)

    def _is_next_spm(self, wrapped: int) -> bool:
        if self._spm_number is None:
            self._spm_number = wrapped
            return True
        number = unwrap(wrapped, self._spm_number)
        if number <= self._spm_number or (
            number > self._spm_number + JUMP_MAX and not self._is_confirmed("spm", number)
        ):
            return False
        self._spm_number = number
        return True

    def _take_path(self, path: str) -> None:
        """Where NAKs go; another path counts when two SPMs in a row have it."""
        if path == self.path:
            self._next_path = ""
        elif not self._is_good_path(path):
            return
        elif self.path is None or self._next_path == path:
            self.path, self._next_path = path, ""
        else:
            self._next_path = path

    def _is_good_path(self, path: str) -> bool:
        address = IPv4Address(path)
        if address.is_loopback:
            return self._shared.allow_loopback
        return not (address.is_multicast or address.is_reserved) and int(address) >> 24 != 0

    def _jumped(self, kind: str, number: int) -> bool:
        """Whether a large step is confirmed: then everything before it is lost."""
        if not self._is_confirmed(kind, number):
            return False
        self._clear()
        self._lose(1)
        self._begin_at(number)
        return True

    def _is_confirmed(self, kind: str, number: int) -> bool:
        before = self._jumps.get(kind)
        if before is not None and abs(number - before) <= JUMP_CONFIRMED_WITHIN:
            del self._jumps[kind]
            return True
        self._jumps[kind] = number
        return False

    # The window.

    def _advance(self, trail: int) -> None:
        """The source cannot repair anything before `trail`."""
        if trail <= self.trail or (self._is_constrained and trail <= self._first):
            return
        self._is_constrained = False
        self.trail = trail
        self._repairs.forget_before(trail)
        self.lead = max(self.lead, trail - 1)
        self._deliver()

    def _keep(self, number: int, packet: Data) -> None:
        self._buffer[number] = packet
        if number != self.next:  # otherwise it is delivered at once
            heapq.heappush(self._kept, number)
        self._count(len(packet.payload) + PACKET_COST_BYTES)

    def _count(self, size: int) -> None:
        self._buffered_bytes += size
        self._shared.buffered_bytes += size

    def _deliver(self) -> None:
        while self.next <= self.lead:
            packet = self._buffer.pop(self.next, None)
            if packet is not None:
                self._count(-len(packet.payload) - PACKET_COST_BYTES)
                apdu = self.reassembly.add(packet)
                if apdu is not None:
                    self.delivered.append(apdu)
                if self._kept and self._kept[0] == self.next:
                    heapq.heappop(self._kept)
                self.next += 1
            elif self.next in self._repairs:
                return
            else:
                end = self._end_of_gap()
                self._lose(end - self.next)
                self.next = end

    def _end_of_gap(self) -> int:
        """The first number after `next` that is here, is being repaired, or lies beyond `lead`.

        One packet of a stranger can open a gap of `JUMP_MAX`, so it is not walked number by number.
        """
        here = self._kept[0] if self._kept else self.lead + 1
        repaired = self._repairs.first
        return max(here if repaired is None else min(here, repaired), self.next + 1)

    def _lose(self, count: int) -> None:
        self.lost += count
        self.reassembly.lost()
        if not self.delivered or self.delivered[-1] is not None:
            self.delivered.append(None)

    @property
    def _is_over_the_limit(self) -> bool:
        in_all = self._shared.buffered_bytes > BUFFERED_MAX_BYTES_IN_ALL and bool(self._buffer)
        return self._buffered_bytes > BUFFERED_MAX_BYTES or in_all

    def _give_up_oldest_gap(self) -> None:
        self._repairs.forget_before(self._kept[0])
        self._deliver()

    # The end.

    def _end(self, number: int) -> None:
        """FIN: no number follows this one. RFC 3208 9.7."""
        if self.state is State.HEARD:
            self.close()
        else:
            self.state = State.ENDING
            self._fin = number

    def close(self) -> None:
        self.state = State.CLOSED
        self._clear()

    def _clear(self) -> None:
        self._buffer.clear()
        self._kept.clear()
        self._count(-self._buffered_bytes)
        self._repairs.clear()

    # Time.

    @property
    def missing(self) -> int:
        """How many numbers are being repaired."""
        return len(self._repairs)

    @property
    def next_deadline(self) -> float | None:
        return self._repairs.next_deadline

    def run(self, now: float) -> list[Outgoing]:
        """The NAKs that are due. RFC 3208 6.3."""
        due, lost = self._repairs.run(now)
        output: list[Outgoing] = []
        for at in range(0, len(due), NAK_LIST_MAX + 1):
            numbers = due[at : at + NAK_LIST_MAX + 1]
            if self.path is None:  # no NAK before the first SPM
                self._repairs.postponed(numbers, now + _NO_PATH_RETRY_S)
            elif self._may_ask(now):
                output += self._nak(numbers, self.path)
                self._repairs.asked(numbers, now)
            else:
                self._repairs.postponed(numbers, now + 1 / NAKS_A_SECOND)
        if lost:
            self._deliver()
        if self._fin is not None and self.next > self._fin:
            self.close()
        return output

    def _may_ask(self, now: float) -> bool:
        return self._nak_bucket.take(1, now) and self._shared.naks.take(1, now)

    def _nak(self, numbers: list[int], path: str) -> list[Outgoing]:
        first, *others = map(wrap, numbers)
        options = Options(nak_list=tuple(others))
        data = encode(Nak(PacketType.NAK, self.tsi, self.port, first, self.address, self.group, options))
        self.naks += 1
        to_group = [Outgoing(self.group, data, one_hop=True)] if self._settings.multicast_naks else []
        return [Outgoing(path, data), *to_group]
