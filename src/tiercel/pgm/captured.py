"""The messages in captured PGM packets: sessions that listen and never ask."""

from tiercel.pgm.framing import Framing
from tiercel.pgm.packet import Nak, Other, Packet, Tsi
from tiercel.pgm.receiver import Receiver
from tiercel.pgm.session import Session, Shared
from tiercel.pgm.settings import Settings


class MulticastMessages:
    def __init__(self) -> None:
        self._receivers: dict[tuple[str, int], Receiver] = {}
        self._framing: dict[tuple[str, Tsi], Framing] = {}

    def add(self, packet: Packet, address: str, group: str) -> list[bytes]:
        """The SRMP requests that the packet completes."""
        if isinstance(packet, Nak | Other):
            return []
        key = group, packet.port
        receiver = self._receivers.get(key)
        if receiver is None:
            receiver = self._receivers[key] = Receiver(
                group, packet.port, Settings(), lambda: 0.0, Shared(0.0)
            )
        session = receiver.receive(packet, address, 0.0)
        return [] if session is None else self._requests(session)

    def _requests(self, session: Session) -> list[bytes]:
        delivered, session.delivered = session.delivered, []
        framing = self._framing.setdefault((session.group, session.tsi), Framing())
        found: list[bytes] = []
        for apdu in delivered:
            if apdu is None:
                framing.lost()
            else:
                found += framing.feed(apdu)
        return found
