"""The sockets of multicast: raw IP, or UDP where that is not allowed.

Raw PGM is IP protocol 113 and needs CAP_NET_RAW. Its socket returns whole IP packets, of every PGM session on
the computer. Encapsulated in UDP, a datagram is the PGM packet; group and unicast use the same port.
"""

import asyncio
import contextlib
import errno
import logging
import os
import socket
import struct
from collections import Counter
from collections.abc import Callable
from typing import Final

from tiercel.pgm.actions import Action, Join, Leave, MulticastEvent
from tiercel.pgm.outputs import Outgoing
from tiercel.pgm.packet import IP_PROTOCOL
from tiercel.pgm.protocol import MulticastProtocol
from tiercel.server import log
from tiercel.server.config import Endpoint, MulticastOptions

_ROUTER_ALERT: Final = bytes.fromhex("94040000")  # RFC 2113
_ALERTING: Final = [(socket.IPPROTO_IP, socket.IP_RETOPTS, _ROUTER_ALERT)]
_ONE_HOP: Final = [(socket.IPPROTO_IP, socket.IP_TTL, struct.pack("i", 1))]
_IP_PKTINFO: Final = 8  # Linux; Python has names for these from 3.14 on
_IP_MTU_DISCOVER: Final = 10
_IP_PMTUDISC_DO: Final = 2
_SO_RCVBUFFORCE: Final = 33
_RECEIVE_BUFFER_BYTES: Final = 8 << 20  # bursts of a source; the kernel may give less
_PACKETS_A_TURN: Final = 256
_PACKET_MAX_BYTES: Final = 65_535

Received = tuple[bytes, str, str]  # a PGM packet, its sender, and where it was sent to
Put = Callable[..., None]


class MulticastNetwork:
    """`put(feed, argument, size)` calls `feed(argument)` in the next batch; `protocol` is set later."""

    protocol: MulticastProtocol

    def __init__(self, options: MulticastOptions, put: Put) -> None:
        """Raises an `OSError` when the sockets cannot be opened."""
        self.put = put
        self.options = options
        self.failures: Counter[str] = Counter()  # packets that could not be sent, by error
        self.groups: set[str] = set()
        self._is_udp = options.transport == "udp"
        self.address = options.interface or _default_interface()
        self._socket = self._open()
        self._log = {
            "lost": log.Repeated("multicast_lost", level=logging.WARNING),
            "dropped": log.Repeated("multicast_dropped", level=logging.WARNING),
            "failed": log.Repeated("multicast_send_failed", level=logging.WARNING),
        }

    def _open(self) -> socket.socket:
        kind = (socket.SOCK_DGRAM, 0) if self._is_udp else (socket.SOCK_RAW, IP_PROTOCOL)
        opened = socket.socket(socket.AF_INET, kind[0] | socket.SOCK_NONBLOCK, kind[1])
        try:
            if self._is_udp:
                opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                opened.setsockopt(socket.IPPROTO_IP, _IP_PKTINFO, 1)
                opened.bind(("", self.options.udp_port))
            opened.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(self.address))
            opened.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, self.options.ttl)
            opened.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)  # for our own queues
            opened.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _IP_PMTUDISC_DO)
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
            with contextlib.suppress(OSError):  # needs CAP_NET_ADMIN
                opened.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BUFFER_BYTES)
        except OSError:
            opened.close()
            raise
        return opened

    def listen(self) -> Endpoint:
        asyncio.get_running_loop().add_reader(self._socket, self._readable)
        return Endpoint(self.address, self.options.udp_port if self._is_udp else 0)

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()

    # Receiving.

    def _readable(self) -> None:
        arrived: list[Received] = []
        receive = self._receive_datagram if self._is_udp else self._receive_ip
        for _ in range(_PACKETS_A_TURN):
            try:
                packet = receive()
            except BlockingIOError:
                break
            except OSError as problem:
                self._log["failed"](_name(problem))
                break
            if packet[2] in self.groups or packet[2] == self.address:
                arrived.append(packet)
        if arrived:
            self.put(self._feed, arrived, sum(len(packet[0]) for packet in arrived))

    def _receive_ip(self) -> Received:
        packet = self._socket.recv(_PACKET_MAX_BYTES)
        start = (packet[0] & 0x0F) * 4
        return packet[start:], socket.inet_ntoa(packet[12:16]), socket.inet_ntoa(packet[16:20])

    def _receive_datagram(self) -> Received:
        data, ancillary, _, (address, _) = self._socket.recvmsg(_PACKET_MAX_BYTES, 64)
        for level, kind, value in ancillary:
            if level == socket.IPPROTO_IP and kind == _IP_PKTINFO:
                return data, address, socket.inet_ntoa(value[8:12])
        return data, address, ""

    def _feed(self, arrived: list[Received]) -> None:
        for packet in arrived:
            self.protocol.received(*packet)

    # Actions of the protocol, after the commit.

    def perform(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Outgoing):
                self._send(action)
            elif isinstance(action, Join):
                self._change_group(action.group, socket.IP_ADD_MEMBERSHIP)
                self.groups.add(action.group)
            elif isinstance(action, Leave):
                self._change_group(action.group, socket.IP_DROP_MEMBERSHIP)
                self.groups.discard(action.group)
            elif isinstance(action, MulticastEvent):
                self._log[action.event](action.reason, address=action.address, group=action.queue)

    def _send(self, packet: Outgoing) -> None:
        """A packet that the kernel does not take is lost like any other: receivers ask for it again."""
        to = (packet.address, self.options.udp_port if self._is_udp else 0)
        try:
            if packet.router_alert and not self._is_udp:
                self._socket.sendmsg([packet.data], _ALERTING, 0, to)
            elif packet.one_hop:
                self._socket.sendmsg([packet.data], _ONE_HOP, 0, to)
            else:
                self._socket.sendto(packet.data, to)
        except OSError as problem:
            self.failures[errno.errorcode.get(problem.errno or 0, "unknown").lower()] += 1
            self._log["failed"](_name(problem), address=packet.address)

    def _change_group(self, group: str, how: int) -> None:
        request = socket.inet_aton(group) + socket.inet_aton(self.address)
        try:
            self._socket.setsockopt(socket.IPPROTO_IP, how, request)
        except OSError as problem:
            log.warning("multicast_group_failed", group=group, reason=_name(problem))


def why_unavailable(problem: OSError, options: MulticastOptions) -> str:
    """For the one line in the log."""
    if problem.errno == errno.EPERM and options.transport == "raw":
        return 'raw IP needs CAP_NET_RAW. Grant it, or set [multicast] transport = "udp"'
    return f"{_name(problem)}. Check [multicast] interface, {options.interface or 'which is not set'}"


def _default_interface() -> str:
    """The address of the interface that multicasts leave by."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("234.0.0.1", 9))
        address: str = probe.getsockname()[0]
        return address


def _name(problem: OSError) -> str:
    return os.strerror(problem.errno) if problem.errno else str(problem)
