import pytest

from tiercel.model.errors import DecodeError
from tiercel.wire.key_blobs import SESSION_KEY_ALGORITHMS, PrivateKeyBlob, PublicKeyBlob, SimpleBlob

from .packets import assert_both_ways

# An RSA key of 512 bits, made for this test: two primes, and d for e = 65537.
P = 2**255 - 19
Q = 2**256 - 189
N, E = P * Q, 65537
D = pow(E, -1, (P - 1) * (Q - 1))
SESSION_KEY = bytes(range(16))


class TestPublicKeyBlob:
    """[MS-MQQB] 2.4.1"""

    def test_bytes(self) -> None:
        number = bytes(range(1, 65))  # little-endian, so 0x40 is the most significant
        blob = PublicKeyBlob.of(int.from_bytes(number, "little"), 65537)
        assert_both_ways(blob, f"06020000 00a40000 52534131 00020000 01000100 {number.hex()}")
        assert blob.modulus_number == int.from_bytes(number, "little")

    @pytest.mark.parametrize(("bits", "size"), [(512, 84), (1024, 148), (2048, 276)])
    def test_sizes(self, bits: int, size: int) -> None:
        blob = PublicKeyBlob.of(1 << bits - 1, 3)
        assert len(blob.encode()) == size
        assert PublicKeyBlob.decode(blob.encode()) == blob
        assert blob.bit_length == bits

    def test_a_signing_key(self) -> None:
        """[MS-MQMQ] 2.2.20.6"""
        assert PublicKeyBlob.of(255, 3, key_type=0x2400).encode().hex(" ", -4).startswith("06020000 00240000")

    @pytest.mark.parametrize("at", [0, 1, 2, 4, 5, 8, 11])
    def test_another_header_is_refused(self, at: int) -> None:
        data = bytearray(PublicKeyBlob.of(N, E).encode())
        data[at] ^= 0x40
        with pytest.raises(DecodeError, match="PublicKeyBlob"):
            PublicKeyBlob.decode(bytes(data))

    @pytest.mark.parametrize("bit_length", [511, 513, 520, 504, 0xFFFFFFF8])
    def test_a_modulus_of_another_length_is_refused(self, bit_length: int) -> None:
        data = bytearray(PublicKeyBlob.of(1 << 511, E).encode())
        data[12:16] = bit_length.to_bytes(4, "little")
        with pytest.raises(DecodeError):
            PublicKeyBlob.decode(bytes(data))


class TestSimpleBlob:
    """[MS-MQQB] 2.4.2"""

    @pytest.mark.conformance("MQQB-206")
    @pytest.mark.parametrize(
        ("algorithm", "wire"),
        [
            (0x660E, "0e660000"),
            (0x660F, "0f660000"),
            (0x6610, "10660000"),
            (0x6602, "02660000"),
            (0x6801, "01680000"),
        ],
        ids=["AES-128", "AES-192", "AES-256", "RC2", "RC4"],
    )
    def test_bytes(self, algorithm: int, wire: str) -> None:
        blob = SimpleBlob(session_key_algorithm=algorithm, encrypted_key=b"\1\2\3\4")
        assert_both_ways(blob, f"01020000 {wire} 00a40000 01020304")

    @pytest.mark.conformance("MQQB-206")
    @pytest.mark.parametrize(("bits", "size"), [(512, 76), (1024, 140), (2048, 268)])
    def test_the_key_is_as_long_as_the_modulus(self, bits: int, size: int) -> None:
        """MQQB T56: the 256 bytes of the text are those of one key length only."""
        blob = SimpleBlob(encrypted_key=bytes(bits // 8))
        assert len(blob.encode()) == size
        assert SimpleBlob.decode(blob.encode()) == blob

    @pytest.mark.conformance("MQQB-206")
    def test_reversed_bytes_decrypt(self) -> None:
        """RSAES-PKCS1-v1_5 worked out by hand: 00 02, non-zero filling, 00, the key."""
        public = PublicKeyBlob.decode(PublicKeyBlob.of(N, E).encode())
        block = b"\0\2" + b"\xff" * (64 - 3 - len(SESSION_KEY)) + b"\0" + SESSION_KEY
        number = pow(int.from_bytes(block, "big"), public.public_exponent, public.modulus_number)
        wire = bytes.fromhex("01020000 0e660000 00a40000") + number.to_bytes(64, "little")
        received = SimpleBlob.decode(wire).encrypted_key[::-1]
        opened = pow(int.from_bytes(received, "big"), D, N).to_bytes(64, "big")
        assert opened.startswith(b"\0\2")
        assert opened.rpartition(b"\xff\0")[2] == SESSION_KEY

    def test_algorithms(self) -> None:
        assert {0x660E, 0x660F, 0x6610, 0x6602, 0x6801} == SESSION_KEY_ALGORITHMS

    @pytest.mark.parametrize(
        ("wire", "field"),
        [
            ("01020000 03660000 00a40000", "session_key_algorithm"),
            ("01020000 0e660000 00240000", "header"),
            ("06020000 0e660000 00a40000", "header"),
            ("01020000 0e660000 00a400", "key_type"),
        ],
    )
    def test_what_is_none_is_refused(self, wire: str, field: str) -> None:
        with pytest.raises(DecodeError) as caught:
            SimpleBlob.decode(bytes.fromhex(wire))
        assert (caught.value.structure, caught.value.field) == ("SimpleBlob", field)


class TestPrivateKeyBlob:
    def test_bytes(self) -> None:
        """Of 32 bits: modulus and private exponent have four bytes, the others two."""
        numbers = (b"\1\2\3\4", b"\5\6", b"\7\10", b"\11\12", b"\13\14", b"\15\16", b"\21\22\23\24")
        blob = PrivateKeyBlob(0x207, 0xA400, 0x32415352, 32, 65537, *numbers)
        assert_both_ways(blob, f"07020000 00a40000 52534132 20000000 01000100 {b''.join(numbers).hex()}")

    @pytest.mark.parametrize("at", [0, 1, 5, 8, 12])
    def test_another_header_is_refused(self, at: int) -> None:
        data = bytearray(PrivateKeyBlob().encode())
        data[at] ^= 0x48
        with pytest.raises(DecodeError, match="PrivateKeyBlob"):
            PrivateKeyBlob.decode(bytes(data))
