"""Many stored messages at once give the same as each of them alone, whatever they are."""

import itertools

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from columns.strategies import plain_records, records, records_of
from tiercel.columns import SCHEMA, RowFilter
from tiercel.columns.stored import BadMessageError, StoredRows, batch_of, slow_batch_of
from tiercel.columns.walk import Walk
from tiercel.engine.claim_records import claimed_key, encode_claimed
from tiercel.engine.records import Record, message_key
from tiercel.model.codes import QueueFormatType
from tiercel.model.format_name import FormatName
from tiercel.model.identifiers import MessageId
from tiercel.model.limits import MAX_PACKET_SIZE
from tiercel.model.message import Message
from tiercel.wire.message import encode_message
from tiercel.wire.user_header import ADMIN_KINDS, DESTINATION_KINDS, RESPONSE_KINDS
from wire import packets
from wire import strategies as wire
from wire.packets import PLAIN, SESSION, TRANSACTIONAL, VECTORS, aq, direct, dq, properties, rq, user

ALL = SCHEMA.names
ARRIVAL = 1_700_000_000
_QUEUE = FormatName.parse(r"DIRECT=OS:host\private$\orders")


def stored(*data: bytes) -> StoredRows:
    return StoredRows.of(range(len(data)), data)


def record(packet: bytes) -> bytes:
    return Record(packet, ARRIVAL).encode()


def assert_same(rows: StoredRows) -> pa.RecordBatch:
    """All at once is as one by one, and good Arrow; the batch."""
    batch = batch_of(rows, ALL, queue="q", subqueue="s", bad="column")
    batch.validate(full=True)
    expected = slow_batch_of(rows, ALL, queue="q", subqueue="s", bad="column")
    assert batch.schema.equals(SCHEMA, check_metadata=True)
    assert batch.to_pylist() == expected.to_pylist()
    assert batch.equals(expected)
    return batch


def is_plain(rows: StoredRows) -> bool:
    return bool(Walk(rows.joined, rows.head_size).is_plain.all())


class TestSameAsOneByOne:
    @given(st.lists(records, max_size=12))
    def test_any_records(self, data: list[bytes]) -> None:
        assert_same(stored(*data))

    @given(st.lists(plain_records, min_size=1, max_size=12))
    def test_plain_records_are_read_all_at_once(self, data: list[bytes]) -> None:
        rows = stored(*data)
        assert is_plain(rows)
        assert_same(rows)

    @given(st.lists(records_of(wire.messages().map(encode_message)), min_size=1, max_size=8))
    def test_what_we_send(self, data: list[bytes]) -> None:
        assert_same(stored(*data))

    @given(st.lists(st.tuples(st.integers(0, 2**64 - 1), wire.u32, records | plain_records), max_size=8))
    def test_claimed_messages(self, claimed: list[tuple[int, int, bytes]]) -> None:
        """Their values have a head before the record, and their keys are the numbers of the claim."""
        keys = [claimed_key(7, seq) for seq, _ in enumerate(claimed, 1)]
        batch = assert_same(StoredRows.of_claimed(keys, [encode_claimed(*each) for each in claimed]))
        assert batch["claim_seq"].to_pylist() == [seq for seq, _ in enumerate(claimed, 1)]
        assert [each % 2**64 for each in batch["lookup_id"].to_pylist()] == [each[0] for each in claimed]

    @pytest.mark.parametrize("size", [0, 1, 8, 12, 15, 16, 40])
    def test_claimed_messages_that_are_cut_short(self, size: int) -> None:
        whole = encode_claimed(5, 6, record(PLAIN))
        keys = [claimed_key(7, seq) for seq in (1, 2, 3)]
        batch = assert_same(StoredRows.of_claimed(keys, [whole, whole[:size], whole]))
        assert [error is None for error in batch["decode_error"].to_pylist()] == [True, False, True]

    @pytest.mark.parametrize("at", range(16))
    def test_damaged_heads_of_claimed_messages(self, at: int) -> None:
        damaged = bytearray(encode_claimed(5, 6, record(PLAIN)))
        damaged[at] ^= 1
        batch = assert_same(StoredRows.of_claimed([claimed_key(7, 1)], [bytes(damaged)]))
        assert "its head is damaged" in batch["decode_error"][0].as_py()

    def test_every_kind_of_queue_name(self) -> None:
        bytes_of = {2: bytes(4), 3: b"\3\0\0\0", 4: b"\4\0\0\0", 5: bytes(range(16)), 6: bytes(range(20))}
        names = {kind: bytes_of.get(kind, b"") for kind in range(8)} | {7: direct(r"OS:h\q")}
        data = [
            record(
                packets.packet(
                    user(dq(d) | aq(a) | rq(r), names[d] + names[a] + names[r], address=bytes([host]) * 16),
                    properties(),
                )
            )
            for d, a, r in itertools.product(DESTINATION_KINDS, ADMIN_KINDS, RESPONSE_KINDS)
            for host in (0, 1)
        ]
        rows = stored(*data)
        assert is_plain(rows)
        batch = assert_same(rows)
        assert len(set(batch["resp_queue"].to_pylist())) > len(QueueFormatType)

    def test_vectors(self) -> None:
        frames = [record(path.read_bytes()) for path in sorted(VECTORS.glob("*.bin"))]
        batch = assert_same(stored(*frames, record(PLAIN), record(TRANSACTIONAL)))
        labels = batch["label"].to_pylist()
        assert [label for label in labels if label is not None] == ["mqsender label", "hello", ""]

    def test_session_header_that_rides_on_a_message(self) -> None:
        header = user(dq(7), direct(r"OS:h\q")), properties(label="rides", body=b"!")
        riding = [
            packets.packet(*header, flags=0x13, session=SESSION, counts_session=counts)
            for counts in (False, True)
        ]
        batch = assert_same(stored(*map(record, [*riding, PLAIN])))
        assert batch["label"].to_pylist() == ["rides", "rides", "hello"]

    @pytest.mark.parametrize("odd", [0, 1, 2, 3])
    def test_order_is_kept_around_odd_ones(self, odd: int) -> None:
        data = [record(encode_message(_message(number))) for number in range(4)]
        data[odd] = record(encode_message(_message(odd, tracing=True)))
        batch = assert_same(stored(*data))
        assert batch["message_id"].to_pylist() == [str(_message(number).id) for number in range(4)]
        assert batch["trace"].to_pylist() == [int(number == odd) for number in range(4)]

    def test_largest_message(self) -> None:
        body = bytes(range(256)) * (MAX_PACKET_SIZE // 256)
        largest = encode_message(_message(1, body=body[: MAX_PACKET_SIZE - 512]))
        batch = assert_same(stored(record(PLAIN), record(largest), record(PLAIN)))
        assert batch["body"][1].as_py() == body[: MAX_PACKET_SIZE - 512]

    def test_no_rows(self) -> None:
        assert assert_same(stored()).num_rows == 0

    def test_every_subset_of_columns(self) -> None:
        rows = stored(record(PLAIN), record(TRANSACTIONAL))
        whole = batch_of(rows, ALL)
        for name in ALL:
            assert batch_of(rows, [name])[name].equals(whole[name])

    @example("")
    @example("plain")
    @example("Grüße, 東京, \U0001f600")
    @example("half \ud83d, other half \ude00")
    @given(st.text(max_size=100))
    def test_labels(self, label: str) -> None:
        data = [record(encode_message(_message(1, label=text))) for text in ("before", label, "after")]
        batch = assert_same(stored(*data))
        assert batch["label"][0].as_py() == "before"
        assert batch["label"][2].as_py() == "after"


class TestBadMessages:
    WHOLE = record(PLAIN)
    DAMAGED = WHOLE[:-1] + bytes([WHOLE[-1] ^ 1])
    UNREADABLE = record(PLAIN[:-4])

    def test_fail(self) -> None:
        with pytest.raises(BadMessageError, match=r"0x0000000000000001: .*checksum is wrong"):
            batch_of(stored(self.WHOLE, self.DAMAGED))
        with pytest.raises(BadMessageError, match=r"BaseHeader.packet_size at byte 8"):
            batch_of(stored(self.WHOLE, self.UNREADABLE))

    def test_column(self) -> None:
        batch = assert_same(stored(self.DAMAGED, self.WHOLE, self.UNREADABLE))
        assert [error is None for error in batch["decode_error"].to_pylist()] == [False, True, False]
        assert batch["label"].to_pylist() == [None, "hello", None]
        assert batch["lookup_id"].to_pylist() == [0, 1, 2]
        assert batch["raw"].to_pylist() == [self.DAMAGED, PLAIN, PLAIN[:-4]]

    def test_skip(self) -> None:
        rows = stored(self.DAMAGED, self.WHOLE, self.UNREADABLE, record(TRANSACTIONAL))
        batch = batch_of(rows, ALL, bad="skip")
        assert batch["lookup_id"].to_pylist() == [1, 3]
        assert batch.equals(slow_batch_of(rows, ALL, bad="skip"))

    def test_nothing_but_bad_ones(self) -> None:
        assert batch_of(stored(self.DAMAGED, b""), bad="skip").num_rows == 0


class TestRows:
    def test_of_the_keyspace_of_messages(self) -> None:
        highest = 0xFFFF_FFFF_FFFF_FFFF
        keys = [message_key(3, 5), message_key(3, highest)]
        batch = batch_of(StoredRows.of_messages(keys, [record(PLAIN), record(TRANSACTIONAL)]), ALL)
        assert batch["lookup_id"].to_pylist() == [5, -1]
        assert batch["claim_seq"].null_count == 2

    def test_memory_of_the_store_is_not_kept(self) -> None:
        memory = bytearray(record(PLAIN))
        batch = batch_of(StoredRows.of([1], [memoryview(memory)]), ALL)
        before = batch.to_pylist()
        memory[:] = bytes(len(memory))
        assert batch.to_pylist() == before

    def test_filtered_by_columns_that_nobody_asked_for(self) -> None:
        rows = stored(record(PLAIN), record(TRANSACTIONAL))
        batch = batch_of(rows, ["lookup_id"], where=RowFilter(label_like="hel%"))
        assert batch.to_pydict() == {"lookup_id": [0]}


def _message(number: int, **properties: object) -> Message:
    message = Message(id=MessageId(packets.GUID_A, number), destination_queue=_QUEUE)
    for name, value in properties.items():
        setattr(message, name, value)
    return message
