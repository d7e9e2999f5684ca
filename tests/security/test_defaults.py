import pytest

from tiercel.model.codes import QueueAccessMask as Q
from tiercel.model.sid import ANONYMOUS, EVERYONE
from tiercel.model.sid import SecurityIdentifier as Sid
from tiercel.security.access import QUEUE_MAPPING, Token, allows
from tiercel.security.defaults import default_queue_descriptor
from tiercel.security.descriptor import Ace, Acl, Control, SecurityDescriptor
from tiercel.security.unix import sid_of_uid

LOOK = Q.GET_QUEUE_PROPERTIES | Q.GET_QUEUE_PERMISSIONS
DOMAIN_USER = Sid.parse("S-1-5-21-1-2-3-1104")
DOMAIN_GUEST = Sid.parse("S-1-5-21-1-2-3-501")
LOCAL_USER = Sid.parse("S-1-5-21-7-8-9-1001")
MACHINE = Sid.parse("S-1-5-21-1-2-3-2205")


def is_domain_user(sid: Sid) -> bool:
    """The rule to the letter: accounts of the domain S-1-5-21-1-2-3 and nobody else."""
    return sid.authority == 5 and sid.sub_authorities[:4] == (21, 1, 2, 3)


def entries(value: SecurityDescriptor) -> list[tuple[Sid, int]]:
    """The entries of the DACL as they are stored, all of which allow."""
    value = SecurityDescriptor.decode(value.encode())
    assert value.control & Control.SELF_RELATIVE
    assert value.dacl is not None
    aces = [ace for ace in value.dacl.aces if isinstance(ace, Ace)]
    assert all(ace.type == 0 and ace.flags == 0 for ace in aces)
    assert len(aces) == len(value.dacl.aces)
    return [(ace.sid, ace.mask) for ace in aces]


class TestCreateDefaultQueueSecurityDescriptor:
    """[MS-MQDMPR] 3.1.7.1.3.1"""

    @pytest.mark.conformance("DMPR-162", "DMPR-163")
    @pytest.mark.parametrize(
        ("user", "owner", "expected"),
        [
            (DOMAIN_USER, DOMAIN_USER, [(EVERYONE, LOOK), (DOMAIN_USER, Q.QUEUE_GENERIC_ALL)]),
            (DOMAIN_GUEST, DOMAIN_GUEST, [(EVERYONE, Q.QUEUE_GENERIC_ALL)]),
            (LOCAL_USER, ANONYMOUS, [(EVERYONE, Q.QUEUE_GENERIC_ALL)]),
        ],
    )
    def test_of_a_user(self, user: Sid, owner: Sid, expected: list[tuple[Sid, int]]) -> None:
        value = default_queue_descriptor(user, srmp=False, is_domain_user=is_domain_user)
        assert value.owner == owner  # DMPR T-35: the specification forgets to store it
        assert value.sacl is None
        assert entries(value) == expected

    @pytest.mark.conformance("DMPR-162")
    def test_supplied_lists_are_kept(self) -> None:
        supplied = SecurityDescriptor.parse(f"O:{DOMAIN_USER}G:BAD:P(D;;GW;;;AN)S:AI(AU;FA;GA;;;WD)")
        value = default_queue_descriptor(
            LOCAL_USER, supplied=supplied, srmp=True, machine_sid=MACHINE, is_domain_user=is_domain_user
        )
        assert value == supplied

    @pytest.mark.conformance("DMPR-162")
    @pytest.mark.parametrize(
        ("supplied", "user", "owner"),
        [
            ("D:", DOMAIN_USER, DOMAIN_USER),
            ("D:", LOCAL_USER, ANONYMOUS),
            (f"O:{LOCAL_USER}D:", DOMAIN_USER, ANONYMOUS),
            (f"O:{DOMAIN_GUEST}D:", LOCAL_USER, DOMAIN_GUEST),
        ],
    )
    def test_owner_beside_a_supplied_dacl(self, supplied: str, user: Sid, owner: Sid) -> None:
        value = default_queue_descriptor(
            user, supplied=SecurityDescriptor.parse(supplied), srmp=True, is_domain_user=is_domain_user
        )
        assert value.owner == owner
        assert value.dacl == Acl()  # an empty list is a list

    @pytest.mark.conformance("DMPR-162")
    def test_supplied_sacl_and_owner_with_the_default_dacl(self) -> None:
        """The misnumbered step of T-35: a SACL or an owner alone does not keep the default DACL away."""
        supplied = SecurityDescriptor.parse(f"O:{DOMAIN_USER}S:(AU;FA;GA;;;WD)")
        value = default_queue_descriptor(
            LOCAL_USER, supplied=supplied, srmp=False, is_domain_user=is_domain_user
        )
        assert (value.owner, value.sacl) == (DOMAIN_USER, supplied.sacl)
        assert entries(value) == [(EVERYONE, LOOK), (DOMAIN_USER, Q.QUEUE_GENERIC_ALL)]

    def test_a_supplied_null_dacl_is_a_choice(self) -> None:
        supplied = SecurityDescriptor.parse("D:NO_ACCESS_CONTROL")
        assert default_queue_descriptor(DOMAIN_USER, supplied=supplied, srmp=False).dacl is None

    @pytest.mark.conformance("DMPR-163")
    def test_order_of_all_entries(self) -> None:
        value = default_queue_descriptor(
            DOMAIN_USER, srmp=True, machine_sid=MACHINE, is_domain_user=is_domain_user
        )
        assert [sid for sid, _ in entries(value)] == [EVERYONE, ANONYMOUS, MACHINE, DOMAIN_USER]

    @pytest.mark.parametrize("machine_sid", [MACHINE, None])
    def test_the_machine_may_look(self, machine_sid: Sid | None) -> None:
        """DMPR-164 as far as it is decided here; the account is read from the directory elsewhere."""
        value = default_queue_descriptor(
            DOMAIN_USER, srmp=False, machine_sid=machine_sid, is_domain_user=is_domain_user
        )
        found = [mask for sid, mask in entries(value) if sid == MACHINE]
        assert found == ([LOOK] if machine_sid else [])

    @pytest.mark.conformance("DMPR-165")
    @pytest.mark.parametrize(
        ("user", "world"), [(DOMAIN_USER, LOOK | Q.WRITE_MESSAGE), (LOCAL_USER, Q.QUEUE_GENERIC_ALL)]
    )
    def test_srmp_lets_everyone_and_the_anonymous_send(self, user: Sid, world: int) -> None:
        value = default_queue_descriptor(user, srmp=True, is_domain_user=is_domain_user)
        assert entries(value)[:2] == [(EVERYONE, world), (ANONYMOUS, Q.WRITE_MESSAGE)]


class TestOnLinux:
    """A Unix user owns what it makes, though no domain knows it."""

    # Written by hand from [MS-DTYP] 2.4.2, 2.4.4.2, 2.4.5 and 2.4.6.
    BYTES = bytes.fromhex(
        """
        01 00 0680 5c000000 00000000 00000000 14000000
        02 00 4800 0300 0000
          00 00 1400 24000200 01 01 000000000001 00000000
          00 00 1400 04000000 01 01 000000000005 07000000
          00 00 1800 3f000f00 01 02 000000000016 01000000 e8030000
        01 02 000000000016 01000000 e8030000
        """
    )

    def test_bytes(self) -> None:
        value = default_queue_descriptor(sid_of_uid(1000), srmp=True)
        assert value.encode() == self.BYTES
        assert SecurityDescriptor.decode(self.BYTES) == value

    def test_text(self) -> None:
        assert SecurityDescriptor.decode(self.BYTES).text(Q) == (
            "O:S-1-22-1-1000D:(A;;QUEUE_GENERIC_WRITE;;;WD)(A;;WRITE_MESSAGE;;;AN)"
            "(A;;QUEUE_GENERIC_ALL;;;S-1-22-1-1000)"
        )

    def test_who_may_do_what(self) -> None:
        value = default_queue_descriptor(sid_of_uid(1000), srmp=False)
        owner, other = Token.for_user(sid_of_uid(1000)), Token.for_user(sid_of_uid(1001))
        assert allows(value, owner, Q.QUEUE_GENERIC_ALL, QUEUE_MAPPING)
        assert allows(value, other, LOOK, QUEUE_MAPPING)
        assert not allows(value, other, Q.PEEK_MESSAGE, QUEUE_MAPPING)
        assert not allows(value, Token.anonymous(), Q.WRITE_MESSAGE, QUEUE_MAPPING)

    def test_by_the_letter_everyone_gets_everything(self) -> None:
        value = default_queue_descriptor(sid_of_uid(1000), srmp=False, is_domain_user=is_domain_user)
        assert value.owner == ANONYMOUS
        assert entries(value) == [(EVERYONE, Q.QUEUE_GENERIC_ALL)]
