"""What the configuration says about other queue managers: `[[peers]]`, `[machines]`, the routing servers.

A GUID in a packet proves nothing: anybody can claim it. A peer that is listed with its GUID and its addresses
is pinned: no other address may use the GUID. A peer that is listed with `tls` proves its GUID by a
certificate: no session without one may use it, and its address says nothing.
"""

import ipaddress
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from uuid import UUID

from tiercel.binary.certificate import Certificate
from tiercel.binary.settings import Peer, Settings
from tiercel.model.identifiers import NULL_GUID
from tiercel.wire.order_ack import without_port

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class PeerTable:
    """Names are looked up by the owner, which tells the answers with `resolved`."""

    def __init__(self, settings: Settings) -> None:
        self._resolved: dict[str, frozenset[Address]] = {}
        self.change(settings)

    def change(self, settings: Settings) -> None:
        routers = settings.in_routing_servers
        self._routers = _Places.of(settings.out_routing_servers if routers is None else routers)
        self._only_peers = settings.only_peers
        self._peers = [(peer, _Places.of(peer.addresses)) for peer in settings.peers]
        self._machines = {guid: _Places.of(hosts) for guid, hosts in settings.machines.items()}
        self._by_guid = {peer.guid: peer for peer, _ in self._peers if peer.guid is not None}
        self._pinned = {
            peer.guid: places
            for peer, places in self._peers
            if peer.guid is not None and peer.tls is None and not places.is_empty
        }
        self._tls = {guid: peer for guid, peer in self._by_guid.items() if peer.tls is not None}
        self._tls_places = [(peer, _tls_places(peer)) for peer in self._tls.values()]

    @property
    def names(self) -> Iterator[str]:
        """The names to look up."""
        of_peers = (places for _, places in self._peers)
        of_tls = (places for _, places in self._tls_places)
        for places in (self._routers, *of_peers, *of_tls, *self._machines.values()):
            yield from places.names

    def resolved(self, host: str, addresses: list[str]) -> None:
        """Take the answer of a lookup; after a failed one, the last answer counts."""
        name = host.casefold()
        if addresses and name in self.names:
            self._resolved[name] = frozenset(filter(None, map(_address, addresses)))

    def is_router(self, address: str) -> bool:
        """Whether messages and acknowledgements of other queue managers may come from the address."""
        return not self._routers.is_empty and self._has(self._routers, address)

    @property
    def has_unknown_routers(self) -> bool:
        """Whether the name of a routing server was not looked up with success so far."""
        return any(name not in self._resolved for name in self._routers.names)

    def is_pinned(self, guid: UUID) -> bool:
        """Whether sessions of the queue manager are accepted with a proof only: its addresses, or TLS."""
        return guid in self._pinned or guid in self._tls

    def is_configured(self, guid: UUID, address: str) -> bool:
        """Whether the configuration gives the queue manager this address."""
        places = self._pinned.get(guid) or self._machines.get(guid)
        return places is not None and self._has(places, address)

    def refusal(self, guid: UUID, address: str, certificate: Certificate | None = None) -> str:
        """Why a peer that connects to us is refused; empty if it is welcome."""
        is_peer = (
            guid in self._tls
            or (certificate is not None and guid in self._by_guid)
            or any(self._is(peer, places, guid, address) for peer, places in self._peers)
        )
        if self._only_peers and not is_peer:
            return "only the queue managers of [[peers]] are accepted"
        return self.pin_violation(guid, address, certificate=certificate)

    def may_be_peer(self, address: str) -> bool:
        """Whether anybody at the address can be welcome; who it is, is not known yet."""
        if not self._only_peers:
            return True
        return any(places.is_empty or self._has(places, address) for _, places in self._peers)

    def refusal_of(self, senders: set[UUID], address: str) -> str:
        """Why a message over HTTP is refused that says it is of these queue managers; empty if it is not.

        A router may bring messages of others, but not of those that have to use TLS.
        """
        if not self._peers and not self._only_peers:
            return ""
        if reason := next(filter(None, map(self.proof_violation, senders)), ""):
            return reason
        if self.is_router(address):
            return ""
        refusals = (self.refusal(guid, address) for guid in senders or {NULL_GUID})
        return next(filter(None, refusals), "")

    def pin_violation(
        self, guid: UUID, address: str, host: str = "", certificate: Certificate | None = None
    ) -> str:
        """Why the GUID may not be used by the address, or by the host that we dialled; empty if it may."""
        reason = self.proof_violation(guid, certificate)
        if reason or certificate is not None:  # a proof counts from anywhere
            return reason
        places = self._pinned.get(guid)
        if places is None or self._has(places, address, host):
            return ""
        return f"{guid} is pinned to other addresses in [[peers]]"

    # TLS.

    @property
    def tls_guids(self) -> Collection[UUID]:
        """The queue managers that have to prove who they are, so that nobody may speak for them."""
        return self._tls.keys()

    def proof_violation(self, guid: UUID, certificate: Certificate | None = None) -> str:
        """Why the certificate, or none, does not prove the GUID; empty if it does, or none is required."""
        peer = self._by_guid.get(guid)
        if certificate is None:
            return "" if guid not in self._tls else f"{guid} must use TLS, says [[peers]]"
        if peer is not None and peer.fingerprint:
            if certificate.fingerprint == peer.fingerprint:
                return ""
            return f"the certificate is not that of {guid}: its fingerprint is {certificate.fingerprint}"
        return "" if guid in certificate.guids else f"the certificate does not name urn:uuid:{guid}"

    def tls_peer(self, guid: UUID | None, host: str = "") -> Peer | None:
        """The peer to dial over TLS for the GUID, or for the host; None if that is reached without TLS."""
        if guid is not None and guid in self._tls:
            return self._tls[guid]
        return self._only_peer(host)

    def tls_peer_at(self, addresses: list[str]) -> Peer | None:
        """The same for the addresses of a host, which may be another name of the peer."""
        found = (self._only_peer(address) for address in addresses)
        return next((peer for peer in found if peer is not None), None)

    def _only_peer(self, host: str) -> Peer | None:
        """The peer that has the name or address; None if several do, behind one router for example."""
        found = [
            peer
            for peer, places in self._tls_places
            if host and (host.casefold() == peer.name.casefold() or self._has(places, host))
        ]
        return found[0] if len(found) == 1 else None

    def _is(self, peer: Peer, places: "_Places", guid: UUID, address: str) -> bool:
        return peer.guid in {None, guid} and (places.is_empty or self._has(places, address))

    def _has(self, places: "_Places", address: str, host: str = "") -> bool:
        known = _address(address)
        if known is not None and any(known in network for network in places.networks):
            return True
        if host.casefold() in places.names or address.casefold() in places.names:
            return True
        return any(known in self._resolved.get(name, ()) for name in places.names)


@dataclass(frozen=True, slots=True)
class _Places:
    """Names, addresses and networks."""

    names: tuple[str, ...] = ()
    networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] = field(default=())

    @classmethod
    def of(cls, texts: Iterable[str]) -> "_Places":
        names, networks = [], []
        for text in texts:
            try:
                networks.append(ipaddress.ip_network(text, strict=False))
            except ValueError:
                names.append(text.casefold())
        return cls(tuple(names), tuple(networks))

    @property
    def is_empty(self) -> bool:
        return not self.names and not self.networks


def _tls_places(peer: Peer) -> _Places:
    """The names and single addresses by which we send to the peer; other computers may share a network."""
    assert peer.tls is not None
    places = _Places.of((peer.tls[0], *peer.addresses))
    single = tuple(each for each in places.networks if each.prefixlen == each.max_prefixlen)
    return _Places(places.names, single)


def _address(text: str) -> Address | None:
    try:
        address = ipaddress.ip_address(without_port(text))
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address
