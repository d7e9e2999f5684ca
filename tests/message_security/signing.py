"""Signed messages for tests: keys of the vectors, certificates made here."""

from dataclasses import replace
from datetime import UTC, datetime
from functools import cache

from tiercel.message_security.certificates import load_certificate, make_certificate
from tiercel.message_security.signatures import sign
from tiercel.message_security.trust import Trust, TrustedCertificate
from tiercel.model.codes import AuthenticationLevel
from tiercel.model.message import Message
from tiercel.model.sid import SecurityIdentifier
from tiercel.wire.message import encode_message
from tiercel.wire.user_message import UserMessage

from . import vectors

KEY = "capi/key_enh_sign_1024"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@cache
def certificate(name: str = "sender") -> bytes:
    return make_certificate(vectors.private_key(KEY), name, NOW, days=3650)


def trust(**entries: SecurityIdentifier) -> Trust:
    """A trust store with a certificate of each name."""
    return Trust(
        tuple(
            TrustedCertificate(name, sid, load_certificate(certificate(name)))
            for name, sid in entries.items()
        )
    )


def signed(
    message: Message, name: str = "sender", level: AuthenticationLevel = AuthenticationLevel.SIG20
) -> UserMessage:
    """The message as its sender signs it, with the certificate of that name."""
    message = replace(message, sender_certificate=certificate(name))
    signature = sign(UserMessage(encode_message(message)), level, vectors.private_key(KEY))
    if level == AuthenticationLevel.SIG30:
        return UserMessage(encode_message(replace(message, multiple_destination_signature=signature)))
    return UserMessage(encode_message(replace(message, signature=signature)))


def forged(packet: UserMessage) -> UserMessage:
    """The packet with the last bit of its body flipped."""
    at = packet.data.rindex(packet.body) + len(packet.body) - 1
    return UserMessage(packet.data[:at] + bytes((packet.data[at] ^ 1,)) + packet.data[at + 1 :])
