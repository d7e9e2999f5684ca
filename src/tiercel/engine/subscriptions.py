"""The queues that listen to a multicast address: [MS-MQDMPR] 3.1.1.2, MulticastAddress."""

from tiercel.engine.queue_state import QueueState


class Subscriptions:
    def __init__(self) -> None:
        self.changes = 0  # grows whenever an address gets its first queue or loses its last
        self._by_address: dict[str, dict[QueueState, None]] = {}
        self._address_of: dict[QueueState, str] = {}

    def update(self, queue: QueueState) -> None:
        """The queue was created, changed or deleted."""
        old = self._address_of.get(queue)
        new = None if queue.is_deleted else queue.queue.multicast_address
        if old == new:
            return
        if old is not None:
            del self._address_of[queue]
            del self._by_address[old][queue]
            if not self._by_address[old]:
                del self._by_address[old]
                self.changes += 1
        if new is not None:
            self._address_of[queue] = new
            if new not in self._by_address:
                self._by_address[new] = {}
                self.changes += 1
            self._by_address[new][queue] = None

    @property
    def addresses(self) -> list[str]:
        """As in 234.1.1.1:8001."""
        return list(self._by_address)

    def queues(self, address: str) -> list[QueueState]:
        return list(self._by_address.get(address, ()))
