"""[C706] 12.6.4, [MS-RPCE] 2.2.2"""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiercel.model.errors import DecodeError
from tiercel.rpc import pdu
from tiercel.rpc.pdu import (
    AlterContext,
    Auth3,
    Bind,
    BindAck,
    BindNak,
    ContextAnswer,
    ContextElement,
    Fault,
    Pdu,
    PduType,
    Request,
    Response,
    Verifier,
    decode_pdu,
)
from tiercel.rpc.syntax import NDR, NDR64, NO_SYNTAX, SyntaxId

from .strategies import pdus

REMOTE_READ = SyntaxId(UUID("1a9134dd-7b39-45ba-ad88-44d01ca47f28"), 1)
# As impacket 0.13.1 sends it for RemoteRead.
BIND = bytes.fromhex(
    "05000b0310000000480000000100000"
    "0b810b810000000000100000000000100"
    "dd34911a397bba45ad8844d01ca47f2801000000"
    "045d888aeb1cc9119fe808002b10486002000000"
)
BIND_ACK = bytes.fromhex(
    "05000c03100000003c000000010000 00b810b81078560000 0500 32313033 00 00 01000000 0000 0000"
    "045d888aeb1cc9119fe808002b10486002000000".replace(" ", "")
)


class TestVectors:
    def test_bind(self) -> None:
        value = decode_pdu(BIND)
        context = ContextElement(0, REMOTE_READ, (NDR,))
        assert value == Bind(call_id=1, max_xmit_frag=4280, max_recv_frag=4280, contexts=(context,))
        assert value.encode() == BIND

    def test_bind_ack_aligns_what_follows_the_address(self) -> None:
        value = decode_pdu(BIND_ACK)
        assert value == BindAck(
            call_id=1,
            max_xmit_frag=4280,
            max_recv_frag=4280,
            assoc_group_id=0x5678,
            secondary_address=b"2103\0",
            results=(ContextAnswer(0, 0, NDR),),
        )
        assert value.encode() == BIND_ACK

    def test_fault_is_32_bytes(self) -> None:
        value = Fault(call_id=7, context_id=1, status=0x1C010002, flags=pdu.WHOLE | pdu.DID_NOT_EXECUTE)
        expected = "0500032310000000200000000700000020000000010000000200011c00000000"
        assert value.encode().hex() == expected
        assert decode_pdu(value.encode()) == value

    def test_request_with_object(self) -> None:
        value = Request(
            call_id=3, flags=pdu.WHOLE | pdu.OBJECT_UUID, opnum=9, object=REMOTE_READ.uuid, stub=b"xy"
        )
        data = value.encode()
        assert data[24:40] == REMOTE_READ.uuid.bytes_le
        assert decode_pdu(data) == value

    def test_object_and_flag_belong_together(self) -> None:
        with pytest.raises(ValueError, match="object"):
            Request(object=REMOTE_READ.uuid).encode()

    def test_bind_nak_without_versions_and_with_extended_error(self) -> None:
        assert decode_pdu(bytes.fromhex("05000d031000000012000000010000000400")) == BindNak(
            call_id=1, reason=4, versions=()
        )
        full = bytes.fromhex("05000d03100000002c0000000100000004000105") + b"\0" + bytes(23)
        assert decode_pdu(full) == BindNak(call_id=1, reason=4, versions=((5, 0),))

    def test_auth3(self) -> None:
        value = Auth3(call_id=1, auth=Verifier(10, 6, 79231, b"token"))
        data = value.encode()
        assert data[:16].hex() == "05001003" + "10000000" + "2100" + "0500" + "01000000"
        assert decode_pdu(data) == value

    def test_alter_context_is_no_bind(self) -> None:
        assert Bind(call_id=1) != AlterContext(call_id=1)
        assert decode_pdu(AlterContext(call_id=1).encode()) == AlterContext(call_id=1)


class TestSecurityTrailer:
    """[MS-RPCE] 2.2.2.11: it is found from the end of the PDU."""

    def test_stub_keeps_its_padding(self) -> None:
        auth = Verifier(10, 6, 1, b"0123456789abcdef", pad_length=3)
        data = Request(call_id=1, stub=b"stub\xbb\xbb\xbb", auth=auth).encode()
        value = decode_pdu(data)
        assert isinstance(value, Request)
        assert (value.stub, value.auth) == (b"stub\xbb\xbb\xbb", auth)

    def test_padding_of_a_bind_is_skipped(self) -> None:
        """A bind that aligns its trailer to sixteen bytes, as the words want."""
        plain = Bind(call_id=1, contexts=(ContextElement(0, REMOTE_READ, (NDR,)),)).encode()
        data = plain + bytes(8) + bytes.fromhex("0a06080001000000") + b"token"
        data = data[:8] + len(data).to_bytes(2, "little") + b"\x05\0" + data[12:]
        assert decode_pdu(data).auth == Verifier(10, 6, 1, b"token")

    def test_more_padding_than_stub(self) -> None:
        data = Response(stub=b"12", auth=Verifier(10, 6, 1, b"t", pad_length=3)).encode()
        with pytest.raises(DecodeError, match="auth_pad_length"):
            decode_pdu(data)


def replaced(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


class TestRefusals:
    @pytest.mark.parametrize(
        ("data", "field"),
        [
            (b"", "header"),
            (BIND[:15], "header"),
            (replaced(BIND, 0, b"\x04"), "rpc_vers"),
            (replaced(BIND, 1, b"\x01"), "rpc_vers"),
            (replaced(BIND, 4, b"\x00"), "packed_drep"),
            (replaced(BIND, 4, b"\x11"), "packed_drep"),
            (replaced(BIND, 8, b"\x0f\0"), "frag_length"),
            (BIND[:-1], "frag_length"),
            (replaced(BIND, 2, b"\x01"), "ptype"),
            (replaced(BIND, 10, b"\xff\xff"), "auth_length"),
            (replaced(BIND, 24, b"\x02"), "p_cont_elem"),
            (replaced(BIND, 30, b"\x02"), "uuid"),
            (replaced(BIND_ACK, 24, b"\xff\xff"), "sec_addr"),
            (replaced(Auth3(auth=Verifier(10, 6, 1, b"t")).encode(), 10, b"\0\0"), "auth_length"),
        ],
    )
    def test_names_the_field(self, data: bytes, field: str) -> None:
        with pytest.raises(DecodeError) as caught:
            decode_pdu(data)
        assert caught.value.field == field

    def test_nothing_longer_than_a_pdu_is_made(self) -> None:
        with pytest.raises(ValueError, match="65536"):
            Request(stub=bytes(65536 - 24)).encode()
        assert len(Request(stub=bytes(65535 - 24)).encode()) == 65535


class TestProperties:
    @given(pdus)
    def test_round_trip(self, value: Pdu) -> None:
        data = value.encode()
        assert decode_pdu(data) == value
        assert len(data) == int.from_bytes(data[8:10], "little")

    @given(st.binary(max_size=120), st.sampled_from(PduType))
    def test_any_bytes_are_a_value_or_a_decode_error(self, body: bytes, kind: PduType) -> None:
        head = (
            bytes((5, 0, kind, 3))
            + b"\x10\0\0\0"
            + (len(body) + 16).to_bytes(2, "little")
            + body[:2]
            + b"\1\0\0\0"
        )
        head += bytes(16 - len(head))
        try:
            value = decode_pdu(head + body)
        except DecodeError:
            return
        assert decode_pdu(value.encode()) == value


class TestSyntaxes:
    def test_features(self) -> None:
        """[MS-RPCE] 2.2.2.14, as Windows sends it."""
        sent = SyntaxId.decode(bytes.fromhex("2c1cb76c12984045030000000000000001000000"))
        assert sent.features == 3
        assert sent == SyntaxId.of_features(3)
        assert NDR.features is None
        assert NDR64.features is None
        assert NO_SYNTAX.features is None
