"""Where queue managers were last seen: an acknowledgement may be due when its session is long gone."""

from uuid import UUID

from tiercel.engine.engine import Engine
from tiercel.store.interface import Keyspace

_DIRECT = b"D"
_ROUTED = b"R"


class Peers:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: dict[UUID, tuple[str, bool]] = {}

    def learn(self, peer: UUID, address: str, *, is_direct: bool) -> None:
        """`is_direct`: the peer reaches us by direct names, so that acknowledgements take that form."""
        if self._find(peer) != (address, is_direct):
            self._known[peer] = (address, is_direct)
            value = (_DIRECT if is_direct else _ROUTED) + address.encode()
            self._engine.batch.put(Keyspace.PEERS, peer.bytes, value)

    def address(self, peer: UUID) -> str | None:
        found = self._find(peer)
        return None if found is None else found[0]

    def direct_address(self, peer: UUID) -> str | None:
        found = self._find(peer)
        return found[0] if found is not None and found[1] else None

    def _find(self, peer: UUID) -> tuple[str, bool] | None:
        found = self._known.get(peer)
        if found is None and (data := self._engine.batch.get(Keyspace.PEERS, peer.bytes)):
            found = self._known[peer] = (data[1:].decode(), data[:1] == _DIRECT)
        return found
