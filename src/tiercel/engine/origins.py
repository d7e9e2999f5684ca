"""Where messages came from. What became of them is told there, not to others that claim their sender."""

from tiercel.engine.incoming_streams import IncomingStreams
from tiercel.engine.peers import Peers
from tiercel.engine.resolver import Resolver
from tiercel.model.format_name import FormatName, PrivateFormatName
from tiercel.wire.message import decode_destination
from tiercel.wire.user_message import UserMessage

_KEPT = 10_000


class Origins:
    """Transactional messages: their streams know it, also after a restart. Others: only in memory."""

    def __init__(self, resolver: Resolver, streams: IncomingStreams, peers: Peers) -> None:
        self._resolver = resolver
        self._streams = streams
        self._peers = peers
        self._plain: dict[bytes, str] = {}  # by the identity of the message, the oldest first

    def remember(self, packet: UserMessage, identity: bytes, address: str) -> None:
        """A message without a transaction arrives; empty if it came through others."""
        if not address or packet.admin_queue is None:
            return
        if len(self._plain) >= _KEPT:
            del self._plain[next(iter(self._plain))]
        self._plain[identity] = address

    def of(self, packet: UserMessage) -> str:
        """The address that a message came from; empty if it came through others, or is not known any more."""
        if not packet.is_transactional:
            came_encrypted = packet.identity_without_encryption
            return self._plain.get(packet.identity) or self._plain.get(came_encrypted, "")
        name = decode_destination(packet)
        queue = None if name is None else self._resolver.find(name)
        return self._streams.answers_to(packet, queue)

    def for_acknowledgement(self, packet: UserMessage, admin_queue: FormatName) -> str:
        """The same for its administration queue, if that is at its sender.

        Those elsewhere are found by their name, and routing servers find all of them.
        """
        is_at_sender = (
            isinstance(admin_queue, PrivateFormatName)
            and admin_queue.queue_manager == packet.source_queue_manager
        )
        return self.of(packet) if is_at_sender and not self._peers.has_routers else ""
