"""Encrypted bodies between queue managers: [MS-MQQB] 3.1.7.1.5, 3.1.5.8.3."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from engine.harness import RECOVERABLE
from message_security.encrypting import encryption, known, ring, sealed
from tiercel.binary.actions import Unwrap
from tiercel.message_security.body_encryption import EncryptionPolicy
from tiercel.message_security.encryption import Encryption
from tiercel.message_security.exchange_keys import KeyRing
from tiercel.message_security.providers import ADVANCED, BASE, ENHANCED, PROVIDERS, Provider
from tiercel.message_security.trust import Trust
from tiercel.model.codes import EncryptionAlgorithm, MessageClass, PrivacyLevel, QueueAccess
from tiercel.model.errors import PublicKeyNotFoundError, SecurityError
from tiercel.model.format_name import FormatName
from tiercel.model.limits import MAX_PACKET_SIZE
from tiercel.wire.message import decode_message
from tiercel.wire.user_message import UserMessage

from .nodes import Hand, Net, Qm

_A = EncryptionAlgorithm
SECRET: dict[str, Any] = {"privacy_level": PrivacyLevel.ADVANCED}


class Changing:
    """A trust store that the test fills once it knows whom with."""

    def __init__(self) -> None:
        self.store = Trust()

    def __call__(self) -> Trust:
        return self.store


@pytest.fixture
def trust() -> Changing:
    return Changing()


@pytest.fixture
def here(net: Net, trust: Changing) -> Qm:
    return net.qm("HERE", encryption=sending(trust))


def sending(trust: Changing, **options: Any) -> Encryption:
    options.setdefault("policy", EncryptionPolicy(legacy=True))
    return Encryption(trust=trust, encrypt_direct_names=True, **options)


def receiver(net: Net, trust: Changing, keys: KeyRing | None = None, **options: Any) -> Qm:
    """Another queue manager, whose keys the first one knows."""
    there = net.qm("THERE", encryption=encryption(keys or ring(), **options))
    trust.store = known(there.guid, there.address, keys=keys)
    return there


def know(trust: Changing, hand: Hand, *providers: Provider) -> None:
    trust.store = known(hand.guid, hand.address, keys=ring(*providers))


class TestBetweenTwo:
    @pytest.mark.conformance("DMPR-081", "DMPR-097", "MQQB-216")
    @pytest.mark.parametrize(
        ("providers", "level", "algorithm", "expected"),
        [
            ((ADVANCED,), PrivacyLevel.ADVANCED, _A.RC4, (PrivacyLevel.ADVANCED, _A.AES256)),
            ((ADVANCED,), PrivacyLevel.ADVANCED, _A.AES192, (PrivacyLevel.ADVANCED, _A.AES192)),
            ((ADVANCED,), PrivacyLevel.ADVANCED, _A.AES128, (PrivacyLevel.ADVANCED, _A.AES128)),
            (PROVIDERS, PrivacyLevel.BASE, _A.RC4, (PrivacyLevel.ADVANCED, _A.AES256)),
            ((ENHANCED, BASE), PrivacyLevel.BASE, _A.RC4, (PrivacyLevel.ENHANCED, _A.RC4)),
            ((ENHANCED,), PrivacyLevel.ENHANCED, _A.RC2, (PrivacyLevel.ENHANCED, _A.RC2)),
            ((BASE,), PrivacyLevel.BASE, _A.RC4, (PrivacyLevel.BASE, _A.RC4)),
            ((BASE,), PrivacyLevel.BASE, _A.RC2, (PrivacyLevel.BASE, _A.RC2)),
        ],
    )
    def test_every_algorithm_in_both_directions(
        self,
        net: Net,
        here: Qm,
        trust: Changing,
        providers: tuple[Provider, ...],
        level: PrivacyLevel,
        algorithm: EncryptionAlgorithm,
        expected: tuple[int, int],
    ) -> None:
        there = receiver(net, trust, ring(*providers))
        there.create("q")
        here.to(there, "q").send(b"secret", privacy_level=level, encryption_algorithm=algorithm)
        here.to(there, "q").send(b"clear")
        net.settle()
        secret, clear = there.box("q").messages()
        assert (secret.body, clear.body) == (b"secret", b"clear")
        assert (secret.privacy_level, secret.encryption_algorithm) == expected
        assert clear.privacy_level == PrivacyLevel.NONE

    @pytest.mark.parametrize("is_private", [False, True])
    def test_transactional_messages_keep_their_order(
        self, net: Net, here: Qm, trust: Changing, *, is_private: bool
    ) -> None:
        """Each needs a key that has to be unwrapped first: the session keys have ended in the meantime."""
        there = receiver(net, trust)
        box = there.create("tx", transactional=True)
        here.configure(machines={there.guid: (there.address,)})
        number = box.state.queue.private_queue_number
        assert number is not None
        goal = here.to_private(there, number) if is_private else here.to(there, "tx")
        bodies = [b"%d" % i for i in range(12)]
        for i, body in enumerate(bodies):
            here.send_together((goal, body), **(SECRET if i % 3 else {}))
            if i % 4 == 3:
                here.engine.encryption.sealer.cache.clear()
        net.sleep(60)
        assert box.bodies() == bodies

    def test_a_signature_is_made_before(self, net: Net, here: Qm, hand: Hand, trust: Changing) -> None:
        """What a program signed stays over the encryption (MQQB T13)."""
        know(trust, hand)
        here.to(hand, "q").send(b"secret", **SECRET)
        net.settle()
        opened = encryption(ring()).opener.open(hand.messages[0], 0.0)
        assert opened.body == b"secret"


class TestOnTheWire:
    @pytest.mark.conformance("MQQB-219")
    def test_the_fields(self, net: Net, here: Qm, hand: Hand, trust: Changing) -> None:
        know(trust, hand)
        here.to(hand, "q").send(b"secret", label="label", **SECRET)
        net.settle()
        (packet,) = hand.messages
        properties, security = packet.properties, packet.security
        assert security is not None
        assert packet.security_flags & 0x20
        assert b"secret" not in packet.data
        assert (properties.message_size, properties.allocation_body_size) == (6, 16)
        assert properties.encryption_algorithm == _A.AES256
        assert security.provider == (ADVANCED.type, ADVANCED.name)
        assert len(security.encryption_key) == 140
        assert packet.packet_size == len(packet.data)
        assert packet.label == "label"

    @pytest.mark.conformance("MQQB-218")
    def test_a_session_key_serves_ten_minutes(self, net: Net, here: Qm, hand: Hand, trust: Changing) -> None:
        know(trust, hand)
        box = here.to(hand, "q")
        for pause in (0, 599, 1):
            net.sleep(pause)
            box.send(b"secret", **SECRET)
            net.settle()
            hand.ack()
        first, second, third = (packet.security_data()[1] for packet in hand.messages)
        assert first == second != third

    def test_a_rotated_key_is_used_at_once(self, net: Net, here: Qm, hand: Hand, trust: Changing) -> None:
        box = here.to(hand, "q")
        for provider in (ADVANCED, ENHANCED):
            know(trust, hand, provider)
            box.send(b"secret", privacy_level=PrivacyLevel.ENHANCED)
            net.settle()
        assert [packet.properties.privacy_level for packet in hand.messages] == [5, 3]

    def test_what_is_sent_again_is_encrypted_again(
        self, net: Net, here: Qm, hand: Hand, trust: Changing
    ) -> None:
        know(trust, hand)
        box = here.to(hand, "tx")
        here.send_together((box, b"secret"), **SECRET)
        net.settle()
        hand.hang_up()
        net.sleep(60)
        assert len(hand.messages) > 1
        for packet in hand.messages:
            assert b"secret" not in packet.data
            assert encryption(ring()).opener.open(packet, 0.0).body == b"secret"

    @pytest.mark.conformance("MQQB-103")
    def test_an_expired_message_is_not_encrypted(
        self, net: Net, here: Qm, hand: Hand, trust: Changing, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The order of 3.1.7.1: expiry, then encryption, and the place in the stream into the result."""
        know(trust, hand)
        calls: list[bytes] = []
        seal = here.engine.encryption.sealer.seal

        def spy(packet: UserMessage, *rest: Any) -> UserMessage:
            calls.append(packet.body)
            return seal(packet, *rest)

        monkeypatch.setattr(here.engine.encryption.sealer, "seal", spy)
        net.down.add(hand.address)
        box = here.to(hand, "tx")
        here.send_together((box, b"late"), time_to_reach_queue=10, **SECRET)
        here.send_together((box, b"good"), **SECRET)
        net.sleep(11)
        net.down.clear()
        net.sleep(60)
        assert calls[0] == b"good"
        assert b"late" not in calls
        assert hand.messages[0].sequence[1] == 2
        assert hand.messages[0].previous_number == 0

    @pytest.mark.conformance("DMPR-103")
    def test_a_body_that_its_application_encrypted_passes(self, net: Net, here: Qm, hand: Hand) -> None:
        own: dict[str, Any] = {
            "symmetric_key": bytes(range(140)),
            "connector_type": UUID(int=5),
            "authentication_provider_type": 77,
            "authentication_provider_name": "of the application",
        }
        here.to(hand, "q").send(b"ciphertext", **own, **SECRET)
        net.settle()
        found = decode_message(hand.messages[0])
        assert found.body == b"ciphertext"
        assert {name: getattr(found, name) for name in own} == own


class TestDuplicates:
    """A message that is sent again may be encrypted with another key, and is the same all the same."""

    @pytest.mark.parametrize("providers", [((ADVANCED,), (ADVANCED,)), ((ADVANCED,), (ENHANCED,))])
    @pytest.mark.parametrize("restarts", [False, True])
    def test_they_are_dropped(
        self, net: Net, hand: Hand, providers: tuple[tuple[Provider, ...], ...], *, restarts: bool
    ) -> None:
        there = net.qm("THERE", encryption=encryption(ring()))
        there.create("q")
        options: dict[str, Any] = {"privacy_level": PrivacyLevel.ENHANCED, "delivery": RECOVERABLE}
        packet = hand.message(there.name_of("q"), b"secret", **options)
        copies = [sealed(packet, *each) for each in providers]
        assert copies[0].data != copies[1].data
        for copy in copies:
            hand.call(there).send(copy)
            net.settle()
            if restarts:
                there.restart()
        assert there.box("q").bodies() == [b"secret"]

    def test_another_message_with_the_same_id_is_not_one(self, net: Net, hand: Hand) -> None:
        there = net.qm("THERE", encryption=encryption(ring()))
        there.create("q")
        first = hand.message(there.name_of("q"), b"secret", **SECRET)
        second = UserMessage(first.data.replace(b"secret", b"public"))
        for packet in (first, second):
            hand.call(there).send(sealed(packet))
            net.settle()
        assert there.box("q").bodies() == [b"secret", b"public"]


class TestCopies:
    def test_journal_and_dead_letter_are_in_clear(
        self, net: Net, here: Qm, hand: Hand, trust: Changing
    ) -> None:
        know(trust, hand)
        here.to(hand, "q").send(b"kept", positive_journaling=True, **SECRET)
        box = here.to(hand, "tx")
        here.send_together((box, b"refused"), negative_journaling=True, **SECRET)
        net.settle()
        hand.ack()
        ordered = next(packet for packet in hand.messages if packet.is_transactional)
        hand.order_ack(ordered)
        hand.final_ack(ordered, MessageClass.NACK_Q_PURGED)
        assert here.journal.bodies() == [b"kept"]
        assert here.transactional_dead_letters.bodies() == [b"refused"]


class TestErrors:
    """3.1.7.1.5.1: what cannot be encrypted never leaves."""

    @pytest.mark.conformance("MQQB-214", "MQQB-220")
    def test_direct_names_are_refused_by_default(self, net: Net, hand: Hand, trust: Changing) -> None:
        know(trust, hand)
        qm = net.qm("STRICT", encryption=Encryption(trust=trust))
        qm.configure(machines={hand.guid: (hand.address,)})
        qm.to(hand, "q").send(b"direct", negative_journaling=True, **SECRET)
        net.settle()
        qm.to_private(hand, 7).send(b"private", **SECRET)
        net.settle()
        assert qm.dead_letters.bodies() == [b"direct"]
        assert len(hand.messages) == 1
        assert "direct names are not encrypted" in str(qm.discards()[-1])

    def test_an_unknown_computer(self, net: Net, here: Qm, hand: Hand) -> None:
        here.to(hand, "q").send(b"secret", negative_journaling=True, **SECRET)
        net.settle()
        assert (here.dead_letters.bodies(), hand.messages) == ([b"secret"], [])
        assert "no key of its computer" in str(here.discards()[-1])

    def test_a_level_that_the_receiver_has_no_key_for(
        self, net: Net, here: Qm, hand: Hand, trust: Changing
    ) -> None:
        know(trust, hand, ENHANCED)
        here.to(hand, "q").send(b"secret", negative_journaling=True, **SECRET)
        net.settle()
        assert (here.dead_letters.bodies(), hand.messages) == ([b"secret"], [])

    def test_a_message_that_encryption_makes_too_large(
        self, net: Net, here: Qm, hand: Hand, trust: Changing
    ) -> None:
        """The receiver would end every session with it."""
        know(trust, hand)
        box = here.to(hand, "q")
        box.send(b"")
        net.settle()
        body = bytes(MAX_PACKET_SIZE - hand.messages[0].packet_size - 100)
        box.send(body, negative_journaling=True, **SECRET)
        net.settle()
        assert (here.dead_letters.bodies(), len(hand.messages)) == ([body], 1)

    def test_a_program_learns_it_at_once(self, here: Qm, hand: Hand) -> None:
        box = here.to(hand, "q")
        with pytest.raises(PublicKeyNotFoundError):
            here.run(lambda: here.engine.sending.to_encrypt(box.handle(QueueAccess.SEND), []))

    def test_what_was_refused_is_told_to_the_sender(self, net: Net, here: Qm, trust: Changing) -> None:
        """FinalAck 0x8007: the message becomes a dead letter of its sender."""
        there = receiver(net, trust)
        trust.store = known(there.guid, there.address, keys=ring(ADVANCED))
        box = there.create("tx", transactional=True)
        there.engine.encryption.opener._keys = KeyRing()
        here.send_together((here.to(there, "tx"), b"secret"), negative_journaling=True, **SECRET)
        net.sleep(60)
        assert box.bodies() == []
        assert here.transactional_dead_letters.bodies() == [b"secret"]
        assert there.discarded() == [MessageClass.NACK_BAD_ENCRYPTION]

    @pytest.mark.conformance("MQQB-166")
    def test_ciphers_that_are_not_allowed_have_a_class_of_their_own(
        self, net: Net, hand: Hand, trust: Changing
    ) -> None:
        there = receiver(net, trust, policy=EncryptionPolicy())
        there.create("tx", transactional=True)
        hand.call(there)
        old: dict[str, Any] = {"privacy_level": PrivacyLevel.ENHANCED, "encryption_algorithm": _A.RC4}
        packet = sealed(hand.transactional(there.name_of("tx"), 1, **old), ENHANCED)
        hand.send(packet)
        net.sleep(1)
        assert hand.final_acks == [(packet.id.uniquifier, 0x800B)]
        assert there.box("tx").bodies() == []


class TestWaitingForAKey:
    """RSA takes a millisecond: the session waits, and nobody else."""

    @pytest.fixture
    def there(self, net: Net) -> Qm:
        there = net.qm("THERE", encryption=encryption(ring()))
        there.create("q")
        return there

    def secret(self, hand: Hand, there: Qm, body: bytes) -> UserMessage:
        return sealed(hand.message(there.name_of("q"), body, **SECRET))

    def waiting(self, qm: Qm) -> list[Unwrap]:
        return [action for action in qm.actions if isinstance(action, Unwrap)]

    def test_what_comes_after_it_waits(self, net: Net, there: Qm, hand: Hand) -> None:
        hand.call(there)
        clear = [hand.message(there.name_of("q"), body) for body in (b"1", b"3")]
        packets = [clear[0], self.secret(hand, there, b"2"), clear[1], self.secret(hand, there, b"4")]
        hand._write(b"".join(packet.data for packet in packets))
        (work,) = self.waiting(there)
        assert there.box("q").bodies() == [b"1"]
        hand._write(hand.message(there.name_of("q"), b"5").data)
        assert there.box("q").bodies() == [b"1"]
        assert self.waiting(there) == [work]
        net.settle()
        assert there.box("q").bodies() == [b"1", b"2", b"3", b"4", b"5"]
        assert self.waiting(there) == []

    def test_other_sessions_go_on(self, net: Net, there: Qm, hand: Hand) -> None:
        other = net.hand()
        hand.call(there)
        other.call(there)
        hand._write(self.secret(hand, there, b"secret").data)
        other._write(other.message(there.name_of("q"), b"clear").data)
        assert there.box("q").bodies() == [b"clear"]
        net.settle()
        assert there.box("q").bodies() == [b"clear", b"secret"]

    def test_a_session_that_ends_meanwhile(self, net: Net, there: Qm, hand: Hand) -> None:
        hand.call(there)
        packet = self.secret(hand, there, b"secret")
        hand._write(packet.data)
        hand.hang_up()
        assert there.box("q").bodies() == []
        hand.call(there)
        hand._write(packet.data)
        net.settle()
        assert there.box("q").bodies() == [b"secret"]

    @pytest.mark.conformance("MQQB-208")
    def test_a_known_key_needs_no_waiting(self, net: Net, there: Qm, hand: Hand) -> None:
        hand.call(there)
        first = self.secret(hand, there, b"1")
        hand.send(first)
        net.settle()
        blob = first.security_data()[1]
        again = self.secret(hand, there, b"2")
        second = UserMessage(again.data.replace(again.security_data()[1], blob))
        hand._write(second.data)
        assert self.waiting(there) == []
        assert there.box("q").bodies() == [b"1", b"2"]

    def test_a_message_for_another_computer_needs_no_key(self, there: Qm, hand: Hand) -> None:
        hand.call(there)
        packet = self.secret(hand, there, b"secret")
        elsewhere = replace(packet.user, queue_manager_address=UUID(int=99))
        hand._write(packet.data.replace(packet.user.encode(), elsewhere.encode()))
        assert self.waiting(there) == []


@pytest.mark.conformance("MQQB-233")
def test_the_caches_are_empty_at_the_start(net: Net, here: Qm, hand: Hand, trust: Changing) -> None:
    know(trust, hand)
    here.to(hand, "q").send(b"secret", **SECRET)
    net.settle()
    assert len(here.engine.encryption.sealer.cache) == 1
    fresh = sending(trust)
    assert (len(fresh.sealer.cache), len(fresh.opener.cache)) == (0, 0)
    assert (fresh.sealer.cache._capacity, fresh.opener.cache._capacity) == (53, 127)
    assert (fresh.sealer.cache._lifetime_s, fresh.opener.cache._lifetime_s) == (600, 600)


def test_no_name_without_a_queue_manager_has_a_key(trust: Changing) -> None:
    for name in ("PUBLIC=00112233-4455-6677-8899-aabbccddeeff", r"DIRECT=HTTP://there/msmq/private$/q"):
        with pytest.raises(SecurityError):
            sending(trust).receiver(FormatName.parse(name))
