"""What the two ends of a session ask of the owner of the sockets."""

from typing import NamedTuple


class Outgoing(NamedTuple):
    """A packet for `address`, the group or a host."""

    address: str
    data: bytes
    router_alert: bool = False  # SPM, NCF and RDATA have the IP option. RFC 3208 8
    one_hop: bool = False  # TTL 1
