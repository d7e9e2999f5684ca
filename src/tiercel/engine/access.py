"""Access control of queues: every check of a security descriptor goes through here (DMPR T-35)."""

from functools import lru_cache

from tiercel.engine.catalog import Catalog
from tiercel.engine.queue_state import QueueState
from tiercel.message_security.verifier import Verifier
from tiercel.model.codes import QueueAccess, QueueAccessMask, SenderIdType
from tiercel.model.errors import AccessDeniedError, DecodeError, TiercelError
from tiercel.model.sid import ADMINISTRATORS, ANONYMOUS, EVERYONE, SecurityIdentifier
from tiercel.security.access import QUEUE_MAPPING, Token, allows
from tiercel.security.defaults import default_queue_descriptor
from tiercel.security.descriptor import Ace, AceType, SecurityDescriptor
from tiercel.wire.structure import encode_guid
from tiercel.wire.user_message import UserMessage

_NEEDED = {
    QueueAccess.RECEIVE: QueueAccessMask.RECEIVE_MESSAGE,
    QueueAccess.PEEK: QueueAccessMask.PEEK_MESSAGE,
    QueueAccess.SEND: QueueAccessMask.WRITE_MESSAGE,
    QueueAccess.MOVE: QueueAccessMask.RECEIVE_MESSAGE,
}
_UNNAMED = (0, b"")  # the sender of a message that names none
_NO_GROUPS: frozenset[SecurityIdentifier] = frozenset()
_UNPROVED = {EVERYONE, ANONYMOUS}
_NEEDED_OF_JOURNAL = _NEEDED | {QueueAccess.RECEIVE: QueueAccessMask.RECEIVE_JOURNAL_MESSAGE}


class Access:
    def __init__(
        self,
        catalog: Catalog,
        verifier: Verifier,
        *,
        everyone_may_send: bool = False,
        believe_unsigned_senders: bool = False,
    ) -> None:
        self._catalog = catalog
        self._verifier = verifier
        self._everyone_may_send = everyone_may_send
        self._believe_unsigned_senders = believe_unsigned_senders
        self._own = encode_guid(catalog.queue_manager.identifier)

    def default_descriptor(self, token: Token, supplied: bytes | None = None) -> bytes:
        """The descriptor of a new queue ([MS-MQDMPR] 3.1.7.1.3.1)."""
        given = None if supplied is None else SecurityDescriptor.decode(supplied)
        return default_queue_descriptor(
            token.user,
            supplied=given,
            # Windows lets Everyone send to a new queue; the text only where SRMP is on, and no peer could.
            srmp=self._everyone_may_send or self._catalog.queue_manager.srmp_http_support,
        ).encode()

    def check_open(self, state: QueueState, access: QueueAccess, token: Token) -> None:
        is_journal = state.parent is not None and state.keeps_messages
        self.check(state, _needed(access, is_journal), token)

    def may_write(self, state: QueueState, packet: UserMessage, verified: bytes = b"") -> bool:
        """Whether the sender of a packet may write to the queue ([MS-MQQB] 3.1.5.8.3).

        `verified` is the SID of a verified signature. Everybody else is anonymous, and checked as well (MQQB
        T26), unless the configuration believes the senders that packets name without proof.
        """
        # Over HTTP and by multicast anybody can claim our GUID; sessions refuse messages that do.
        is_ours = packet.comes_from(self._own) and not packet.is_over_http
        if is_ours or state.is_outgoing or self._catalog.is_internal(state):
            return True
        security = state.queue.security
        if security is None:
            return False
        if verified:
            return self._may_write_as(security, verified)
        sender = packet.sender if self._believe_unsigned_senders else _UNNAMED
        return _may_write(security, *sender)

    def _may_write_as(self, security: bytes, verified: bytes) -> bool:
        """An entry may deny a group, so an account whose groups are unknown is refused (MQQB-212)."""
        try:
            groups = self._verifier.groups_of(verified)
        except (TiercelError, OSError):
            return False
        return _may_write(security, SenderIdType.SID, verified, groups)

    def ignores_named_senders(self, state: QueueState) -> bool:
        """Whether the access list of a queue treats some senders differently, but cannot tell them apart.

        It then names an account other than Everyone and Anonymous in an entry about sending, and that entry
        has no effect on messages from other computers.
        """
        security = state.queue.security
        if self._believe_unsigned_senders or self._verifier.knows_senders or security is None:
            return False
        return _depends_on_sender(_decode(security), is_open=_may_write(security, *_UNNAMED))

    def allows(self, state: QueueState, needed: QueueAccessMask, token: Token) -> bool:
        if token.unrestricted:
            return True
        if state.is_outgoing and needed == QueueAccessMask.WRITE_MESSAGE:
            return True  # the other computer decides
        security = state.queue.security
        return security is not None and allows(_decode(security), token, int(needed), QUEUE_MAPPING)

    def check(self, state: QueueState, needed: QueueAccessMask, token: Token) -> None:
        if not self.allows(state, needed, token):
            names = needed.name or hex(needed)
            raise AccessDeniedError(
                str(state),
                problem=f"{token.user} lacks a right on it",
                present=f"needed {names}",
                fix="ask the owner of the queue to grant the right",
            )


def _depends_on_sender(descriptor: SecurityDescriptor, *, is_open: bool) -> bool:
    """Whether an entry would refuse some senders of an open queue, or admit some to a closed one."""
    if descriptor.dacl is None:
        return False
    kind = AceType.ACCESS_DENIED if is_open else AceType.ACCESS_ALLOWED
    return any(
        isinstance(ace, Ace)
        and ace.type == kind
        and ace.sid not in _UNPROVED
        and QUEUE_MAPPING.specific(ace.mask) & QueueAccessMask.WRITE_MESSAGE
        for ace in descriptor.dacl.aces
    )


@lru_cache(64)  # arithmetic with flags is slow
def _needed(access: QueueAccess, is_journal: bool) -> QueueAccessMask:
    needed = QueueAccessMask(0)
    for kind, mask in (_NEEDED_OF_JOURNAL if is_journal else _NEEDED).items():
        if access & ~QueueAccess.ADMIN & kind:
            needed |= mask
    return needed


@lru_cache(1024)  # asked for every message that arrives
def _may_write(
    security: bytes, kind: int, sender: bytes, groups: frozenset[SecurityIdentifier] = _NO_GROUPS
) -> bool:
    token = _sender_token(kind, sender, groups)
    return allows(_decode(security), token, int(QueueAccessMask.WRITE_MESSAGE), QUEUE_MAPPING)


def _sender_token(kind: int, sender: bytes, groups: frozenset[SecurityIdentifier]) -> Token:
    """The sender that a message names; anonymous if it names none."""
    if kind == SenderIdType.QM:
        return Token(EVERYONE, frozenset({EVERYONE}))
    if kind != SenderIdType.SID:
        return Token.anonymous()
    try:
        return Token.for_user(SecurityIdentifier.decode(sender), groups)
    except DecodeError:
        return Token.anonymous()


@lru_cache(256)  # a queue's descriptor is checked again with every opening
def _decode(security: bytes) -> SecurityDescriptor:
    return SecurityDescriptor.decode(security)


def system_descriptor(owner: Token) -> bytes:
    """The descriptor of system journals and dead-letter queues: owner and administrators may read them."""
    rights = QueueAccessMask.QUEUE_GENERIC_ALL
    everyone = QueueAccessMask.GET_QUEUE_PROPERTIES
    aces = f"(A;;0x{rights:x};;;{owner.user})(A;;0x{rights:x};;;{ADMINISTRATORS})"
    return SecurityDescriptor.parse(f"O:{owner.user}D:{aces}(A;;0x{everyone:x};;;{EVERYONE})").encode()
