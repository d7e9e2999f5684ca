import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiercel.model.codes import QueueAccessMask as Q
from tiercel.model.sid import ADMINISTRATORS, ANONYMOUS, AUTHENTICATED_USERS, EVERYONE, LOCAL_SYSTEM
from tiercel.model.sid import SecurityIdentifier as Sid
from tiercel.security.access import (
    ACCESS_SYSTEM_SECURITY,
    GENERIC_ALL,
    GENERIC_EXECUTE,
    GENERIC_READ,
    GENERIC_WRITE,
    MAXIMUM_ALLOWED,
    QUEUE_MANAGER_MAPPING,
    QUEUE_MAPPING,
    READ_CONTROL,
    WRITE_DAC,
    Token,
    allows,
    granted,
)
from tiercel.security.descriptor import Ace, AceType, Acl, OpaqueAce, SecurityDescriptor

ALICE = Sid.parse("S-1-22-1-1000")
BOB = Sid.parse("S-1-22-1-1001")
STAFF = Sid.parse("S-1-22-2-50")
TOKEN = Token.for_user(ALICE, [STAFF])
FOR_ALICE = f"O:BAD:(A;;{{}};;;{ALICE})"


def may(text: str, desired: int, token: Token = TOKEN) -> bool:
    return allows(SecurityDescriptor.parse(text), token, desired, QUEUE_MAPPING)


def most(text: str, token: Token = TOKEN) -> int | None:
    return granted(SecurityDescriptor.parse(text), token, MAXIMUM_ALLOWED, QUEUE_MAPPING)


class TestAccessCheck:
    """[MS-DTYP] 2.5.3.2"""

    @pytest.mark.parametrize(
        ("text", "desired", "expected"),
        [
            (f"D:(A;;WRITE_MESSAGE;;;{ALICE})", Q.WRITE_MESSAGE, True),
            (f"D:(A;;WRITE_MESSAGE;;;{ALICE})", Q.RECEIVE_MESSAGE, False),
            (f"D:(A;;WRITE_MESSAGE;;;{ALICE})", Q.WRITE_MESSAGE | Q.PEEK_MESSAGE, False),
            (f"D:(A;;WRITE_MESSAGE;;;{BOB})", Q.WRITE_MESSAGE, False),
            # each group of the token counts, and several entries add up
            (f"D:(A;;WRITE_MESSAGE;;;{STAFF})", Q.WRITE_MESSAGE, True),
            ("D:(A;;WRITE_MESSAGE;;;WD)(A;;PEEK_MESSAGE;;;AU)", Q.WRITE_MESSAGE | Q.PEEK_MESSAGE, True),
            # the first entry that speaks of a right decides
            (f"D:(D;;WRITE_MESSAGE;;;{STAFF})(A;;WRITE_MESSAGE;;;WD)", Q.WRITE_MESSAGE, False),
            (f"D:(A;;WRITE_MESSAGE;;;WD)(D;;WRITE_MESSAGE;;;{STAFF})", Q.WRITE_MESSAGE, True),
            (f"D:(D;;PEEK_MESSAGE;;;{STAFF})(A;;WRITE_MESSAGE;;;WD)", Q.WRITE_MESSAGE, True),
            (f"D:(D;;WRITE_MESSAGE;;;{BOB})(A;;WRITE_MESSAGE;;;WD)", Q.WRITE_MESSAGE, True),
            # inherit-only entries are for others, whichever way they go
            ("D:(A;IO;WRITE_MESSAGE;;;WD)", Q.WRITE_MESSAGE, False),
            ("D:(D;IO;WRITE_MESSAGE;;;WD)(A;CIOINPID;WRITE_MESSAGE;;;WD)", Q.WRITE_MESSAGE, True),
            # an audit entry grants nothing, nor does a SACL
            ("D:(AU;SAFA;WRITE_MESSAGE;;;WD)S:(A;;WRITE_MESSAGE;;;WD)", Q.WRITE_MESSAGE, False),
            # no list, a NULL list, an empty list
            ("O:BA", Q.QUEUE_GENERIC_ALL, True),
            ("D:NO_ACCESS_CONTROL", Q.QUEUE_GENERIC_ALL, True),
            ("D:", Q.PEEK_MESSAGE, False),
            ("D:", 0, True),
        ],
    )
    def test_entries(self, text: str, desired: int, expected: bool) -> None:
        assert may(text, desired) is expected

    @pytest.mark.parametrize("limit", ["", f"(D;;GA;;;{ALICE})"])
    def test_the_owner_may_read_and_change_the_permissions(self, limit: str) -> None:
        text = f"O:{ALICE}D:{limit}"
        assert may(text, READ_CONTROL | WRITE_DAC)
        assert not may(text, READ_CONTROL | WRITE_DAC | Q.PEEK_MESSAGE)
        assert not may(text, READ_CONTROL, Token.for_user(BOB))
        assert most(text) == READ_CONTROL | WRITE_DAC

    def test_a_group_may_be_the_owner(self) -> None:
        assert may(f"O:{STAFF}D:", WRITE_DAC)

    def test_owner_rights_replace_what_the_owner_has_by_itself(self) -> None:
        text = f"O:{ALICE}D:(A;;PEEK_MESSAGE;;;OW)"
        assert may(text, Q.PEEK_MESSAGE)
        assert not may(text, WRITE_DAC)
        assert not may(text, READ_CONTROL)
        assert not may(text, Q.PEEK_MESSAGE, Token.for_user(BOB))
        assert may(f"O:{ALICE}D:(A;IO;PEEK_MESSAGE;;;OW)", WRITE_DAC)

    @pytest.mark.parametrize(
        ("generic", "specific"),
        [
            (GENERIC_READ, 0x2002B),
            (GENERIC_WRITE, 0x20024),
            (GENERIC_ALL, 0xF003F),
            (GENERIC_EXECUTE, 0),
            (GENERIC_READ | GENERIC_WRITE | 0x10, 0x2003F),
        ],
    )
    def test_generic_rights_of_a_queue(self, generic: int, specific: int) -> None:
        """Reference 8.3; in what is asked for and in entries."""
        exactly = SecurityDescriptor.parse(FOR_ALICE.format(f"{specific:#x}"))
        assert granted(exactly, TOKEN, generic, QUEUE_MAPPING) == specific
        for bit in (1 << n for n in range(32) if specific >> n & 1):
            less = FOR_ALICE.format(f"{specific & ~bit:#x}")
            assert not may(less, generic)
        assert (most(FOR_ALICE.format(f"{generic:#x}")) or 0) == specific

    def test_a_generic_denial_denies(self) -> None:
        text = "D:(D;;GW;;;WD)(A;;GA;;;WD)"
        assert not may(text, Q.WRITE_MESSAGE)
        assert may(text, Q.RECEIVE_MESSAGE)

    def test_generic_rights_of_a_queue_manager(self) -> None:
        mapping = QUEUE_MANAGER_MAPPING
        assert mapping.specific(GENERIC_READ) == 0x200E3
        assert mapping.specific(GENERIC_WRITE) == 0x20024
        assert mapping.specific(GENERIC_ALL) == 0xF00F7

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("D:(A;;0x3;;;WD)(A;;0x4;;;AU)", 0x7),
            ("D:(D;;0x2;;;WD)(A;;0x3;;;WD)", 0x1),
            (
                "D:(A;;0x3;;;WD)(D;;0x2;;;WD)",
                0x1,
            ),  # as the pseudocode has it: a denial counts wherever it stands
            ("D:(A;IO;0x3;;;WD)", None),
            ("D:", None),
            ("D:(A;;0x7000000;;;WD)", None),
            ("D:NO_ACCESS_CONTROL", 0xF003F),
            (f"O:{ALICE}D:(D;;WD;;;WD)(A;;0x1;;;WD)", 0x60001),
        ],
    )
    def test_maximum_allowed(self, text: str, expected: int | None) -> None:
        assert most(text) == expected

    def test_maximum_allowed_with_a_right_that_must_be_there(self) -> None:
        value = SecurityDescriptor.parse("D:(A;;0x3;;;WD)")
        assert granted(value, TOKEN, MAXIMUM_ALLOWED | Q.PEEK_MESSAGE, QUEUE_MAPPING) == 0x3
        assert granted(value, TOKEN, MAXIMUM_ALLOWED | Q.WRITE_MESSAGE, QUEUE_MAPPING) is None

    @pytest.mark.parametrize("text", ["D:(A;;0xffffffff;;;WD)", "D:NO_ACCESS_CONTROL", f"O:{ALICE}"])
    def test_system_security_is_a_privilege_and_no_right(self, text: str) -> None:
        assert not may(text, ACCESS_SYSTEM_SECURITY)
        assert not may(text, ACCESS_SYSTEM_SECURITY | Q.PEEK_MESSAGE)
        assert may(text, ACCESS_SYSTEM_SECURITY, Token.local_system())

    def test_named_flags_count_as_numbers(self) -> None:
        """~ of an IntFlag knows its own members only, and would take what it has no name for as granted."""
        value = SecurityDescriptor(dacl=Acl((Ace(AceType.ACCESS_ALLOWED, Q.WRITE_MESSAGE, EVERYONE),)))
        assert allows(value, TOKEN, Q.WRITE_MESSAGE, QUEUE_MAPPING)
        assert not allows(value, TOKEN, Q.WRITE_MESSAGE | 0x100000, QUEUE_MAPPING)

    def test_opaque_entries_neither_allow_nor_deny(self) -> None:
        data = b"\xff\xff\xff\xff" + EVERYONE.encode()
        allow = Ace(AceType.ACCESS_ALLOWED, 4, EVERYONE)
        value = SecurityDescriptor(dacl=Acl((OpaqueAce(0x09, 0, data), OpaqueAce(0x0A, 0, data), allow)))
        assert granted(value, TOKEN, MAXIMUM_ALLOWED, QUEUE_MAPPING) == 4


class TestToken:
    def test_everyone_is_in_everyone_and_the_anonymous_not_authenticated(self) -> None:
        assert TOKEN.sids == {ALICE, STAFF, EVERYONE, AUTHENTICATED_USERS}
        assert Token.anonymous().sids == {ANONYMOUS, EVERYONE}
        assert Token.local_system().sids >= {LOCAL_SYSTEM, ADMINISTRATORS}

    def test_anonymous(self) -> None:
        assert may("D:(A;;WRITE_MESSAGE;;;AN)", Q.WRITE_MESSAGE, Token.anonymous())
        assert may("D:(A;;WRITE_MESSAGE;;;WD)", Q.WRITE_MESSAGE, Token.anonymous())
        assert not may("D:(A;;WRITE_MESSAGE;;;AU)", Q.WRITE_MESSAGE, Token.anonymous())
        assert not may("D:(A;;WRITE_MESSAGE;;;AN)", Q.WRITE_MESSAGE)

    def test_nothing_is_closed_to_the_local_system(self) -> None:
        assert may("D:(D;;GA;;;WD)", Q.QUEUE_GENERIC_ALL, Token.local_system())
        assert most("D:", Token.local_system()) == Q.QUEUE_GENERIC_ALL


ACES = st.builds(
    Ace,
    st.sampled_from(AceType),
    st.integers(0, 0xF003F),
    st.sampled_from([ALICE, BOB, STAFF, EVERYONE, Sid(3, (4,))]),
    st.sampled_from([0, 0x08, 0x10]),
)
DESCRIPTORS = st.builds(
    SecurityDescriptor,
    owner=st.sampled_from([None, ALICE, BOB]),
    dacl=st.none() | st.lists(ACES, max_size=6).map(lambda aces: Acl(tuple(aces))),
)
BITS = [1 << n for n in range(20)]


@given(DESCRIPTORS, st.integers(0, 0xFFFFF))
def test_rights_are_granted_together_when_each_is_granted_alone(
    value: SecurityDescriptor, desired: int
) -> None:
    alone = [allows(value, TOKEN, bit, QUEUE_MAPPING) for bit in BITS if desired & bit]
    assert allows(value, TOKEN, desired, QUEUE_MAPPING) is all(alone)


@given(DESCRIPTORS)
def test_the_most_is_never_more_than_could_be_had_one_by_one(value: SecurityDescriptor) -> None:
    maximum = granted(value, TOKEN, MAXIMUM_ALLOWED, QUEUE_MAPPING) or 0
    assert all(allows(value, TOKEN, bit, QUEUE_MAPPING) for bit in BITS if maximum & bit)


@given(DESCRIPTORS)
def test_with_denials_first_the_most_is_all_that_could_be_had(
    value: SecurityDescriptor,
) -> None:
    aces = [ace for ace in value.dacl.aces if isinstance(ace, Ace)] if value.dacl else []
    aces.sort(key=lambda ace: ace.type != AceType.ACCESS_DENIED)
    canonical = SecurityDescriptor(owner=value.owner, dacl=Acl(tuple(aces)))
    maximum = granted(canonical, TOKEN, MAXIMUM_ALLOWED, QUEUE_MAPPING) or 0
    queue_bits = (bit for bit in BITS if bit & QUEUE_MAPPING.all)
    assert maximum == sum(bit for bit in queue_bits if allows(canonical, TOKEN, bit, QUEUE_MAPPING))
