"""Known answers of [MS-NLMP] 4.2.4, and messages of clients that are not pyspnego."""

import struct

import pytest

from rpc.logons import ACCOUNTS, PRIVACY, init
from tiercel.model.errors import DecodeError
from tiercel.rpc.authentication import NtlmServer, acceptors
from tiercel.rpc.authentication import ntlm_messages as ntlm
from tiercel.rpc.authentication.ntlm_session import (
    NtlmSession,
    hmac_md5,
    ntowf_v2,
    rc4,
    seal_key,
    sign_key,
)
from tiercel.rpc.authentication.spnego_tokens import KERBEROS_OID, NTLM_OID, NegTokenResp
from tiercel.rpc.security import AuthenticationError, AuthenticationLevel, AuthenticationType
from tiercel.security.accounts import Account, Accounts
from tiercel.security.nt_hash import nt_hash

# 4.2.1 and 4.2.4
SERVER_CHALLENGE = bytes.fromhex("0123456789abcdef")
RANDOM_SESSION_KEY = b"\x55" * 16
FLAGS = 0xE28A8233
CHALLENGE = bytes.fromhex(
    "4e544c4d53535000020000000c000c003800000033828ae20123456789abcdef"
    "00000000000000002400240044000000060070170000000f5300650072007600"
    "6500720002000c0044006f006d00610069006e0001000c005300650072007600"
    "6500720000000000"
)
AUTHENTICATE = bytes.fromhex(
    "4e544c4d5353500003000000180018006c00000054005400840000000c000c00"
    "480000000800080054000000100010005c00000010001000d8000000358288e2"
    "0501280a0000000f44006f006d00610069006e00550073006500720043004f00"
    "4d0050005500540045005200"
    "86c35097ac9cec102554764a57cccc19aaaaaaaaaaaaaaaa"
    "68cd0ab851e51c96aabc927bebef6a1c"
    "01010000000000000000000000000000aaaaaaaaaaaaaaaa00000000"
    "02000c0044006f006d00610069006e0001000c005300650072007600650072000000000000000000"
    "c5dad2544fc9799094ce1ce90bc9d03e"
)
KEY = bytes.fromhex("0c868a403bfd7a93a3001ef22ef02e3f")
SESSION_BASE_KEY = bytes.fromhex("8de40ccadbc14a82f15cb0ad0de95ca3")
PLAIN = "Plaintext".encode("utf-16-le")


class TestKnownAnswers:
    def test_ntowf_v2(self) -> None:
        assert ntowf_v2(nt_hash("Password"), "User", "Domain") == KEY

    def test_the_proof_and_the_session_base_key(self) -> None:
        message = ntlm.Authenticate.decode(AUTHENTICATE)
        assert (message.user, message.domain, message.flags) == ("User", "Domain", 0xE2888235)
        assert hmac_md5(KEY, SERVER_CHALLENGE + message.blob) == message.proof
        assert hmac_md5(KEY, message.proof) == SESSION_BASE_KEY

    def test_the_encrypted_session_key(self) -> None:
        message = ntlm.Authenticate.decode(AUTHENTICATE)
        assert rc4(SESSION_BASE_KEY).update(RANDOM_SESSION_KEY) == message.session_key
        assert rc4(SESSION_BASE_KEY).update(message.session_key) == RANDOM_SESSION_KEY

    def test_the_keys(self) -> None:
        assert seal_key(RANDOM_SESSION_KEY, FLAGS, b"client-to-server").hex() == (
            "59f600973cc4960a25480a7c196e4c58"
        )
        assert sign_key(RANDOM_SESSION_KEY, b"client-to-server").hex() == "4788dc861b4782f35d43fd98fe1a2d39"

    def test_seal_and_sign(self) -> None:
        client = NtlmSession(RANDOM_SESSION_KEY, FLAGS, is_server=False)
        sealed, signature = client.wrap(b"", PLAIN, b"")
        assert sealed.hex() == "54e50165bf1936dc996020c1811b0f06fb5f"
        assert signature.hex() == "010000007fb38ec5c55d497600000000"
        server = NtlmSession(RANDOM_SESSION_KEY, FLAGS, is_server=True)
        assert server.unwrap(b"", sealed, b"", signature) == PLAIN

    def test_the_challenge(self) -> None:
        """Ours differs from the example in Version, which is for debugging only, and in nothing else."""
        info = {
            ntlm.AV_DOMAIN: "Domain".encode("utf-16-le"),
            ntlm.AV_COMPUTER: "Server".encode("utf-16-le"),
        }
        ours = ntlm.Challenge(FLAGS, SERVER_CHALLENGE, "Server", info).encode()
        assert ours[:48] + ours[56:] == CHALLENGE[:48] + CHALLENGE[56:]

    @pytest.mark.parametrize(("flags", "size"), [(ntlm.KEY_128, 16), (ntlm.KEY_56, 7), (0, 5)])
    def test_shorter_keys(self, flags: int, size: int) -> None:
        key = bytes(range(16))
        assert seal_key(key, flags, b"x") == seal_key(key[:size], ntlm.KEY_128, b"x")

    def test_a_key_exchange_seals_the_checksum(self) -> None:
        plain = NtlmSession(RANDOM_SESSION_KEY, FLAGS & ~ntlm.KEY_EXCHANGE, is_server=False)
        assert plain.wrap(b"", PLAIN, b"")[1].hex() == "010000007035285" + "1f256430900000000"


class TestNumbers:
    def test_they_go_around(self) -> None:
        client, server = (NtlmSession(RANDOM_SESSION_KEY, FLAGS, is_server=side) for side in (False, True))
        client._number_out = server._number_in = 0xFFFF_FFFF
        for _ in range(2):
            server.verify(b"x", client.sign(b"x"))
        assert (client._number_out, server._number_in) == (1, 1)


class TestAServerThatIsAskedByTheExample:
    """The messages of 4.2.4.3: a client without a MIC, and with no time in its answer."""

    def accept(self, token: bytes, level: AuthenticationLevel = PRIVACY) -> list[str]:
        accounts = Accounts([Account("user", "domain", None, nt_hash("Password"))])
        reasons: list[str] = []
        server = NtlmServer(accounts, "Server", report=reasons.append, draw=lambda _size: SERVER_CHALLENGE)(
            level
        )
        server.step(struct.pack("<8sII", ntlm.SIGNATURE, 1, FLAGS))
        server._timestamp = None  # type: ignore[assignment] # the example's challenge has none
        try:
            server.step(token)
        except AuthenticationError:
            return reasons
        sealed, signature = NtlmSession(RANDOM_SESSION_KEY, FLAGS, is_server=False).wrap(b"", PLAIN, b"")
        assert server.unwrap(b"", sealed, b"", signature) == PLAIN
        return []

    def test_it_gets_in(self) -> None:
        assert self.accept(AUTHENTICATE) == []

    def test_every_byte_of_its_answer_counts(self) -> None:
        for at in [*range(0x84, 0xD8), *range(0x48, 0x5C)]:
            changed = bytearray(AUTHENTICATE)
            changed[at] ^= 0x40
            assert self.accept(bytes(changed)), hex(at)

    def test_a_client_without_a_mic_must_have_seen_the_time(self) -> None:
        accounts = Accounts([Account("user", "domain", None, nt_hash("Password"))])
        reasons: list[str] = []
        server = NtlmServer(accounts, "S", report=reasons.append, draw=lambda _size: SERVER_CHALLENGE)(
            PRIVACY
        )
        server.step(struct.pack("<8sII", ntlm.SIGNATURE, 1, FLAGS))
        with pytest.raises(AuthenticationError):
            server.step(AUTHENTICATE)
        assert "changed on their way" in reasons[0]


class TestMessages:
    @pytest.mark.parametrize(
        ("data", "words"),
        [
            (b"", "needs 12 bytes"),
            (b"NTLMSSX\0\x01\0\0\0" + bytes(4), "Signature"),
            (b"NTLMSSP\0\x02\0\0\0" + bytes(4), "MessageType"),
            (b"NTLMSSP\0\x01\0\0\0\0\0\0", "needs 16 bytes"),
        ],
    )
    def test_a_negotiate_that_is_none(self, data: bytes, words: str) -> None:
        with pytest.raises(DecodeError, match=words):
            ntlm.read_negotiate(data)

    @pytest.mark.parametrize(
        ("at", "value", "words"),
        [
            (20, "ffff", "outside of the message"),
            (24, "00000000", "outside of the message"),
            (24, "ffffffff", "outside of the message"),
            (20, "1800", "not an NTLMv2 response"),
            (36, "0700", "no UTF-16"),
            (60, "34", "UTF-16 are wanted"),
            (0xB2, "ffff", "has no end"),
        ],
    )
    def test_an_authenticate_that_is_none(self, at: int, value: str, words: str) -> None:
        data = bytearray(AUTHENTICATE)
        data[at : at + len(value) // 2] = bytes.fromhex(value)
        with pytest.raises(DecodeError, match=words):
            ntlm.Authenticate.decode(bytes(data))

    @pytest.mark.parametrize("size", range(0, len(AUTHENTICATE), 7))
    def test_a_short_one(self, size: int) -> None:
        with pytest.raises(DecodeError):
            ntlm.Authenticate.decode(AUTHENTICATE[:size])

    def test_no_room_for_a_mic(self) -> None:
        message = ntlm.Authenticate.decode(AUTHENTICATE)
        assert message.mic == b""
        assert message.without_mic == AUTHENTICATE
        assert not message.has_mic

    def test_capitals_are_those_of_windows(self) -> None:
        """Python's capitals of a sharp s are two letters; Windows leaves it."""
        assert ntowf_v2(bytes(16), "straße", "") == ntowf_v2(bytes(16), "STRAßE", "")
        assert ntowf_v2(bytes(16), "straße", "") != ntowf_v2(bytes(16), "STRASSE", "")

    def test_the_accounts_of_the_tests(self) -> None:
        assert ACCOUNTS.find("LOCAL", "ANY") is not None


class TestImpacket:
    """What impacket 0.13.1 answers to a fixed challenge: no MIC, and four bytes less at the end than Windows.

    pyspnego puts the answer together again as Windows would send it, and so finds the proof wrong.
    """

    NEGOTIATE = bytes.fromhex("4e544c4d5353500001000000358288e000000000000000000000000000000000")
    AUTHENTICATE = bytes.fromhex(
        "4e544c4d5353500003000000180018005a000000f000f000720000000e000e00400000000c000c004e00000000000000"
        "5a0000001000100062010000358288e04500580041004d0050004c0045007200650061006400650072004d7317fe9cac"
        "e0842a38a0720c9a2a1b44674c6d4f495952c1a2b10e4eaeed568164a0806cb2330e010100000000000000006dc64717"
        "da0144674c6d4f49595200000000020014004c0049004e00550058002d0048004f0053005400010014004c0049004e00"
        "550058002d0048004f0053005400040016006500780061006d0070006c0065002e006f007200670003002c006c006900"
        "6e00750078002d0068006f00730074002e006500780061006d0070006c0065002e006f00720067000700080000006dc6"
        "4717da010900360063006900660073002f006c0069006e00750078002d0068006f00730074002e006500780061006d00"
        "70006c0065002e006f00720067000000000017d40f7d4f5753430ad2830e59f268c1"
    )
    SESSION_KEY = bytes.fromhex("4c4658783152744e596646335661376e")

    def server(self, now: float = 1.7e9) -> NtlmServer:
        accounts = Accounts([Account("reader", "EXAMPLE", None, nt_hash("secret"))])
        return NtlmServer(
            accounts,
            "linux-host",
            "linux-host.example.org",
            now=lambda: now,
            draw=lambda _size: SERVER_CHALLENGE,
        )

    def test_it_gets_in(self) -> None:
        server = self.server()(PRIVACY)
        server.step(self.NEGOTIATE)
        assert server.step(self.AUTHENTICATE) is None
        assert str(server.identity) == "EXAMPLE\\reader"
        client = NtlmSession(self.SESSION_KEY, 0xE0888235, is_server=False)
        sealed, signature = client.wrap(b"h", b"stub", b"t")
        assert server.unwrap(b"h", sealed, b"t", signature) == b"stub"
        sealed, signature = server.wrap(b"h", b"answer", b"t")
        assert client.unwrap(b"h", sealed, b"t", signature) == b"answer"

    def test_every_byte_of_the_answer_and_the_names_counts(self) -> None:
        for at in [*range(0x40, 0x5A), *range(0x72, 0x162)]:
            changed = bytearray(self.AUTHENTICATE)
            changed[at] ^= 0x21
            server = self.server()(PRIVACY)
            server.step(self.NEGOTIATE)
            if bytes(changed).upper() == self.AUTHENTICATE.upper():
                continue
            with pytest.raises(AuthenticationError):
                server.step(bytes(changed))

    @pytest.mark.parametrize("flag", [ntlm.SIGN, ntlm.SEAL, ntlm.EXTENDED_SESSION_SECURITY, ntlm.KEY_128])
    def test_a_client_that_can_too_little(self, flag: int) -> None:
        """Without a MIC somebody may change the flags; whoever does gains nothing by it."""
        flags = 0xE0888235 & ~flag
        for changed in ({0}, {1}, {0, 1}):
            messages = [self.NEGOTIATE, self.AUTHENTICATE]
            for index, at in ((0, 12), (1, 60)):
                if index in changed:
                    old = messages[index]
                    messages[index] = old[:at] + flags.to_bytes(4, "little") + old[at + 4 :]
            server = self.server()(PRIVACY)
            server.step(messages[0])
            with pytest.raises(AuthenticationError):
                server.step(messages[1])
            server = self.server()(AuthenticationLevel.CONNECT)
            server.step(messages[0])
            server.step(messages[1])
            assert server.is_complete

    def test_in_spnego_a_list_without_a_signature(self) -> None:
        """It is enough where the client's first choice was taken, and not where it was another's."""
        for mechanisms, is_enough in (([NTLM_OID], True), ([KERBEROS_OID, NTLM_OID], False)):
            server = acceptors(self.server())[AuthenticationType.SPNEGO](PRIVACY)
            first = self.NEGOTIATE if is_enough else b"a ticket"
            server.step(init(mechanisms, first))
            if not is_enough:
                server.step(NegTokenResp(response_token=self.NEGOTIATE).encode())
            last = NegTokenResp(response_token=self.AUTHENTICATE).encode()
            if is_enough:
                server.step(last)
            else:
                with pytest.raises(AuthenticationError):
                    server.step(last)
            assert server.is_complete == is_enough

    def test_the_same_answer_at_another_time(self) -> None:
        server = self.server(now=1.7e9 + 1)(PRIVACY)
        server.step(self.NEGOTIATE)
        with pytest.raises(AuthenticationError):
            server.step(self.AUTHENTICATE)
