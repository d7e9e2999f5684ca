"""Logons with pyspnego as the client: who gets in, who does not, and what each side protects."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from rpc.logons import (
    ACCOUNTS,
    KINDS,
    LEVELS,
    PRIVACY,
    SECRET,
    USER,
    Logons,
    exchange,
    init,
    log_on,
    tokens,
    works,
)
from tiercel.rpc.authentication import acceptors, initiator, ntlm_acceptor, password
from tiercel.rpc.authentication import ntlm_messages as ntlm
from tiercel.rpc.authentication.ntlm_acceptor import CHALLENGE_LIFETIME_S
from tiercel.rpc.authentication.ntlm_session import hmac_md5
from tiercel.rpc.authentication.spnego_tokens import (
    KERBEROS_OID,
    NTLM_OID,
    NegState,
    NegTokenInit,
    NegTokenResp,
    decode_token,
)
from tiercel.rpc.security import (
    AuthenticationError,
    AuthenticationLevel,
    AuthenticationType,
    Identity,
    SecurityContext,
)
from tiercel.security.accounts import stable_sid

NTLM, SPNEGO = KINDS
each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


@pytest.fixture
def logons() -> Logons:
    return Logons()


class TestWhoGetsIn:
    @each_kind
    @pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
    def test_every_level(self, logons: Logons, kind: AuthenticationType, level: AuthenticationLevel) -> None:
        client, server = logons.pair(kind, level)
        assert server.identity is None
        log_on(client, server)
        assert client.is_complete
        assert server.is_complete
        assert server.identity == Identity("reader", "EXAMPLE", stable_sid("reader", "EXAMPLE"))
        assert client.identity is None
        if level.is_signed:
            exchange(client, server, level)

    @pytest.mark.parametrize(("kind", "legs"), [(NTLM, 3), (SPNEGO, 4)])
    def test_the_number_of_legs(self, logons: Logons, kind: AuthenticationType, legs: int) -> None:
        """NTLM ends with a token of the client, which an auth3 carries; SPNEGO with one of the server."""
        assert len(list(tokens(*logons.pair(kind)))) == legs
        assert kind.has_odd_legs == bool(legs % 2)

    @pytest.mark.parametrize("user", ["example\\READER", "Example\\Reader", "local", "SOME-PC\\local"])
    def test_names_are_found_whatever_their_case(self, logons: Logons, user: str) -> None:
        client, server = logons.pair(user=user, secret="lokal" if "local" in user else SECRET)
        log_on(client, server)
        assert server.is_complete

    def test_default_and_call_stand_for_other_levels(self, logons: Logons) -> None:
        client, server = logons.pair(level=AuthenticationLevel.CALL)
        log_on(client, server)
        exchange(client, server, AuthenticationLevel.PACKET)


class TestWhoDoesNot:
    @each_kind
    @pytest.mark.parametrize(
        ("user", "secret", "reason"),
        [
            (USER, "wrong", "the password is wrong"),
            (USER, "", "the password is wrong"),
            ("OTHER\\reader", SECRET, "there is no such account"),
            ("EXAMPLE\\nobody", SECRET, "there is no such account"),
            ("EXAMPLE.ORG\\kim", "", "the account has no password"),
        ],
    )
    def test_all_hear_the_same(
        self, logons: Logons, kind: AuthenticationType, user: str, secret: str, reason: str
    ) -> None:
        client, server = logons.pair(kind, user=user, secret=secret)
        with pytest.raises(AuthenticationError, match=r"^the logon was refused$"):
            log_on(client, server)
        assert not server.is_complete
        assert server.identity is None
        assert len(logons.reasons) == 1
        assert reason in logons.reasons[0]

    @each_kind
    def test_a_challenge_that_is_too_old(self, logons: Logons, kind: AuthenticationType) -> None:
        def late(leg: int, token: bytes) -> bytes:
            logons.time += CHALLENGE_LIFETIME_S / 2 + (0.1 if leg else 0)
            return token

        with pytest.raises(AuthenticationError, match=r"^the logon was refused$"):
            log_on(*logons.pair(kind), late)
        assert "took longer than 60 s" in logons.reasons[0]

    @each_kind
    def test_a_token_of_another_logon(self, logons: Logons, kind: AuthenticationType) -> None:
        recorded = list(tokens(*logons.pair(kind)))
        server = logons.providers[kind](PRIVACY)
        server.step(recorded[0])
        with pytest.raises(AuthenticationError, match=r"^the logon was refused$"):
            server.step(recorded[2])
        assert not server.is_complete

    @each_kind
    def test_nobody_gets_a_second_try(self, logons: Logons, kind: AuthenticationType) -> None:
        client, server = logons.pair(kind)
        seen = list(tokens(client, server))
        with pytest.raises(AuthenticationError, match="unexpected token"):
            server.step(seen[0])
        assert server.is_complete
        failed = logons.providers[kind](PRIVACY)
        failed.step(seen[0])
        for token in (seen[2], seen[0], seen[2]):
            with pytest.raises(AuthenticationError):
                failed.step(token)

    def test_the_work_is_the_same_for_all(self, logons: Logons, monkeypatch: pytest.MonkeyPatch) -> None:
        """Not a matter of time, which no test measures: the same computations are made."""
        original = hmac_md5
        counts = []
        for user, secret in (
            (USER, SECRET),
            (USER, "wrong"),
            ("EXAMPLE\\nobody", "x"),
            ("EXAMPLE.ORG\\kim", "x"),
        ):
            calls: list[int] = []

            def counting(key: bytes, data: bytes, calls: list[int] = calls) -> bytes:
                calls.append(len(key))
                return original(key, data)

            with monkeypatch.context() as patch:
                patch.setattr(ntlm_acceptor, "hmac_md5", counting)
                works(*logons.pair(user=user, secret=secret), lambda _leg, token: token)
            counts.append(calls)
        assert counts == [counts[0]] * 4

    def test_anonymous_and_old_answers(self, logons: Logons) -> None:
        """No answer at all, and one as long as those of NTLMv1."""
        for answer in (b"", bytes(24)):
            client, server = logons.pair()
            challenge = server.step(client.step(b"") or b"")
            token = bytearray(client.step(challenge or b"") or b"")
            token[20:24] = len(answer).to_bytes(2, "little") * 2
            with pytest.raises(AuthenticationError, match=r"^the logon was refused$"):
                server.step(bytes(token))

    @pytest.mark.parametrize("level", [AuthenticationLevel.INTEGRITY, PRIVACY])
    @pytest.mark.parametrize(
        "flag", [ntlm.SIGN, ntlm.SEAL, ntlm.EXTENDED_SESSION_SECURITY, ntlm.KEY_128, ntlm.UNICODE]
    )
    def test_weaker_protection_is_refused_by_both_sides(
        self, logons: Logons, level: AuthenticationLevel, flag: int
    ) -> None:
        for legs in ({0}, {1}, {2}, {0, 1, 2}):

            def weaken(leg: int, token: bytes, legs: set[int] = legs) -> bytes:
                if leg not in legs:
                    return token
                at = (12, 20, 60)[leg]
                flags = int.from_bytes(token[at : at + 4], "little") & ~flag
                return token[:at] + flags.to_bytes(4, "little") + token[at + 4 :]

            client, server = logons.pair(level=level)
            with suppress(AuthenticationError):
                log_on(client, server, weaken)
            assert not (client.is_complete and server.is_complete)

    @pytest.mark.parametrize(
        ("flag", "levels"),
        [
            (ntlm.SIGN, (AuthenticationLevel.PACKET, AuthenticationLevel.INTEGRITY, PRIVACY)),
            (ntlm.SEAL, (PRIVACY,)),
            (ntlm.EXTENDED_SESSION_SECURITY, (AuthenticationLevel.INTEGRITY, PRIVACY)),
            (ntlm.KEY_128, (AuthenticationLevel.INTEGRITY, PRIVACY)),
        ],
    )
    def test_a_server_that_offers_too_little(
        self, logons: Logons, flag: int, levels: tuple[AuthenticationLevel, ...]
    ) -> None:
        for level in LEVELS:
            client, _ = logons.pair(level=level)
            flags = ntlm.read_negotiate(client.step(b"") or b"") | ntlm.TARGET_INFO
            challenge = ntlm.Challenge(flags & ~flag, bytes(8), "S", {ntlm.AV_COMPUTER: b"S\0"}).encode()
            if level in levels:
                with pytest.raises(AuthenticationError, match="the server does not offer"):
                    client.step(challenge)
                assert not client.is_complete
            elif level is AuthenticationLevel.CONNECT or flag == ntlm.SEAL:
                client.step(challenge)
                assert client.is_complete


class TestChangedOnTheWay:
    @pytest.mark.parametrize("leg", [0, 1, 2])
    def test_every_byte_of_ntlm(self, logons: Logons, leg: int) -> None:
        """The client sends a MIC over all three messages, so that no byte can be another."""
        size = len(list(tokens(*logons.pair()))[leg])
        for at in range(size):

            def flip(here: int, token: bytes, at: int = at) -> bytes:
                if here != leg or at >= len(token):
                    return token
                return token[:at] + bytes([token[at] ^ 1 << at % 8]) + token[at + 1 :]

            assert not works(*logons.pair(), flip), f"byte {at} of message {leg}"

    @pytest.mark.parametrize("leg", [0, 1, 2, 3])
    def test_every_byte_of_spnego(self, logons: Logons, leg: int) -> None:
        """What it changes either ends the logon, or is of no consequence: reqFlags and negState."""
        size = len(list(tokens(*logons.pair(SPNEGO)))[leg])
        harmless = set()
        for at in range(size):

            def flip(here: int, token: bytes, at: int = at) -> bytes:
                if here != leg or at >= len(token):
                    return token
                return token[:at] + bytes([token[at] ^ 1 << at % 8]) + token[at + 1 :]

            client, server = logons.pair(SPNEGO)
            if works(client, server, flip):
                assert server.identity is not None
                assert server.identity.name == "reader"
                harmless.add(at)
        assert len(harmless) <= 3, sorted(harmless)

    @each_kind
    def test_every_length(self, logons: Logons, kind: AuthenticationType) -> None:
        seen = list(tokens(*logons.pair(kind)))
        for leg in (0, 2):
            for size in range(0, len(seen[leg]), 3):
                short = lambda here, token, leg=leg, size=size: token[:size] if here == leg else token  # noqa: E731
                assert not works(*logons.pair(kind), short)

    @each_kind
    @pytest.mark.parametrize("level", [AuthenticationLevel.INTEGRITY, PRIVACY])
    def test_every_byte_of_a_fragment(
        self, logons: Logons, kind: AuthenticationType, level: AuthenticationLevel
    ) -> None:
        sizes = (6, 9, 7, 16)
        for part, size in enumerate(sizes):
            for at in range(size):
                client, server = logons.pair(kind, level)
                log_on(client, server)
                parts = [b"header", b"some stub", b"trailer"]
                if level.is_sealed:
                    parts[1], signature = client.wrap(*parts)
                else:
                    signature = client.sign(*parts)
                parts.append(signature)
                changed = bytearray(parts[part])
                changed[at] ^= 1 << at % 8
                parts[part] = bytes(changed)
                check = server.unwrap if level.is_sealed else server.verify
                with pytest.raises(AuthenticationError):
                    check(*parts)
                assert not server.is_complete

    @each_kind
    def test_repeated_left_out_and_swapped_fragments(self, logons: Logons, kind: AuthenticationType) -> None:
        orders: list[list[int]] = [[0, 0], [1], [0, 2], [1, 0]]
        for order in orders:
            client, server = logons.pair(kind)
            log_on(client, server)
            sealed = [client.wrap(b"h", b"stub%d" % number, b"t") for number in range(3)]

            with pytest.raises(AuthenticationError):
                take(server, [sealed[number] for number in order])

    def test_a_fragment_sent_back_to_its_sender(self, logons: Logons) -> None:
        client, server = logons.pair()
        log_on(client, server)
        sealed, signature = client.wrap(b"", b"stub", b"")
        with pytest.raises(AuthenticationError):
            client.unwrap(b"", sealed, b"", signature)


class TestSpnego:
    def test_another_choice_of_the_client_needs_a_signed_list(self, logons: Logons) -> None:
        """The client would rather have Kerberos, and its first token is of Kerberos."""
        server = logons.providers[SPNEGO](PRIVACY)
        answer = decode_token(server.step(init([KERBEROS_OID, NTLM_OID], b"a ticket")) or b"")
        assert answer == NegTokenResp(NegState.REQUEST_MIC, NTLM_OID)
        client, _ = logons.pair(NTLM)
        reply = decode_token(server.step(NegTokenResp(None, None, client.step(b"")).encode()) or b"")
        assert isinstance(reply, NegTokenResp)
        assert reply.state == NegState.ACCEPT_INCOMPLETE
        last = client.step(reply.response_token or b"")
        with pytest.raises(AuthenticationError):
            server.step(NegTokenResp(None, None, last).encode())

    def test_nothing_in_common(self, logons: Logons) -> None:
        with pytest.raises(AuthenticationError, match="in common"):
            logons.providers[SPNEGO](PRIVACY).step(init([KERBEROS_OID]))
        with pytest.raises(AuthenticationError):
            logons.providers[SPNEGO](PRIVACY).step(init([]))

    def test_bare_ntlm(self, logons: Logons) -> None:
        """As Wine sends it under this type."""
        client, _ = logons.pair(NTLM)
        server = logons.providers[SPNEGO](PRIVACY)
        log_on(client, server)
        exchange(client, server, PRIVACY)
        assert server.identity is not None

    def test_a_signature_that_was_taken_away(self, logons: Logons) -> None:
        def strip(leg: int) -> Callable[[int, bytes], bytes]:
            def change(here: int, token: bytes) -> bytes:
                if here != leg:
                    return token
                message = decode_token(token)
                assert isinstance(message, NegTokenResp)
                assert message.mech_list_mic is not None
                return NegTokenResp(
                    message.state, message.supported_mechanism, message.response_token
                ).encode()

            return change

        client, server = logons.pair(SPNEGO)
        with pytest.raises(AuthenticationError, match=r"^the logon was refused$"):
            log_on(client, server, strip(2))
        assert not server.is_complete
        client, server = logons.pair(SPNEGO)
        with pytest.raises(AuthenticationError, match="the server did not sign the list"):
            log_on(client, server, strip(3))
        assert not client.is_complete

    def test_rejected(self, logons: Logons) -> None:
        client, server = logons.pair(SPNEGO)
        server.step(client.step(b"") or b"")
        with pytest.raises(AuthenticationError):
            server.step(NegTokenResp(NegState.REJECT).encode())

    def test_tokens(self) -> None:
        message = NegTokenResp(NegState.REQUEST_MIC, NTLM_OID, bytes(300), b"mic")
        assert decode_token(message.encode()) == message
        token = decode_token(init([KERBEROS_OID, NTLM_OID], bytes(70_000)))
        assert isinstance(token, NegTokenInit)
        assert token.mechanisms == (KERBEROS_OID, NTLM_OID)
        assert token.mech_token == bytes(70_000)


def take(server: SecurityContext, fragments: list[tuple[bytes, bytes]]) -> None:
    for sealed, signature in fragments:
        server.unwrap(b"h", sealed, b"t", signature)


class TestTheWrongMoment:
    def test_fragments_before_the_end(self, logons: Logons) -> None:
        for context in (*logons.pair(NTLM), *logons.pair(SPNEGO)):
            with pytest.raises(AuthenticationError, match="not complete"):
                context.wrap(b"", b"", b"")
            with pytest.raises(AuthenticationError, match="not complete"):
                context.unwrap(b"", b"", b"", b"")
            with pytest.raises(AuthenticationError, match="not complete"):
                _ = context.signature_size

    @pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
    def test_another_protection_than_that_of_the_level(
        self, logons: Logons, level: AuthenticationLevel
    ) -> None:
        client, server = logons.pair(level=level)
        log_on(client, server)
        if level.is_sealed or not level.is_signed:
            with pytest.raises(AuthenticationError, match="not protected like this"):
                client.sign(b"", b"", b"")
        if not level.is_sealed:
            with pytest.raises(AuthenticationError, match="not protected like this"):
                client.wrap(b"", b"", b"")

    def test_no_provider(self) -> None:
        assert acceptors() == {}
        with pytest.raises(ValueError, match="cannot log on with SCHANNEL"):
            initiator(password("a", "b"), "host", AuthenticationType.SCHANNEL)
        assert ACCOUNTS.find("reader", "EXAMPLE") is not None
