import pytest

from tiercel.model.errors import DecodeError
from tiercel.wire import user_header
from tiercel.wire.queue_names import (
    DirectQueueFormatName,
    PrivateQueueFormatName,
    PrivateQueueFormatNameId,
    PublicQueueFormatName,
    QueueName,
)
from tiercel.wire.user_header import UserHeader

from .packets import (
    CQ,
    GUID_A,
    GUID_B,
    GUID_C,
    MP,
    WIRE_A,
    WIRE_B,
    WIRE_C,
    aq,
    assert_both_ways,
    dq,
    rq,
    user,
)

# How each kind of queue name looks, [MS-MQMQ] 2.2.19.2: the structure and its bytes.
NAMES: dict[int, tuple[QueueName | None, str]] = {
    0: (None, ""),
    1: (None, ""),
    2: (PrivateQueueFormatNameId(0x21), "21000000"),
    3: (PrivateQueueFormatNameId(0x31), "31000000"),
    4: (PrivateQueueFormatNameId(0x41), "41000000"),
    5: (PublicQueueFormatName(GUID_C), WIRE_C),
    6: (PrivateQueueFormatName(GUID_C, 0x61), f"{WIRE_C} 61000000"),
    7: (DirectQueueFormatName(6, "aq"), "0600 6100 7100 0000"),
}
DESTINATION_KINDS = (0, 3, 5, 7)
ADMIN_KINDS = (0, 2, 3, 5, 6, 7)
RESPONSE_KINDS = (0, 1, 2, 3, 4, 5, 6, 7)


class TestUserHeader:
    """[MS-MQMQ] 2.2.19.2"""

    def test_fixed_fields(self) -> None:
        header = UserHeader(
            source_queue_manager=GUID_A,
            queue_manager_address=GUID_B,
            time_to_be_received=0x01020304,
            sent_time=0x05060708,
            message_id=0x090A0B0C,
            flags=0x00200000,
        )
        assert_both_ways(header, f"{WIRE_A} {WIRE_B} 04030201 08070605 0c0b0a09 00002000")

    @pytest.mark.conformance("DMPR-246")
    @pytest.mark.parametrize("response", RESPONSE_KINDS)
    @pytest.mark.parametrize("admin", ADMIN_KINDS)
    @pytest.mark.parametrize("destination", DESTINATION_KINDS)
    def test_queue_names_of_every_kind(self, destination: int, admin: int, response: int) -> None:
        flags = dq(destination) | aq(admin) | rq(response) | MP
        header = UserHeader(
            flags=flags,
            destination_queue=NAMES[destination][0],
            admin_queue=NAMES[admin][0],
            response_queue=NAMES[response][0],
        )
        fixed = f"{bytes(32).hex()} ffffffff 00000000 00000000 {flags.to_bytes(4, 'little').hex()}"
        assert_both_ways(header, f"{fixed} {NAMES[destination][1]} {NAMES[admin][1]} {NAMES[response][1]}")

    @pytest.mark.conformance("DMPR-246")
    @pytest.mark.parametrize(
        ("flags", "field"),
        [(dq(kind), "destination_queue") for kind in range(8) if kind not in DESTINATION_KINDS]
        + [(aq(kind), "admin_queue") for kind in range(8) if kind not in ADMIN_KINDS],
    )
    def test_kinds_that_a_queue_cannot_have(self, flags: int, field: str) -> None:
        with pytest.raises(DecodeError, match=f"UserHeader.flags at byte 44: {field} cannot be of kind ."):
            UserHeader.decode(user(flags, bytes(32)))

    def test_the_connector_type_stands_last(self) -> None:
        header = UserHeader(
            flags=MP | CQ | rq(2), response_queue=PrivateQueueFormatNameId(9), connector_type=GUID_B
        )
        fixed = f"{bytes(32).hex()} ffffffff 00000000 00000000 00006200"
        assert_both_ways(header, f"{fixed} 09000000 {WIRE_B}")

    def test_properties_header_is_mandatory(self) -> None:
        data = user(0)[:44] + bytes(4)
        with pytest.raises(DecodeError, match="MP is 0"):
            UserHeader.decode(data)

    def test_flags_have_the_names_of_the_diagram(self) -> None:
        places = {bit.name: (bit.shift, bit.width) for bit in UserHeader.FLAGS["flags"]}
        assert places == {
            "RC": (0, 5),
            "DM": (5, 2),
            "JN": (8, 1),
            "JP": (9, 1),
            "DQ": (10, 3),
            "AQ": (13, 3),
            "RQ": (16, 3),
            "SH": (19, 1),
            "TH": (20, 1),
            "MP": (21, 1),
            "CQ": (22, 1),
            "MQ": (23, 1),
            "AH": (25, 1),
            "HH": (28, 1),
        }

    @pytest.mark.parametrize(
        ("name", "mask"),
        [
            ("HOP_COUNT", 0x0000001F),
            ("DELIVERY", 0x00000060),
            ("NEGATIVE_JOURNALING", 0x00000100),
            ("POSITIVE_JOURNALING", 0x00000200),
            ("SECURITY_HEADER", 0x00080000),
            ("TRANSACTION_HEADER", 0x00100000),
            ("MESSAGE_PROPERTIES_HEADER", 0x00200000),
            ("CONNECTOR_TYPE", 0x00400000),
            ("MULTI_QUEUE_FORMAT_HEADER", 0x00800000),
            ("ARRIVED_OVER_HTTP", 0x02000000),
            ("SOAP_HEADER", 0x10000000),
        ],
    )
    def test_masks(self, name: str, mask: int) -> None:
        assert getattr(user_header, name) == mask

    @pytest.mark.parametrize(
        "bit", [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 19, 20, 23, 24, 25, 26, 27, 28, 29, 30, 31]
    )
    def test_other_bits_are_kept(self, bit: int) -> None:
        assert UserHeader.decode(user(1 << bit)).flags == 1 << bit | MP

    def test_a_name_that_its_kind_does_not_announce_cannot_be_written(self) -> None:
        with pytest.raises(
            ValueError, match=r"UserHeader.destination_queue .* its kind in the flags requires"
        ):
            UserHeader(flags=MP | dq(5), destination_queue=PrivateQueueFormatNameId(1)).encode()
        with pytest.raises(ValueError, match=r"UserHeader.response_queue is None"):
            UserHeader(flags=MP | rq(7)).encode()
