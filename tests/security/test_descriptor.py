import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiercel.model.codes import QueueAccessMask, QueueManagerAccessMask
from tiercel.model.errors import DecodeError
from tiercel.model.sid import ADMINISTRATORS, ANONYMOUS, EVERYONE, SecurityIdentifier
from tiercel.security.descriptor import Ace, AceType, Acl, Control, OpaqueAce, SecurityDescriptor

# [MS-DTYP] 2.5.1.4, the text and its bytes as printed there.
EXAMPLE_TEXT = (
    "O:BAG:BAD:P(A;CIOI;GRGX;;;BU)(A;CIOI;GA;;;BA)(A;CIOI;GA;;;SY)(A;CIOI;GA;;;CO)S:P(AU;FA;GR;;;WD)"
)
EXAMPLE = bytes.fromhex(
    """
    01 00 14 b0 90 00 00 00 a0 00 00 00 14 00 00 00
    30 00 00 00 02 00 1c 00 01 00 00 00 02 80 14 00
    00 00 00 80 01 01 00 00 00 00 00 01 00 00 00 00
    02 00 60 00 04 00 00 00 00 03 18 00 00 00 00 a0
    01 02 00 00 00 00 00 05 20 00 00 00 21 02 00 00
    00 03 18 00 00 00 00 10 01 02 00 00 00 00 00 05
    20 00 00 00 20 02 00 00 00 03 14 00 00 00 00 10
    01 01 00 00 00 00 00 05 12 00 00 00 00 03 14 00
    00 00 00 10 01 01 00 00 00 00 00 03 00 00 00 00
    01 02 00 00 00 00 00 05 20 00 00 00 20 02 00 00
    01 02 00 00 00 00 00 05 20 00 00 00 20 02 00 00
    """
)
HEADER = "01 00 0480 00000000 00000000 00000000 14000000"  # a DACL right behind the header
WORLD = "01 01 000000000001 00000000"


def descriptor(body: str, header: str = HEADER) -> SecurityDescriptor:
    return SecurityDescriptor.decode(bytes.fromhex(header + body))


def dacl(body: str, header: str = HEADER) -> Acl:
    found = descriptor(body, header).dacl
    assert found is not None
    return found


class TestExampleOfTheSpecification:
    """[MS-DTYP] 2.5.1.4"""

    def test_bytes(self) -> None:
        value = SecurityDescriptor.decode(EXAMPLE)
        assert value.owner == value.group == ADMINISTRATORS
        assert value.sacl == Acl((Ace(AceType.SYSTEM_AUDIT, 0x8000_0000, EVERYONE, 0x80),))
        assert value.dacl is not None
        assert value.dacl.aces[0] == Ace(
            AceType.ACCESS_ALLOWED, 0xA000_0000, SecurityIdentifier(5, (32, 545)), 3
        )
        assert len(value.dacl.aces) == 4
        assert value.encode() == EXAMPLE

    def test_text(self) -> None:
        value = SecurityDescriptor.parse(EXAMPLE_TEXT)
        assert value.encode() == EXAMPLE
        assert str(value) == EXAMPLE_TEXT


class TestBytes:
    """[MS-DTYP] 2.4.4 to 2.4.6"""

    def test_parts_may_lie_anywhere_and_share_their_bytes(self) -> None:
        value = descriptor(f"cdcd {WORLD}", "01 00 0080 16000000 16000000 00000000 00000000")
        assert value == SecurityDescriptor(owner=EVERYONE, group=EVERYONE)

    def test_null_list_and_empty_list_differ(self) -> None:
        assert descriptor("", "01 00 0480 00000000 00000000 00000000 00000000").dacl is None
        assert dacl("02 00 0800 0000 0000") == Acl()

    def test_room_behind_the_entries_is_no_entry(self) -> None:
        assert dacl("02 00 1000 0000 0000 ffffffffffffffff") == Acl()

    def test_an_entry_may_be_longer_than_its_fields(self) -> None:
        found = dacl(f"02 00 2000 0100 0000 01 00 1800 04000000 {WORLD} 0a0b0c0d")
        assert found.aces == (Ace(AceType.ACCESS_DENIED, 4, EVERYONE, extra=b"\x0a\x0b\x0c\x0d"),)

    def test_other_types_are_kept_as_they_came(self) -> None:
        body = "04 00 1400 0200 0000 05 0b 0800 01020304 13 00 0400"
        found = dacl(body)
        assert found == Acl((OpaqueAce(5, 0x0B, b"\1\2\3\4"), OpaqueAce(0x13, 0, b"")), revision=4)
        assert found.encode() == bytes.fromhex(body)

    def test_the_byte_of_the_resource_manager_is_kept(self) -> None:
        header = "01 5a 00c0 00000000 00000000 00000000 00000000"
        assert descriptor("", header).encode() == bytes.fromhex(header)

    @pytest.mark.parametrize(
        ("data", "structure", "field", "offset"),
        [
            ("", "SECURITY_DESCRIPTOR", "Revision", 0),
            (HEADER[:-2], "SECURITY_DESCRIPTOR", "Revision", 0),
            ("02" + HEADER[2:], "SECURITY_DESCRIPTOR", "Revision", 0),
            ("01 00 0400" + "00" * 16, "SECURITY_DESCRIPTOR", "Control", 2),
            ("01 00 0080 13000000" + "00" * 12, "SECURITY_DESCRIPTOR", "OffsetOwner", 4),
            ("01 00 0080 00000000 ffffffff" + "00" * 8, "SECURITY_DESCRIPTOR", "OffsetGroup", 8),
            ("01 00 1080" + "00" * 8 + "14000000 00000000", "SECURITY_DESCRIPTOR", "OffsetSacl", 12),
            (HEADER, "SECURITY_DESCRIPTOR", "OffsetDacl", 16),
            # a list that Control calls absent
            (
                "01 00 0080" + "00" * 12 + "14000000 02000800 00000000",
                "SECURITY_DESCRIPTOR",
                "OffsetDacl",
                16,
            ),
            (
                "01 00 0080" + "00" * 8 + "14000000 00000000 02000800 00000000",
                "SECURITY_DESCRIPTOR",
                "OffsetSacl",
                12,
            ),
            ("01 00 0080 14000000" + "00" * 12 + "01", "SID", "Revision", 20),
            (
                "01 00 0080 14000000" + "00" * 12 + "01 10 000000000005" + "00" * 64,
                "SID",
                "SubAuthorityCount",
                21,
            ),
            ("01 00 0080 14000000" + "00" * 12 + "01 02 000000000005 00000000", "SID", "SubAuthority", 28),
            (HEADER + "02 00 0800 0000 00", "ACL", "AclRevision", 20),
            (HEADER + "03 00 0800 0000 0000", "ACL", "AclRevision", 20),
            (HEADER + "02 00 0700 0000 0000", "ACL", "AclSize", 22),
            (HEADER + "02 00 0900 0000 0000", "ACL", "AclSize", 22),
            (HEADER + "02 00 0800 ffff 0000", "ACE", "AceType", 28),
            (HEADER + "02 00 0c00 0100 0000 05 00 0000", "ACE", "AceSize", 30),
            (HEADER + "02 00 0c00 0100 0000 05 00 0800 00000000", "ACE", "AceSize", 30),
            (HEADER + "02 00 1000 0100 0000 05 00 0600 00000000", "ACE", "AceSize", 30),
            (HEADER + "02 00 0c00 0100 0000 00 00 0400", "ACE", "AceSize", 30),
            # the trustee ends where its entry ends, whatever follows
            (HEADER + f"02 00 1c00 0100 0000 00 00 1000 04000000 {WORLD}", "SID", "SubAuthority", 44),
        ],
    )
    def test_broken(self, data: str, structure: str, field: str, offset: int) -> None:
        with pytest.raises(DecodeError) as caught:
            SecurityDescriptor.decode(bytes.fromhex(data))
        assert (caught.value.structure, caught.value.field, caught.value.offset) == (structure, field, offset)

    @pytest.mark.parametrize(
        "ace",
        [
            Ace(AceType.ACCESS_ALLOWED, 2**32, EVERYONE),
            Ace(AceType.ACCESS_ALLOWED, 1, EVERYONE, flags=256),
            Ace(AceType.ACCESS_ALLOWED, 1, EVERYONE, extra=b"\0"),
            OpaqueAce(5, 0, b"\0" * 65536),
        ],
    )
    def test_what_does_not_fit_is_refused(self, ace: Ace | OpaqueAce) -> None:
        with pytest.raises(ValueError, match=r"fit|multiple"):
            SecurityDescriptor(dacl=Acl((ace,))).encode()

    def test_a_list_has_room_for_64_kib(self) -> None:
        entry = Ace(AceType.ACCESS_ALLOWED, 1, EVERYONE)  # 20 bytes
        most = SecurityDescriptor(dacl=Acl((entry,) * 3276))
        assert SecurityDescriptor.decode(most.encode()) == most
        with pytest.raises(ValueError, match="fit"):
            Acl((entry,) * 3277).encode()

    def test_values_that_could_not_be_read_back_cannot_be_made(self) -> None:
        with pytest.raises(ValueError, match="is an Ace"):
            OpaqueAce(1, 0, b"")
        with pytest.raises(ValueError, match="revision 3"):
            Acl(revision=3)


SIDS = st.builds(
    SecurityIdentifier,
    st.integers(0, 2**48 - 1),
    st.lists(st.integers(0, 2**32 - 1), max_size=15).map(tuple),
)
WORDS = st.binary(max_size=3).map(lambda data: data * 4)
ACES = st.builds(Ace, st.sampled_from(AceType), st.integers(0, 2**32 - 1), SIDS, st.integers(0, 255), WORDS)
OPAQUE_ACES = st.builds(OpaqueAce, st.integers(3, 255), st.integers(0, 255), WORDS)
ACLS = st.builds(Acl, st.lists(ACES | OPAQUE_ACES, max_size=5).map(tuple), st.sampled_from([2, 4]))
DESCRIPTORS = st.builds(
    SecurityDescriptor,
    control=st.integers(0, 0xFFFF),
    owner=st.none() | SIDS,
    group=st.none() | SIDS,
    sacl=st.none() | ACLS,
    dacl=st.none() | ACLS,
    resource_manager_control=st.integers(0, 255),
)


@given(DESCRIPTORS)
def test_every_value_survives_its_bytes(value: SecurityDescriptor) -> None:
    assert SecurityDescriptor.decode(value.encode()) == value


def assert_value_or_decode_error(data: bytes) -> None:
    try:
        value = SecurityDescriptor.decode(data)
    except DecodeError as error:
        assert 0 <= error.offset <= len(data)  # noqa: PT017
    else:
        assert SecurityDescriptor.decode(value.encode()) == value
        assert str(value) is not None


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    assert_value_or_decode_error(data)
    assert_value_or_decode_error(bytes.fromhex(HEADER) + data)


@given(DESCRIPTORS.map(SecurityDescriptor.encode) | st.just(EXAMPLE), st.data())
def test_any_damaged_descriptor(data: bytes, draw: st.DataObject) -> None:
    damaged = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 4))):
        damaged[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    assert_value_or_decode_error(bytes(damaged[: draw.draw(st.integers(0, len(data)))]))
    assert_value_or_decode_error(bytes(damaged))


def test_the_largest_lists_on_top_of_each_other_stay_cheap() -> None:
    """Two lists of 16381 entries of four bytes each, read from the same 64 KiB."""
    acl = struct.pack("<BxHHxx", 2, 65532, 16381) + struct.pack("<BBH", 5, 0, 4) * 16381
    value = SecurityDescriptor.decode(struct.pack("<BBHIIII", 1, 0, 0x8014, 0, 0, 20, 20) + acl)
    assert value.sacl == value.dacl
    assert value.dacl is not None
    assert len(value.dacl.aces) == 16381


class TestText:
    """[MS-DTYP] 2.5.1.1"""

    @pytest.mark.parametrize(
        ("mask", "plain", "named"),
        [
            (0, "0x0", "0x0"),
            (0x4, "0x4", "WRITE_MESSAGE"),
            (0x20020, "0x20020", "GET_QUEUE_PROPERTIES|GET_QUEUE_PERMISSIONS"),
            (0xF003F, "0xf003f", "QUEUE_GENERIC_ALL"),
            (0x2002F, "0x2002f", "QUEUE_GENERIC_READ|WRITE_MESSAGE"),
            (0x2000_0004, "0x20000004", "WRITE_MESSAGE|GX"),
            (0x8010_0001, "0x80100001", "DELETE_MESSAGE|0x80100000"),
            (0xF000_0000, "GRGWGXGA", "GRGWGXGA"),
            (0x000F_0000, "WOWDRCSD", None),
        ],
    )
    def test_rights(self, mask: int, plain: str, named: str | None) -> None:
        ace = Ace(AceType.ACCESS_ALLOWED, mask, EVERYONE)
        assert ace.text() == f"(A;;{plain};;;WD)"
        assert Ace.parse(ace.text()) == Ace.parse(ace.text(QueueAccessMask)) == ace
        if named:
            assert ace.text(QueueAccessMask) == f"(A;;{named};;;WD)"

    def test_the_names_of_another_kind_of_object(self) -> None:
        ace = Ace.parse("(A;;CREATE_QUEUE;;;AU)", QueueManagerAccessMask)
        assert ace.mask == 4
        assert ace.text(QueueManagerAccessMask) == "(A;;CREATE_QUEUE;;;AU)"

    @pytest.mark.parametrize(
        ("token", "sid"),
        [
            ("WD", "S-1-1-0"),
            ("AN", "S-1-5-7"),
            ("AU", "S-1-5-11"),
            ("SY", "S-1-5-18"),
            ("BA", "S-1-5-32-544"),
            ("BU", "S-1-5-32-545"),
            ("BG", "S-1-5-32-546"),
            ("CO", "S-1-3-0"),
            ("OW", "S-1-3-4"),
        ],
    )
    def test_well_known_sids(self, token: str, sid: str) -> None:
        assert SecurityDescriptor.parse(f"O:{token}G:{sid}") == SecurityDescriptor(
            owner=SecurityIdentifier.parse(sid), group=SecurityIdentifier.parse(sid)
        )
        assert str(SecurityDescriptor.parse(f"O:{sid}")) == f"O:{token}"

    @pytest.mark.parametrize(
        ("text", "control", "has_dacl"),
        [
            ("", 0, False),
            ("D:", 0x4, True),
            ("D:NO_ACCESS_CONTROL", 0x4, False),
            ("D:PARAI", 0x1504, True),
            ("S:PARAI", 0x2A10, False),
            ("D:PS:AI", 0x1814, True),
        ],
    )
    def test_lists(self, text: str, control: int, has_dacl: bool) -> None:
        value = SecurityDescriptor.parse(text)
        assert value.control == control | Control.SELF_RELATIVE
        assert (value.dacl is not None) is has_dacl
        assert str(value) == text

    def test_a_sid_ends_where_the_next_part_begins(self) -> None:
        value = SecurityDescriptor.parse("O:S-1-0x0001000000AD-7G:S-1-22-2-5D:(D;IOID;0x1;;;S-1-22-1-1000)")
        assert value.owner == SecurityIdentifier(0x1000000AD, (7,))
        ace = Ace(AceType.ACCESS_DENIED, 1, SecurityIdentifier(22, (1, 1000)), 0x18)
        assert value.dacl == Acl((ace,))

    def test_an_opaque_entry_is_shown_and_not_read(self) -> None:
        text = str(SecurityDescriptor(dacl=Acl((OpaqueAce(5, 0x22, b"\1\2\3\4"),))))
        assert text == "D:(0x05;CI0x20;#01020304)"
        with pytest.raises(DecodeError, match=r"SDDL\.ace"):
            SecurityDescriptor.parse(text)

    @pytest.mark.parametrize(
        "text",
        [
            "X:",
            "O:",
            "O:DA",
            "O:S-1-",
            "D:(A;;GA;;;WD)O:BA",  # the order is O, G, D, S
            "D:(A;;GA;;;WD) ",
            "D:A;;GA;;;WD",
            "D:(A;;GA;;WD)",
            "D:(A;;GA;;;WD;x)",
            "D:(X;;GA;;;WD)",
            "D:(A;XX;GA;;;WD)",
            "D:(A;;;;;WD)",
            "D:(A;;SEND;;;WD)",
            "D:(A;;GAG;;;WD)",
            "D:(A;;0x;;;WD)",
            "D:(A;;0x100000000;;;WD)",
            "D:(A;;write_message;;;WD)",
            "D:(A;;GA|;;;WD)",
            "D:(A;;GA;bf967aba-0de6-11d0-a285-00aa003049e2;;WD)",
            "D:((A;;GA;;;WD)",
        ],
    )
    def test_broken(self, text: str) -> None:
        with pytest.raises(DecodeError):
            SecurityDescriptor.parse(text)

    @given(DESCRIPTORS, st.sampled_from([None, QueueAccessMask]))
    def test_what_sddl_can_say_survives(
        self, value: SecurityDescriptor, names: type[QueueAccessMask] | None
    ) -> None:
        said = replace(
            value,
            control=value.control & 0x3F14,
            resource_manager_control=0,
            sacl=sayable(value.sacl),
            dacl=sayable(value.dacl),
        )
        # AR, AI and P of a list that is absent are not said.
        absent = 0 if said.control & Control.DACL_PRESENT else 0x1500
        absent |= 0 if said.control & Control.SACL_PRESENT else 0x2A00
        said = replace(said, control=said.control & ~absent)
        assert SecurityDescriptor.parse(said.text(names)) == said

    @given(st.text(alphabet="OGDS:()A;WD0x14|PI-", max_size=40))
    def test_any_text(self, text: str) -> None:
        try:
            value = SecurityDescriptor.parse(text)
        except DecodeError:
            return
        assert SecurityDescriptor.parse(str(value)) == value


def sayable(acl: Acl | None) -> Acl | None:
    if acl is None:
        return None
    aces = (replace(ace, extra=b"", flags=ace.flags & 0xDF) for ace in acl.aces if isinstance(ace, Ace))
    return Acl(tuple(aces))


def test_control_has_the_bits_that_the_parts_imply() -> None:
    assert SecurityDescriptor().control == 0x8000
    assert SecurityDescriptor(dacl=Acl()).control == 0x8004
    assert SecurityDescriptor(sacl=Acl(), owner=ANONYMOUS).control == 0x8010
