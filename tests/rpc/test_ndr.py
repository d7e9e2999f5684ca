"""[C706] 14, [MS-RPCE] 3.1.1.5.3; the vectors are those of conformance/MS-MQRR.md."""

from collections.abc import Callable
from typing import ClassVar
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiercel.rpc.ndr import NULL_HANDLE, ContextHandle, NdrError, NdrReader, NdrWriter
from tiercel.rpc.status import RPC_X_BAD_STUB_DATA

HANDLE = ContextHandle(0, UUID("01234567-89ab-cdef-0123-456789abcdef"))
OPEN_QUEUE = bytes.fromhex(
    "03000000030000000000020013000000000000001300000"
    "04f0053003a007300720076005c007000720069007600610074006500240"
    "05c007100310000000000010000000000000033221100554477668899aabbccddeeff"
    "010000000601b11d01000000"
)
TWO_SECTIONS = bytes.fromhex(
    "0000005f0000000055443322110000000200000000000200020000000100"
    "00000a00000006000000040002000200000003000000030000000800020006000000"
    "48454144626f000003000000"
    "54524c0000000000"
)
NAME = r"OS:srv\private$\q1"
CLIENT = UUID("00112233-4455-6677-8899-aabbccddeeff")


class TestVectors:
    def test_open_queue(self) -> None:
        writer = NdrWriter().u8(3).u8(0).u16(0).u8(3).pointer().string(NAME)
        writer.u32(1).u32(0).guid(CLIENT).i32(1).u8(6).u8(1).u16(7601).i32(1)
        assert writer.data == OPEN_QUEUE
        reader = NdrReader(OPEN_QUEUE)
        kind, suffix, reserved = reader.u8("m_qft"), reader.u8("suffix"), reader.u16("reserved")
        assert (kind, suffix, reserved) == (3, 0, 0)
        assert reader.union_tag(reader.u8("tag"), "tag", kind) == 3
        assert reader.pointer("direct_id")
        assert reader.string("direct_id") == NAME
        assert (reader.u32("access"), reader.u32("share"), reader.guid("client")) == (1, 0, CLIENT)
        assert (reader.i32("routing"), reader.u8("major"), reader.u8("minor")) == (1, 6, 1)
        assert (reader.u16("build"), reader.i32("workgroup"), reader.rest) == (7601, 1, b"")

    def test_two_sections(self) -> None:
        """Embedded pointers: what they point to comes after the whole array."""
        writer = NdrWriter().u32(0x5F000000).u64(0x1122334455).u32(2).pointer().conformance(2)
        for kind, allocated, size in ((1, 10, 6), (2, 3, 3)):
            writer.enum16(kind).u32(allocated).u32(size).pointer()
        writer.conformant_bytes(b"HEADbo").conformant_bytes(b"TRL").u32(0)
        assert writer.data == TWO_SECTIONS

        reader = NdrReader(TWO_SECTIONS)
        assert (reader.u32("arrived"), reader.u64("sequence")) == (0x5F000000, 0x1122334455)
        count = reader.u32("count")
        assert reader.pointer("sections", count)
        sections = []
        for _ in range(reader.conformance("sections", count, element_size=16)):
            kind, _ = reader.enum16("type", range(5)), reader.u32("allocated")
            sections.append((kind, size := reader.u32("size"), reader.pointer("buffer", size)))
        assert sections == [(1, 6, True), (2, 3, True)]
        assert [reader.conformant_bytes("buffer", size) for _, size, _ in sections] == [b"HEADbo", b"TRL"]
        assert (reader.u32("result"), reader.rest) == (0, b"")

    def test_context_handle_and_the_gap_after_it(self) -> None:
        data = NdrWriter().context_handle(HANDLE).u64(5).data
        assert data.hex() == "00000000" + "67452301ab89efcd0123456789abcdef" + "00000000" + "0500000000000000"
        reader = NdrReader(data)
        assert (reader.context_handle("handle"), reader.u64("lookup_id")) == (HANDLE, 5)
        assert NdrReader(bytes(20)).context_handle("handle").is_null
        assert not HANDLE.is_null
        assert NdrWriter().context_handle(NULL_HANDLE).data == bytes(20)

    def test_gaps_are_ignored(self) -> None:
        """3.1.1.5.3.2.2.6, and MQRR trap 2: a dirty gap after a 16-bit enum."""
        reader = NdrReader(bytes.fromhex("0100ffff02000000"))
        assert (reader.enum16("type", range(5)), reader.u32("size")) == (1, 2)


Read = Callable[[NdrReader], object]


def _string(max_count: int, offset: int, actual: int, text: bytes) -> bytes:
    return NdrWriter().u32(max_count).u32(offset).u32(actual).raw(text).data


class TestStrictness:
    """[MS-RPCE] 3.1.1.5.3: whatever is wrong is 0x6F7, and nothing large is made on the way."""

    @pytest.mark.parametrize(
        ("data", "read", "problem"),
        [
            (b"", lambda r: r.u8("x"), "needs 1 bytes, 0 are left"),
            (b"123", lambda r: r.u32("x"), "needs 4 bytes, 3 are left"),
            (bytes(15), lambda r: r.guid("x"), "needs 16"),
            (bytes(19), lambda r: r.context_handle("x"), "needs 20"),
            (bytes(4), lambda r: (r.u16("a"), r.u32("x")), "needs 4 bytes, 0 are left"),
            (b"\3\0\0\0", lambda r: r.u32("x", 1, 2), "is 3, allowed are 1 to 2"),
            (b"\0\0\0\0", lambda r: r.u32("x", 1, 2), "is 0, allowed are 1 to 2"),
            (b"\5\0", lambda r: r.enum16("x", range(5)), "has no value 5"),
            (b"\2", lambda r: r.union_tag(r.u8("x"), "x", 3), "is 2, but the discriminant says 3"),
            (bytes(4), lambda r: r.pointer("x", 5), "is NULL, but should have 5 elements"),
            (bytes(4), lambda r: r.reference("x"), "is NULL, which a reference pointer must not be"),
            (
                b"\5\0\0\0" + bytes(5),
                lambda r: r.conformant_bytes("x", 4),
                "has 5 elements, but 4 are announced",
            ),
            (
                b"\5\0\0\0" + bytes(4),
                lambda r: r.conformant_bytes("x"),
                "has 5 elements, and 4 bytes are left",
            ),
            (b"\5\0\0\0" + bytes(5), lambda r: r.conformant_bytes("x", high=4), "is 5, allowed are 0 to 4"),
            (b"\xff\xff\xff\x7f", lambda r: r.conformance("x", element_size=16), "0 bytes are left for them"),
            (b"\0\0\0\x80", lambda r: r.conformance("x"), "allowed are 0 to 2147483647"),
            (_string(2, 1, 1, b"\0\0"), lambda r: r.string("x"), "starts at element 1"),
            (_string(1, 0, 2, b"a\0\0\0"), lambda r: r.string("x"), "has 2 elements of 1"),
            (_string(2, 0, 2, b"a\0b\0"), lambda r: r.string("x"), "its NUL is not at the end"),
            (_string(3, 0, 3, b"a\0\0\0\0\0"), lambda r: r.string("x"), "its NUL is not at the end"),
            (_string(0, 0, 0, b""), lambda r: r.string("x"), "has 0 characters"),
            (_string(2, 0, 2, b"a\0\0\0"), lambda r: r.string("x", max_units=1), "allowed are 1 to 1"),
            (_string(2**31 - 1, 0, 2**31 - 1, b""), lambda r: r.string("x"), "0 bytes are left"),
            (bytes(8), lambda r: r.variance("x", 0, 1), "has 0 elements, but 1 are announced"),
        ],
    )
    def test_refused(self, data: bytes, read: Read, problem: str) -> None:
        with pytest.raises(NdrError, match=problem) as caught:
            read(NdrReader(data))
        assert caught.value.status == RPC_X_BAD_STUB_DATA == 0x6F7
        assert caught.value.field == "x"

    def test_maximum_count_may_be_larger_than_the_string(self) -> None:
        assert NdrReader(_string(100, 0, 2, b"a\0\0\0")).string("x") == "a"

    def test_null_pointer_to_nothing(self) -> None:
        assert not NdrReader(bytes(4)).pointer("x", 0)


class TestRoundTrips:
    ITEMS: ClassVar[dict[str, st.SearchStrategy[object]]] = {
        "u8": st.integers(0, 2**8 - 1),
        "u16": st.integers(0, 2**16 - 1),
        "u32": st.integers(0, 2**32 - 1),
        "i32": st.integers(-(2**31), 2**31 - 1),
        "u64": st.integers(0, 2**64 - 1),
        "guid": st.uuids(),
        "context_handle": st.builds(ContextHandle, st.integers(0, 2**32 - 1), st.uuids()),
        "conformant_bytes": st.binary(max_size=9),
        "string": st.text(st.characters(exclude_characters="\0"), max_size=9),
    }

    @given(st.lists(st.one_of(*(st.tuples(st.just(name), values) for name, values in ITEMS.items()))))
    def test_what_was_written_is_read(self, items: list[tuple[str, object]]) -> None:
        writer = NdrWriter()
        for name, value in items:
            getattr(writer, name)(value)
        reader = NdrReader(writer.data)
        assert [(name, getattr(reader, name)("x")) for name, _ in items] == items
        assert reader.rest == b""

    @given(st.binary(max_size=60), st.lists(st.sampled_from(sorted(ITEMS))))
    def test_any_bytes_are_values_or_an_ndr_error(self, data: bytes, names: list[str]) -> None:
        reader = NdrReader(data)
        try:
            for name in names:
                getattr(reader, name)("x")
        except NdrError as error:
            str(error)
