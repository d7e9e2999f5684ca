"""Signed and encrypted messages of a world, and what must be proved about them when they arrive.

The worlds without them stay as they are: this has a random source of its own, and nothing here depends on the
bytes of a key, which differ from run to run.
"""

from datetime import UTC, datetime
from functools import cache
from random import Random
from typing import Any, Final

from tiercel.engine.handles import Found, OpenQueue
from tiercel.message_security import rsa_keys
from tiercel.message_security.encryption import Encryption
from tiercel.message_security.exchange_keys import ExchangeKey, KeyRing
from tiercel.message_security.providers import ADVANCED
from tiercel.message_security.signer import Signer
from tiercel.message_security.trust import Trust, TrustedCertificate, TrustedQueueManager
from tiercel.message_security.verdict import decode_verdict
from tiercel.message_security.verifier import Verifier
from tiercel.model.codes import EncryptionAlgorithm
from tiercel.model.message import Message
from tiercel.sim.machine import OWNER, START, Machine
from tiercel.sim.sent_messages import SentMessage
from tiercel.sim.setup import NAMES, addresses_of, gateway_of, installed
from tiercel.wire.user_message import UserMessage

_BITS: Final = 1024  # short, so that a world takes not much longer
_ALGORITHMS: Final = (EncryptionAlgorithm.AES256, EncryptionAlgorithm.AES192, EncryptionAlgorithm.AES128)


class Protection:
    def __init__(self, random: Random) -> None:
        self._random = random
        self._sign = random.choice((0.0, 0.3, 0.9))
        self._encrypt = random.choice((0.3, 0.9))
        self._trust = _trust()
        self.problems: list[str] = []

    def engine_options(self, name: str) -> dict[str, Any]:
        """For an engine that starts: it knows all certificates and keys, and has empty caches."""
        return {
            "verifier": Verifier(lambda: self._trust),
            "encryption": Encryption(
                keys=_ring(NAMES.index(name)),
                trust=lambda: self._trust,
                encrypt_direct_names=True,
                random_bytes=self._random.randbytes,
            ),
        }

    def protect(
        self, sent: SentMessage, opened: OpenQueue, message: Message, *, is_transactional: bool
    ) -> None:
        """Encrypt it, sign it, both, or neither."""
        if sent.is_over_http:
            return
        sending = sent.source.engine.sending
        if self._random.random() < self._encrypt:
            sent.is_encrypted = True
            message.encryption_algorithm = self._random.choice(_ALGORITHMS)
            sending.to_encrypt(opened, [message])
        if self._random.random() < self._sign:
            sent.is_signed = True
            signer = _signer()
            to_sign, level = sending.to_sign(
                opened, message, signer.certificate.der, is_transactional=is_transactional
            )
            signer.sign(message, to_sign, level)

    def check(self, machine: Machine, sent: SentMessage, found: Found) -> None:
        """A message that was received is in clear, and its verdict says how it came."""
        packet, verdict = UserMessage(found.record.packet), decode_verdict(found.record.verdict)
        text = sent.label.encode()
        if packet.body[: len(text)] != text:
            self.problems.append(f"{machine} received {sent} with another body")
        if (verdict.is_authenticated, verdict.was_encrypted) != (sent.is_signed, sent.is_encrypted):
            self.problems.append(f"{machine} received {sent} as {verdict}")


@cache
def _trust() -> Trust:
    return Trust(
        (
            TrustedCertificate("all", OWNER.user, _signer().certificate),
            *(_queue_manager(index) for index in range(len(NAMES))),
        )
    )


def _queue_manager(index: int) -> TrustedQueueManager:
    name = NAMES[index].lower()
    hosts = (name, f"{name}.example", *addresses_of(index), gateway_of(index))
    return TrustedQueueManager(name, installed(index)[0], hosts, _ring(index).published().keys)


@cache
def _ring(_index: int) -> KeyRing:
    made = datetime.fromtimestamp(START, UTC)
    return KeyRing((ExchangeKey(ADVANCED, rsa_keys.generate(_BITS), made),))


@cache
def _signer() -> Signer:
    return Signer.parse(_SIGNER)


# The size of a certificate is a part of the world, so it is always the same one. It protects nothing.
_SIGNER: Final = """\
-----BEGIN PRIVATE KEY-----
MIICeAIBADANBgkqhkiG9w0BAQEFAASCAmIwggJeAgEAAoGBAMw7Q8+yQjtW1BE6
7BtBGVaOEzjr53Qx5X8Yv4FF6cisZOD+X0RQcS6G9drn5joUiqq2cJTYszb/aR7a
pHkzsrStQjE3oKHd5XiZkjnN8Pd2cNiDVwv/XReIAr6b0LoUqYYKquNZ4eSyeiit
gYoe9F6nqkglJ7vj7Yb2W+3JD3VFAgMBAAECgYEAwKbDH+AahBky8JHxeQAeo7xf
u5kke0I6J3sz4wENOAQPIQIy4aE0MtySfI22amFIMSLp7i7AV4f1JGrBLaer0P2f
Ich1iF6NIdEZDRJ3kJCS7zevq/uhqaUyGnBD3MQnHu3YbpBKc9cUczvzVtvjPSSV
9GkoGXHA1Gs09AOtdf0CQQDv9eDran0fjCUxug3SHq0SKCNmXddP//ymVLQZaX2o
O4XC6e/b7j2eL7a4CfMNoq4jvQwTyuwcT4xteArURrXjAkEA2eIBKkVJr1kjT66r
jY12jgb5a5ttHO1q0uwi/Ugcu4Xk7eBQM5q6ga6cNjrVllw/uD5YHDF5RV+l1bZV
s0nQtwJAAbTL3qCpNxo2AX6DLqVNMb3bUpUEPOtjDoO3rB6V6CZUMyiargOpqIBK
WlCny8cGWfa0KUfeGe1u4DBkU1IVZQJBAI8Zi5Bar3l1/uYfn1a52WqQlBIjo7dD
C0z6gER/rzdOSjwdfi9WaTYxGzHW1F8LuWHluHLT34U7u6wwM/sr+OMCQQDjUJ1g
+pNSh/QEmHg5iUO5VNCidFuTNpo4p1ixC4xFx6cjdP5lKdgnKFs6LC6TieGzr6Xe
Ncxf5eYMHRDfIASc
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBszCCARygAwIBAgIUBOfL8ukb+FBZ1b8IyDKCJNPDEzgwDQYJKoZIhvcNAQEL
BQAwFTETMBEGA1UEAwwKc2ltdWxhdGlvbjAgFw0yMjEyMzEwMDAwMDBaGA8yMTIy
MTIwODAwMDAwMFowFTETMBEGA1UEAwwKc2ltdWxhdGlvbjCBnzANBgkqhkiG9w0B
AQEFAAOBjQAwgYkCgYEAzDtDz7JCO1bUETrsG0EZVo4TOOvndDHlfxi/gUXpyKxk
4P5fRFBxLob12ufmOhSKqrZwlNizNv9pHtqkeTOytK1CMTegod3leJmSOc3w93Zw
2INXC/9dF4gCvpvQuhSphgqq41nh5LJ6KK2Bih70XqeqSCUnu+PthvZb7ckPdUUC
AwEAATANBgkqhkiG9w0BAQsFAAOBgQAaULufVP77huEu9zi3lkXjeeNi6JFA/sPk
UxOpCcEv5Ga4WRRcNrPd5dnMqGQKQSQKF2O/4JbLHXCR1++InZ9rwW9VFLzy6oqJ
+qo3BZhrAp39fQ476w8XMTP3+9ZyRLFwS96ygQ6BXVT6BobzDMkJeXBvZ5PDlFN9
T/AbOnolHw==
-----END CERTIFICATE-----
"""
