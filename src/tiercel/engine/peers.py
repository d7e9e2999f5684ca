"""The last known addresses of the senders of transactional messages, for acknowledgements much later."""

from collections.abc import Callable, Iterator
from uuid import UUID

from tiercel.engine.core import Core
from tiercel.store.interface import Keyspace

_DIRECT = b"D"
_ROUTED = b"R"
STRANGERS_KEPT = 10_000  # beyond it, nothing is stored of senders whose messages come through routers

_MOVES_KEPT = 10_000


class Peers:
    def __init__(self, core: Core) -> None:
        self._core = core
        self._known: dict[UUID, tuple[str, bool]] = {}
        self._moves: dict[tuple[UUID, str], str] = {}
        self._is_connected: Callable[[UUID, str], bool] = lambda _peer, _address: False
        self._moved: Callable[[UUID, str, str], None] = lambda _peer, _before, _address: None
        self._is_configured: Callable[[UUID, str], bool] = lambda _peer, _address: False
        self._has_routers: Callable[[], bool] = lambda: False

    def watch(
        self,
        *,
        is_connected: Callable[[UUID, str], bool],
        moved: Callable[[UUID, str, str], None],
        is_configured: Callable[[UUID, str], bool],
        has_routers: Callable[[], bool],
    ) -> None:
        """A transport says whether a peer has a session at an address, and hears of changed addresses.

        It also says whether the configuration gives the peer that address, and whether there are routers.
        """
        self._is_connected, self._moved = is_connected, moved
        self._is_configured, self._has_routers = is_configured, has_routers

    @property
    def has_routers(self) -> bool:
        """Whether the configuration names routing servers to send through."""
        return self._has_routers()

    def learn(self, peer: UUID, address: str, *, is_direct: bool, is_new: bool = True) -> None:
        """`is_direct`: it reaches us by direct names, so that acknowledgements take that form.

        `is_new`: by a message that is no repetition of an older one, which anybody may have overheard.

        The address is empty when its messages come through others. Anybody can claim to be the peer, so its
        address does not change while it is connected, and the configuration is believed first: an address
        in it replaces others and stays, and so does the way through our routers.
        """
        known = self._find(peer)
        if known == (address, is_direct):
            return
        if known is not None and self._is_worse(peer, address, known[0]):
            return
        if known is None and not address and self._core.batch.count(Keyspace.PEERS) >= STRANGERS_KEPT:
            return  # there are too many senders without an address already
        before = "" if known is None else known[0]
        if address and before and before != address:
            self._moved(peer, before, address)
            is_better = is_new and self._is_configured(peer, address)
            if not is_better and self._is_connected(peer, before):
                return
        self._known[peer] = (address, is_direct)
        value = (_DIRECT if is_direct else _ROUTED) + address.encode()
        self._core.batch.put(Keyspace.PEERS, peer.bytes, value)

    def has_moved(self, peer: UUID, before: str, address: str) -> None:
        """The peer itself continues at another address: it knows the id of a sequence that it began before.

        Either may be empty, if its messages come through others. Only in memory, and not for ever: `address`
        takes over after a while in any case.
        """
        if len(self._moves) >= _MOVES_KEPT:
            self._moves.clear()
        self._moves[peer, before] = address
        self._moves.pop((peer, address), None)

    def now_at(self, peer: UUID, address: str) -> str:
        """Where to find a peer that was at the address; empty if its messages come through others now."""
        while (peer, address) in self._moves:
            address = self._moves[peer, address]
        return address

    def _is_worse(self, peer: UUID, address: str, known: str) -> bool:
        """Whether an address is no reason to forget the known one; both may be empty."""
        if known and self._is_configured(peer, known):
            return not self._is_configured(peer, address)
        if not address:  # an address that the sender itself used is better than none
            return not self._has_routers()
        return not known and self._has_routers() and not self._is_configured(peer, address)

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
