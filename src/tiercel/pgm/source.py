"""The source of a transport session: sends APDUs, and repairs them. RFC 3208 5, [MC-MQSRM] 2.1.3.1.

The window `trail..lead` has the packets that can still be repaired. Time moves its trailing edge, and NAKs do
not hold it, except that it waits for repairs that are pending: Windows' departure from RFC 3208 2.1 and 16.1.
NCFs are answered at once; SPMs, RDATA and ODATA share the rate.
"""

import heapq
from collections import deque
from collections.abc import Iterator
from enum import Enum, auto
from typing import NamedTuple, TypeVar

from tiercel.pgm.limits import NCFS_A_SECOND, OUTSIDE_SPMS_A_SECOND, PACKET_COST_BYTES, SAME_REPAIR_S
from tiercel.pgm.outputs import Outgoing
from tiercel.pgm.packet import (
    FRAGMENT_BYTES,
    HEADER_BYTES,
    NO_MORE_REPAIRS,
    NO_OPTIONS,
    Data,
    Fragment,
    Nak,
    Options,
    PacketType,
    Spm,
    Tsi,
    encode,
)
from tiercel.pgm.sequence import unwrap, wrap
from tiercel.pgm.settings import Settings
from tiercel.pgm.token_bucket import TokenBucket

IP_BYTES = 20
ROUTER_ALERT_BYTES = 4
_LAST_SPMS = 3  # copies of the FIN or RST that ends a session
_LAST_SPMS_EVERY_S = 0.1
_FIN = Options(fin=True)
_RST = Options(rst=NO_MORE_REPAIRS)


class State(Enum):
    IDLE = auto()  # nothing sent yet
    ACTIVE = auto()
    FINISHING = auto()  # closed: FIN in every SPM, repairs go on
    RESETTING = auto()  # aborted: RST, no repairs
    GONE = auto()


class Sent(NamedTuple):
    payload: bytes
    options: Options
    at: float


Key = TypeVar("Key")


def _recent(times: dict[Key, float], now: float) -> dict[Key, float]:
    return {key: at for key, at in times.items() if now - at < SAME_REPAIR_S}


class Source:
    def __init__(
        self, tsi: Tsi, group: str, port: int, address: str, settings: Settings, now: float, first: int = 0
    ) -> None:
        """`address` is that of our interface; `first` is the number of the first packet."""
        self.tsi, self.group, self.port, self.address = tsi, group, port, address
        self.state = State.IDLE
        self.trail, self.lead = first, first - 1
        self.originals = self.repairs = self.naks = 0  # packets, since the start
        self.submitted_bytes = 0  # and not withdrawn
        self._settings = settings
        self._store: dict[int, Sent] = {}
        self._stored_bytes = 0
        self._is_full = False  # until the repair of the oldest packet has been sent
        self._first = first  # packet of the APDU that is being sent
        self._waiting: deque[tuple[bytes, tuple[int, int] | None]] = deque()
        self._waiting_bytes = 0
        self._output: list[Outgoing] = []
        bucket = max(settings.rate_bytes_s * settings.bucket_s, settings.packet_bytes)
        self._bucket = TokenBucket(settings.rate_bytes_s, bucket, now)
        self._ncf_bucket = TokenBucket(NCFS_A_SECOND, NCFS_A_SECOND, now)
        self._outside_bucket = TokenBucket(OUTSIDE_SPMS_A_SECOND, 1, now)
        self._pending: dict[int, float] = {}  # numbers to repair -> when
        self._due: list[tuple[float, int]] = []  # the same as a heap
        self._answered: dict[tuple[int, ...], float] = {}  # lists that had their NCF -> when
        self._repaired: dict[int, float] = {}  # numbers that were repaired a moment ago -> when
        self._next_is_repair: bool | None = None  # None unless both wait
        self._shares = [0, 0]  # bytes of ODATA and RDATA while both wait
        self._spm_number = 0
        self._spm_wanted = True  # one before the first data: a receiver then knows where we start
        self._last_spms = 0
        self._last_spm_at = now
        self._packets_since_spm = 0
        self._ambient_at: float | None = now + settings.ambient_s if settings.ambient_s else None
        self._heartbeat_s = settings.heartbeat_min_s
        self._heartbeat_at: float | None = None
        self._advance_at = now + settings.advance_interval_s

    # Inputs.

    def submit(self, apdu: bytes) -> None:
        """Queue an APDU of 1 to 65,535 bytes."""
        assert self.state in {State.IDLE, State.ACTIVE}
        self.state = State.ACTIVE
        room = self._settings.packet_bytes - IP_BYTES - ROUTER_ALERT_BYTES - HEADER_BYTES
        if len(apdu) <= room:
            self._waiting.append((apdu, None))
        else:
            # The router alert of a repair counts, too: a repair must not be larger than a packet may be.
            room -= FRAGMENT_BYTES
            for offset in range(0, len(apdu), room):
                self._waiting.append((apdu[offset : offset + room], (offset, len(apdu))))
        self._waiting_bytes += len(apdu)
        self.submitted_bytes += len(apdu)

    def withdraw(self) -> int:
        """Cancel the APDUs of which nothing was sent; returns how many."""
        count = 0
        kept: deque[tuple[bytes, tuple[int, int] | None]] = deque()
        for payload, place in self._waiting:
            is_rest = place is not None and place[0] > 0
            if is_rest and not count:
                kept.append((payload, place))
            else:
                count += not is_rest
        kept_bytes = sum(len(payload) for payload, _ in kept)
        self.submitted_bytes -= self._waiting_bytes - kept_bytes
        self._waiting, self._waiting_bytes = kept, kept_bytes
        return count

    def receive(self, nak: Nak, now: float) -> None:
        """RFC 3208 5.2 and 5.3; a NAK comes as unicast and to the group, so expect each twice."""
        ours = (self.tsi, self.port, self.group, self.address)
        if nak.kind is not PacketType.NAK or (nak.tsi, nak.port, nak.group, nak.source) != ours:
            return
        if self.state not in {State.ACTIVE, State.FINISHING}:
            return
        self.naks += 1
        numbers = [unwrap(number, self.lead) for number in nak.numbers]
        wanted = [number for number in numbers if number in self._store]
        if not wanted:
            # Outside the window there is no NCF in Windows; an SPM shows the receiver where the window is.
            self._spm_wanted = self._spm_wanted or self._outside_bucket.take(1, now)
            return
        self._confirm(nak, now)
        for number in wanted:
            if number not in self._pending and now - self._repaired.get(number, -1.0) >= SAME_REPAIR_S:
                self._pending[number] = now + self._repair_delay(number)
                heapq.heappush(self._due, (self._pending[number], number))

    def _confirm(self, nak: Nak, now: float) -> None:
        """An NCF, at once. Windows has no defence against floods of NAKs; the limits are ours (SRMP-190)."""
        if now - self._answered.get(nak.numbers, -1.0) < SAME_REPAIR_S:
            return
        if not self._ncf_bucket.take(1, now):
            return
        if len(self._answered) >= NCFS_A_SECOND:
            self._answered = _recent(self._answered, now)
        self._answered[nak.numbers] = now
        ncf = nak._replace(kind=PacketType.NCF)
        self._output.append(Outgoing(self.group, encode(ncf), router_alert=True))

    def _repair_delay(self, number: int) -> float:
        """[MC-MQSRM] 2.1.3.1: the older, the sooner."""
        return (number - self.trail) * self._settings.repair_delay_s / (self.lead - self.trail + 1)

    def close(self) -> None:
        """Send what is queued, then end; repairs go on as long as the window has data. RFC 3208 9.7."""
        if self.state in {State.IDLE, State.ACTIVE}:
            self.state = State.FINISHING
            self._last_spms = _LAST_SPMS
            self._spm_wanted = True

    def abort(self) -> None:
        """Cancel what is queued, and answer no more NAKs. RFC 3208 9.8, with the N bit as Windows has it."""
        if self.state is State.GONE:
            return
        self._waiting.clear()
        self._waiting_bytes = 0
        self._pending.clear()
        self._due.clear()
        self._last_spms = 0 if self.state is State.IDLE else _LAST_SPMS
        self.state = State.GONE if self.state is State.IDLE else State.RESETTING
        self._spm_wanted = True

    def last_words(self) -> list[Outgoing]:
        """The queue manager ends: three FIN SPMs at once, and no time for repairs."""
        self.state = State.GONE
        return [self._spm(_FIN) for _ in range(_LAST_SPMS)]

    # The state, for the holder.

    @property
    def waiting_bytes(self) -> int:
        """Application data that has not been sent yet."""
        return self._waiting_bytes

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits, and nothing can be repaired any more."""
        return not self._waiting and not self._store

    @property
    def window_bytes(self) -> int:
        return self._stored_bytes

    # Time.

    def run(self, now: float) -> list[Outgoing]:
        """The packets that may leave now."""
        if now >= self._advance_at:
            self._advance(now)
            while self._advance_at <= now:
                self._advance_at += self._settings.advance_interval_s
        self._send_spms(now)
        self._send_data(now)
        self._send_spms(now)
        if self.state is State.FINISHING and self.is_empty and not self._last_spms:
            self.state = State.GONE
        output, self._output = self._output, []
        return output

    @property
    def next_deadline(self) -> float | None:
        if self.state is State.GONE:
            return None
        return min(self._deadlines())

    def _deadlines(self) -> Iterator[float]:
        yield self._advance_at
        if self._spm_wanted:  # everything else waits for it
            yield self._bucket.ready_at(self._spm_bytes)
            return
        if self._ambient_at is not None:
            yield self._ambient_at
        if self._heartbeat_at is not None:
            yield self._heartbeat_at
        if self._last_spms and not self._waiting:
            yield self._last_spm_at + _LAST_SPMS_EVERY_S
        if self._due and self._next_is_repair is not False:
            yield max(self._due[0][0], self._bucket.ready_at(self._repair_bytes(self._due[0][1])))
        if self._waiting and self._next_is_repair is not True and not self._is_full:
            yield self._bucket.ready_at(self._original_bytes(self._waiting[0]))

    # The window.

    def _advance(self, now: float) -> None:
        """Every TXW_ADV_IVL: drop what is older than TXW_SECS - TXW_ADV_SECS."""
        kept_s = self._settings.window_s - self._settings.advance_interval_s
        while self.trail <= self.lead and now - self._store[self.trail].at >= kept_s:
            if self.trail in self._pending:
                return  # SRMP-189; _repair goes on
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        sent = self._store.pop(self.trail)
        self._stored_bytes -= len(sent.payload) + PACKET_COST_BYTES
        self._repaired.pop(self.trail, None)
        self.trail += 1

    def _make_room(self, size: int) -> bool:
        """The window may not take more memory than it is given: it then advances before its time."""
        while self._stored_bytes + size > self._settings.window_bytes and self._store:
            if self.trail in self._pending:
                self._is_full = True
                return False
            self._drop_oldest()
        return True

    # SPMs.

    @property
    def _spm_bytes(self) -> int:
        return IP_BYTES + ROUTER_ALERT_BYTES + 36 + (8 if self._last_spms else 0)

    def _send_spms(self, now: float) -> None:
        """Ambient SPMs by count and by time, heartbeats after data, and the last ones. RFC 3208 5.1.4."""
        settings = self._settings
        if self._ambient_at is not None and (
            now >= self._ambient_at or self._packets_since_spm >= settings.ambient_packets
        ):
            self._ambient_at = now + settings.ambient_s
            self._spm_wanted = True
        if self._heartbeat_at is not None and now >= self._heartbeat_at:
            self._heartbeat_s = min(self._heartbeat_s * 2, settings.heartbeat_max_s)
            self._heartbeat_at = now + self._heartbeat_s
            self._spm_wanted = True
        if self._last_spms and not self._waiting and now >= self._last_spm_at + _LAST_SPMS_EVERY_S:
            self._spm_wanted = True
        if not self._spm_wanted or self.state is State.GONE or not self._bucket.take(self._spm_bytes, now):
            return
        self._spm_wanted = False
        self._packets_since_spm = 0
        self._last_spm_at = now
        is_ending = self.state is State.FINISHING and not self._waiting
        if self.state is State.RESETTING:
            self._output.append(self._spm(_RST))
            self._last_spms -= 1
            if not self._last_spms:
                self.state = State.GONE
        else:
            self._output.append(self._spm(_FIN if is_ending else NO_OPTIONS))
            self._last_spms -= 1 if is_ending and self._last_spms else 0

    def _spm(self, options: Options) -> Outgoing:
        spm = Spm(
            self.tsi,
            self.port,
            wrap(self._spm_number),
            wrap(self.trail),
            wrap(self.lead),
            self.address,
            options,
        )
        self._spm_number += 1
        return Outgoing(self.group, encode(spm), router_alert=True)

    # Data.

    def _send_data(self, now: float) -> None:
        """RDATA that is due and ODATA, half and half while both wait."""
        if self.state not in {State.ACTIVE, State.FINISHING}:
            return
        while True:
            is_due = bool(self._due) and self._due[0][0] <= now
            if self._spm_wanted or not (is_due or self._waiting):
                return
            if is_due and self._waiting and not self._is_full:
                self._next_is_repair = self._shares[1] <= self._shares[0]
            else:
                self._next_is_repair = None
                self._shares = [0, 0]
            repair = is_due if self._next_is_repair is None else self._next_is_repair
            if not (self._repair(now) if repair else self._send_original(now)):
                return
            if self._packets_since_spm >= self._settings.ambient_packets:
                self._send_spms(now)

    def _original_bytes(self, waiting: tuple[bytes, tuple[int, int] | None]) -> int:
        payload, place = waiting
        return IP_BYTES + HEADER_BYTES + len(payload) + (FRAGMENT_BYTES if place is not None else 0)

    def _send_original(self, now: float) -> bool:
        payload, place = self._waiting[0]
        size = self._original_bytes(self._waiting[0])
        if not self._make_room(len(payload) + PACKET_COST_BYTES) or not self._bucket.take(size, now):
            return False
        self._waiting.popleft()
        self._waiting_bytes -= len(payload)
        number = self.lead = self.lead + 1
        options = NO_OPTIONS
        if place is not None:
            offset, length = place
            self._first = number if offset == 0 else self._first
            options = Options(Fragment(wrap(self._first), offset, length))
        self._store[number] = Sent(payload, options, now)
        self._stored_bytes += len(payload) + PACKET_COST_BYTES
        data = Data(PacketType.ODATA, self.tsi, self.port, wrap(number), wrap(self.trail), payload, options)
        self._sent(Outgoing(self.group, encode(data)), now)
        self.originals += 1
        self._shares[0] += size
        return True

    def _repair_bytes(self, number: int) -> int:
        sent = self._store[number]
        fragment = FRAGMENT_BYTES if sent.options.fragment is not None else 0
        return IP_BYTES + ROUTER_ALERT_BYTES + HEADER_BYTES + fragment + len(sent.payload)

    def _repair(self, now: float) -> bool:
        number = self._due[0][1]
        sent = self._store[number]
        size = self._repair_bytes(number)
        if not self._bucket.take(size, now):
            return False
        heapq.heappop(self._due)
        del self._pending[number]
        if len(self._repaired) >= NCFS_A_SECOND:
            self._repaired = _recent(self._repaired, now)
        self._repaired[number] = now
        data = Data(
            PacketType.RDATA, self.tsi, self.port, wrap(number), wrap(self.trail), sent.payload, sent.options
        )
        self._sent(Outgoing(self.group, encode(data), router_alert=True), now)
        self.repairs += 1
        self._shares[1] += size
        if number == self.trail:  # the last advance may have waited for this repair
            self._is_full = False
            self._advance(self._advance_at - self._settings.advance_interval_s)
        return True

    def _sent(self, packet: Outgoing, now: float) -> None:
        self._output.append(packet)
        self._packets_since_spm += 1
        self._heartbeat_s = self._settings.heartbeat_min_s
        self._heartbeat_at = now + self._heartbeat_s
