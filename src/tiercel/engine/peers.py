"""The last known addresses of the senders of transactional messages, for acknowledgements much later."""

from uuid import UUID

from tiercel.engine.core import Core
from tiercel.store.interface import Keyspace

_DIRECT = b"D"
_ROUTED = b"R"
_STRANGERS_KEPT = 10_000


class Peers:
    def __init__(self, core: Core) -> None:
        self._core = core
        self._known: dict[UUID, tuple[str, bool]] = {}

    def learn(self, peer: UUID, address: str, *, is_direct: bool) -> None:
        """`is_direct`: it reaches us by direct names, so that acknowledgements take that form.

        The address is empty when its messages come through others.
        """
        known = self._find(peer)
        if not address and known is not None:
            return  # an address that the sender itself used is better than none
        if known is None and not address and self._core.batch.count(Keyspace.PEERS) >= _STRANGERS_KEPT:
            return  # there are too many senders without an address already
        if known != (address, is_direct):
            self._known[peer] = (address, is_direct)
            value = (_DIRECT if is_direct else _ROUTED) + address.encode()
            self._core.batch.put(Keyspace.PEERS, peer.bytes, value)

    def knows(self, peer: UUID) -> bool:
        return self._find(peer) is not None

    def address(self, peer: UUID) -> str | None:
        found = self._find(peer)
        return None if found is None else found[0] or None

    def seen(self, peer: UUID) -> str | None:
        """The same without reading the store: None for a peer that was silent since the start."""
        found = self._known.get(peer)
        return None if found is None else found[0] or None

    def direct_address(self, peer: UUID) -> str | None:
        found = self._find(peer)
        return found[0] or None if found is not None and found[1] else None

    def _find(self, peer: UUID) -> tuple[str, bool] | None:
        found = self._known.get(peer)
        if found is None and (data := self._core.batch.get(Keyspace.PEERS, peer.bytes)):
            found = self._known[peer] = (data[1:].decode(errors="replace"), data[:1] == _DIRECT)
        return found
