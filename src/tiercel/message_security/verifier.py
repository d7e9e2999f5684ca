"""From the signature of a packet to what counts: [MS-MQQB] 3.1.5.8.3.

    certificate known, no SID or that of the entry   authenticated, as the SID of the entry
    certificate known, another SID in the packet     refused
    unknown, and the packet names a sender           refused once the trust store has entries (MQQB-203),
                                                     or cannot be read
    unknown, and the packet names none               not authenticated, unless `external_certificates`

The specification counts every certificate that comes without a sender. Anybody can make one, so that a queue
that demands authentication would take messages of everybody.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tiercel.message_security import xml_signature
from tiercel.message_security.aging_cache import CERTIFICATE_LIFETIME_S, USER_CERTIFICATES, AgingCache
from tiercel.message_security.hash_input import READINGS
from tiercel.message_security.refusal import bad_signature
from tiercel.message_security.signatures import DEFAULT_POLICY, Signature, SignaturePolicy, verify
from tiercel.message_security.trust import Trust, TrustedCertificate
from tiercel.message_security.verdict import NOTHING, Verdict
from tiercel.message_security.xml_signature import SignedPart, XmlSignature
from tiercel.model.codes import AuthenticationLevel, SenderIdType
from tiercel.model.sid import SecurityIdentifier
from tiercel.wire.user_header import MULTI_QUEUE_FORMAT_HEADER, SECURITY_HEADER
from tiercel.wire.user_message import UserMessage

_POSITIONS = {reading: position for position, reading in enumerate(READINGS)}
_NO_SENDER = SenderIdType.NONE
_SID = SenderIdType.SID


@dataclass(frozen=True, slots=True)
class VerificationPolicy:
    verify_signatures: bool = True
    signatures: SignaturePolicy = DEFAULT_POLICY
    # Whether unknown certificates are refused; None: once the trust store has entries, or cannot be read.
    refuse_unknown_certificates: bool | None = None
    external_certificates: bool = False


# [MS-MQQB] 3.1.5.8.3 asks a domain controller.
GroupResolver = Callable[[bytes], frozenset[SecurityIdentifier]]


def _empty() -> Trust:
    return Trust()


class Verifier:
    """Verification takes a fraction of a millisecond, so it is done where the message arrives."""

    def __init__(
        self,
        trust: Callable[[], Trust] = _empty,
        policy: VerificationPolicy | None = None,
        groups: GroupResolver | None = None,
    ) -> None:
        """`groups` finds the groups of an account; without it, the trust store has them."""
        self._trust = trust
        self._groups = groups
        self._policy = policy or VerificationPolicy()
        # UserCertCache: certificates that were found in the trust store.
        self.cache: AgingCache[tuple[bytes, bytes], TrustedCertificate] = AgingCache(
            USER_CERTIFICATES, CERTIFICATE_LIFETIME_S
        )
        self._known = Trust()  # the trust store as it was at the last verification
        self.own_certificate: Callable[[], bytes] = (
            bytes  # what this queue manager signs with; b"" if nothing
        )

    @property
    def trust(self) -> Trust:
        """The current trust store."""
        return self._trust()

    @property
    def knows_senders(self) -> bool:
        """Whether the trust store has entries, so that some senders can prove who they are."""
        return self._policy.verify_signatures and len(self._trust()) > 0

    def groups_of(self, sid: bytes) -> frozenset[SecurityIdentifier]:
        """The groups of a sender that was just verified; the resolver's error if they cannot be told."""
        return self._known.groups_of(sid) if self._groups is None else self._groups(sid)

    def verify(self, packet: UserMessage, now: float) -> Verdict:
        """Verify the signature of a packet with a clear body; MessageRefusedError for a bad one."""
        if not packet.flags & SECURITY_HEADER or not self._policy.verify_signatures:
            return NOTHING
        if not packet.has_signature and not packet.flags & MULTI_QUEUE_FORMAT_HEADER:
            return NOTHING
        signature = verify(packet, packet.body, self._policy.signatures)
        return NOTHING if signature is None else self._judge(packet, signature, now)

    def verify_own(self, packet: UserMessage, now: float, *, over_http: bool = False) -> Verdict:
        """The same of a message that was sent here: the queue manager's own certificate counts as well."""
        if over_http:
            certificate = xml_signature.verify_packet(packet, self._policy.signatures)
            proved = Verdict(AuthenticationLevel.XML_SIG)
        else:
            signature = verify(packet, packet.body, self._policy.signatures)
            if signature is None:
                return NOTHING
            certificate, proved = signature.certificate, _verdict(signature)
        entry = self._find(certificate.der, packet.sender[1], now)
        if entry is not None:
            return proved._replace(sender=entry.sid.encode(), name=entry.name)
        return proved if certificate.der == self.own_certificate() else NOTHING

    def verify_xml(
        self, signature: XmlSignature, parts: Sequence[SignedPart], signers: Iterable[str]
    ) -> Verdict:
        """Verify the signature of a message over HTTP; MessageRefusedError for a bad one.

        [MC-MQSRM] 3.1.5.1.6.1. `signers` are the names of the entries whose certificates may have made it;
        without a known one, the message counts as unsigned.
        """
        if not self._policy.verify_signatures:
            return NOTHING
        trust = self._current()
        entries = [entry for name in signers if (entry := trust.get(name)) is not None]
        certificates = [entry.certificate for entry in entries]
        found = xml_signature.verify(signature, parts, certificates, self._policy.signatures)
        if found is None:
            return NOTHING
        signer = next(entry for entry in entries if entry.certificate is found.certificate)
        return Verdict(AuthenticationLevel.XML_SIG, found.form, signer.sid.encode(), name=signer.name)

    def _judge(self, packet: UserMessage, signature: Signature, now: float) -> Verdict:
        kind, sender = packet.sender
        entry = self._find(signature.certificate.der, sender, now)
        if entry is not None:
            if kind == _SID and sender != entry.sid.encode():
                raise bad_signature("its certificate belongs to another sender")
            return _verdict(signature, entry.sid.encode(), entry.name)
        if kind == _NO_SENDER:
            return _verdict(signature) if self._policy.external_certificates else NOTHING
        refuses = self._policy.refuse_unknown_certificates
        if self._known.is_closed if refuses is None else refuses:
            raise bad_signature("its certificate is not in the trust store")
        return NOTHING

    def _current(self) -> Trust:
        trust = self._trust()
        if trust is not self._known:  # edited: a certificate that was removed must not count
            self.cache.clear()
            self._known = trust
        return trust

    def _find(self, der: bytes, sender: bytes, now: float) -> TrustedCertificate | None:
        """The entry of a certificate, from the cache or the trust store (MQQB-203)."""
        trust = self._current()
        self.cache.expire(now)
        entry = self.cache.get((der, sender), now)
        if entry is None:
            entry = trust.find(der)
            if entry is not None:
                self.cache.put((der, sender), entry, now)
        return entry


def _verdict(signature: Signature, sender: bytes = b"", name: str = "") -> Verdict:
    return Verdict(signature.level, _POSITIONS[signature.reading], sender, name=name)
