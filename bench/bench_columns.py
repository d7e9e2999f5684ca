"""How fast stored messages become Arrow columns: against reading them one by one, and against a bare copy."""

import gc
import time
from collections.abc import Callable
from uuid import UUID

from tiercel.columns import messages_of, names
from tiercel.columns.stored import StoredRows, batch_of, slow_batch_of
from tiercel.engine.records import Record
from tiercel.model.format_name import FormatName
from tiercel.model.identifiers import MessageId, TxSequenceId
from tiercel.model.message import Message
from tiercel.wire.message import encode_message

QUEUE = FormatName.parse(r"DIRECT=OS:server01\private$\orders")
ANSWERS = [FormatName.parse(rf"DIRECT=OS:client{number}\private$\answers") for number in range(8)]
SOURCE = UUID("11ea26c6-b6e6-4997-9595-9150557358d1")
SENDER = bytes.fromhex("010500000000000515000000ad4a9ebd36d9fa3d63a656dae8030000")

ROUNDS = 9
BATCH_BYTES = 8 << 20
MAX_ROWS = 8192
SLOW_ROWS = 500
COLUMNS = {
    "narrow (6)": ("lookup_id", "sent_time", "message_id", "class", "label", "body"),
    "wide, no body": tuple(name for name in names() if name != "body"),
    "all": names(),
}


def record(number: int, body: bytes) -> bytes:
    """A transactional message with a sender and a queue for answers: the most that is usual."""
    message = Message(
        body,
        label=f"order {number}",
        destination_queue=QUEUE,
        response_queue=ANSWERS[number % len(ANSWERS)],
        id=MessageId(SOURCE, number),
        sent_time=1_700_000_000,
        transaction_id=number % 1000,
        tx_sequence_id=TxSequenceId(1_700_000_000, 1),
        tx_sequence_number=number,
        sender_id=SENDER,
        sender_id_type=1,
    )
    return Record(encode_message(message), 1_700_000_001).encode()


def records(size: int) -> list[bytes]:
    count = min(MAX_ROWS, BATCH_BYTES // (size + 400))
    return [record(number, bytes(size)) for number in range(count)]


def microseconds(operations: dict[str, tuple[int, Callable[[], object]]]) -> dict[str, float]:
    """Of one core for one row, the best of several rounds taken by turns: what else runs counts little so."""
    best = dict.fromkeys(operations, float("inf"))
    gc.disable()
    try:
        for _ in range(ROUNDS):
            for name, (count, operation) in operations.items():
                start = time.process_time()
                operation()
                best[name] = min(best[name], (time.process_time() - start) / count * 1e6)
    finally:
        gc.enable()
    return best


def compare(data: list[bytes], chosen: tuple[str, ...]) -> str:
    few = StoredRows.of(range(SLOW_ROWS), data[:SLOW_ROWS])
    joined = b"".join(data)
    took = microseconds(
        {
            "fast": (len(data), lambda: batch_of(StoredRows.of(range(len(data)), data), chosen)),
            "slow": (len(few), lambda: slow_batch_of(few, chosen)),
            "copy": (len(data), lambda: bytearray(joined)),
        }
    )
    fast, slow, copy = took["fast"], took["slow"], took["copy"]
    return f"{fast:>10.2f}{slow:>12.1f}{slow / fast:>7.0f}x{copy:>8.3f}{fast / copy:>10.1f}x"


def main() -> None:
    titles = f"{'us a row':>10}{'one by one':>12}{'faster':>8}{'copy':>8}{'of a copy':>11}"
    print(f"{'body':<10}{'columns':<16}{titles}")
    for size in (100, 1024, 10240):
        data = records(size)
        for title, chosen in COLUMNS.items():
            print(f"{size:<10}{title:<16}{compare(data, chosen)}")
    rows = StoredRows.of(range(1000), records(1024)[:1000])
    written = batch_of(rows, ["label", "body", "priority", "app_specific", "correlation_id"])
    took = microseconds({"messages": (len(written), lambda: list(messages_of(written)))})
    print(f"\nrows to messages, 1024 bytes, 5 columns: {took['messages']:.2f} us a row")


if __name__ == "__main__":
    main()
