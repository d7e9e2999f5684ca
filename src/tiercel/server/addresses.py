"""The names and addresses of this computer."""

import array
import fcntl
import ipaddress
import socket
import struct
from pathlib import Path
from typing import Final

from tiercel.server.config import Config

_SIOCGIFCONF: Final = 0x8912
_IFREQ: Final = struct.Struct("16s2x2x4s16x")  # struct ifreq of 64-bit Linux, with an IPv4 address
_MAX_INTERFACES: Final = 4096


def own_names(config: Config) -> tuple[str, ...]:
    """The configured names and the listening addresses; every local address if one is a wildcard."""
    hosts = [config.listen.host, *([config.srmp.host] if config.srmp.enabled else [])]
    if config.tls.endpoint is not None:
        hosts.append(config.tls.endpoint.host)
    names = [*config.node.names, *hosts]
    if any(map(_is_wildcard, hosts)):
        names += ["127.0.0.1", "::1", *_ipv4(), *_ipv6()]
    return tuple(dict.fromkeys(names))


def _is_wildcard(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def source_address(own: str, other: str) -> tuple[str, int] | None:
    """Where to connect from: the address that we listen on, because peers know us by it; None for any."""
    try:
        ours, theirs = ipaddress.ip_address(own), ipaddress.ip_address(other)
    except ValueError:
        return None
    if ours.is_unspecified or ours.version != theirs.version or ours.is_loopback != theirs.is_loopback:
        return None  # any source address will do, or ours cannot reach the peer
    return str(ours), 0


def _ipv4() -> list[str]:
    buffer = array.array("B", bytes(_IFREQ.size * _MAX_INTERFACES))
    address, size = buffer.buffer_info()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        answer = fcntl.ioctl(asked, _SIOCGIFCONF, struct.pack("iL", size, address))
    length = struct.unpack("iL", answer)[0]
    data = buffer.tobytes()[:length]
    return [socket.inet_ntoa(packed) for _, packed in _IFREQ.iter_unpack(data)]


def _ipv6() -> list[str]:
    try:
        lines = Path("/proc/net/if_inet6").read_text("ascii").splitlines()
    except OSError:
        return []
    return [str(ipaddress.IPv6Address(int(line.split()[0], 16))) for line in lines]
