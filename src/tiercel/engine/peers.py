"""The last known addresses of the senders of transactional messages, for acknowledgements much later."""

from collections.abc import Callable, Iterator
from uuid import UUID

from tiercel.engine.core import Core
from tiercel.store.interface import Keyspace

_DIRECT = b"D"
_ROUTED = b"R"
STRANGERS_KEPT = 10_000  # beyond it, nothing is stored of senders whose messages are refused or routed


class Peers:
    def __init__(self, core: Core) -> None:
        self._core = core
        self._known: dict[UUID, tuple[str, bool]] = {}
        self._is_connected: Callable[[UUID, str], bool] = lambda _peer, _address: False
        self._moved: Callable[[UUID, str, str], None] = lambda _peer, _before, _address: None

    def watch(
        self, *, is_connected: Callable[[UUID, str], bool], moved: Callable[[UUID, str, str], None]
    ) -> None:
        """A transport says whether a peer has a session at an address, and hears of changed addresses."""
        self._is_connected, self._moved = is_connected, moved

    def learn(self, peer: UUID, address: str, *, is_direct: bool) -> None:
        """`is_direct`: it reaches us by direct names, so that acknowledgements take that form.

        The address is empty when its messages come through others. Anybody can claim to be the peer, so its
        address does not change while it is connected.
        """
        known = self._find(peer)
        if not address and known is not None:
            return  # an address that the sender itself used is better than none
        if known is None and not address and self._core.batch.count(Keyspace.PEERS) >= STRANGERS_KEPT:
            return  # there are too many senders without an address already
        before = "" if known is None else known[0]
        if before and before != address:
            self._moved(peer, before, address)
            if self._is_connected(peer, before):
                return
        if known != (address, is_direct):
            self._known[peer] = (address, is_direct)
            value = (_DIRECT if is_direct else _ROUTED) + address.encode()
            self._core.batch.put(Keyspace.PEERS, peer.bytes, value)

    def all(self) -> Iterator[tuple[UUID, str, bool]]:
        """Each peer, its address, and whether it reaches us by direct names."""
        for key, data in self._core.batch.range(Keyspace.PEERS, b"", b"\xff" * 17):
            yield UUID(bytes=key), *_decode(data)

    def forget(self, peer: UUID) -> bool:
        """Forget the address of a peer; False if it is not known."""
        if not self.knows(peer):
            return False
        del self._known[peer]
        self._core.batch.delete(Keyspace.PEERS, peer.bytes)
        return True

    def is_too_many(self, peer: UUID) -> bool:
        """Whether the peer is unknown, and so many are known that a refused one should not be added."""
        return not self.knows(peer) and self._core.batch.count(Keyspace.PEERS) >= STRANGERS_KEPT

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
            found = self._known[peer] = _decode(data)
        return found


def _decode(data: bytes) -> tuple[str, bool]:
    return data[1:].decode(errors="replace"), data[:1] == _DIRECT
