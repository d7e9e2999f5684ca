import pytest

from tiercel.model.errors import DecodeError
from tiercel.model.identifiers import TxSequenceId
from tiercel.wire import transaction_header
from tiercel.wire.transaction_header import TransactionHeader

from .packets import GUID_B, WIRE_B, assert_both_ways

NUMBERS = "04030201 08070605 0c0b0a09 100f0e0d"


class TestTransactionHeader:
    """[MS-MQMQ] 2.2.20.5"""

    def test_fields(self) -> None:
        header = TransactionHeader(
            flags=0x00ABCDE6,
            tx_sequence_id=TxSequenceId(timestamp=0x05060708, ordinal=0x01020304),
            tx_sequence_number=0x090A0B0C,
            previous_tx_sequence_number=0x0D0E0F10,
        )
        assert_both_ways(header, f"e6cdab00 {NUMBERS}")
        assert header.transaction_id == 0xABCDE

    def test_connector_guid_follows_when_its_bit_says_so(self) -> None:
        header = TransactionHeader(
            1, TxSequenceId(0x05060708, 0x01020304), 0x090A0B0C, 0x0D0E0F10, connector_qm_guid=GUID_B
        )
        assert_both_ways(header, f"01000000 {NUMBERS} {WIRE_B}")

    def test_flags(self) -> None:
        bits = TransactionHeader.FLAGS["flags"]
        assert [(bit.name, bit.shift, bit.width) for bit in bits] == [
            ("CG", 0, 1),
            ("FA", 1, 1),
            ("FM", 2, 1),
            ("LM", 3, 1),
            ("ID", 4, 20),
        ]
        assert transaction_header.CONNECTOR_GUID == 1
        assert transaction_header.FINAL_ACK_REQUIRED == 2
        assert transaction_header.FIRST_IN_TRANSACTION == 4
        assert transaction_header.LAST_IN_TRANSACTION == 8

    @pytest.mark.parametrize(("flags", "transaction_id"), [(0xFFFFFFF0, 0xFFFFF), (0xFF00000F, 0), (0x10, 1)])
    def test_transaction_id_has_twenty_bits(self, flags: int, transaction_id: int) -> None:
        assert TransactionHeader(flags).transaction_id == transaction_id

    def test_a_missing_connector_guid_is_refused(self) -> None:
        with pytest.raises(DecodeError, match="connector_qm_guid at byte 20"):
            TransactionHeader.decode(bytes.fromhex(f"01000000 {NUMBERS}"))


class TestTxSequenceID:
    """[MS-MQMQ] 2.2.18.1.2"""

    def test_the_timestamp_decides_before_the_ordinal(self) -> None:
        assert TxSequenceId(timestamp=1, ordinal=0xFFFFFFFF) < TxSequenceId(timestamp=2, ordinal=0)
        assert TxSequenceId(timestamp=2, ordinal=1) < TxSequenceId(timestamp=2, ordinal=2)
