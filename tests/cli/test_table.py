"""Tables on a real terminal of 80 and 120 columns: what a row is there to say is never shortened."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

import tiercel
from tiercel.cli.table import Column, Record, Styled, layout

from .running_verbs import Run

REASON = "no message like it can be accepted here, because the queue takes messages of a transaction only"
COLUMNS = (
    Column("QUEUE", lambda row: Styled(row["queue"], "bold")),
    Column("MESSAGES", lambda row: row["messages"], "right"),
    Column("LABEL", lambda row: row["label"], folds=True),
    Column("BODY", lambda row: row["body"], folds=True),
    Column("REASON", lambda row: row["reason"], below=True),
)


def row(**changes: str) -> Record:
    return {
        "queue": "orders",
        "messages": "1,234",
        "label": "x" * 40,
        "body": "y" * 90,
        "reason": "full",
        **changes,
    }


def texts(rows: list[Record], width: int, *, rule: bool = False) -> list[str]:
    lines = ["".join(line) for line in layout(rows, COLUMNS, width, rule=rule)]
    assert all(len(line) <= width for line in lines)
    return lines


class TestLayout:
    def test_with_room_for_everything(self) -> None:
        head, line = texts([row()], 200)
        assert head.split() == ["QUEUE", "MESSAGES", "LABEL", "BODY", "REASON"]
        assert line == f"orders     1,234  {'x' * 40}  {'y' * 90}  full"

    def test_labels_and_bodies_share_what_is_left(self) -> None:
        head, line = texts([row(label="short")], 80)
        assert line.startswith("orders     1,234  short  yyyy")
        assert line.endswith("…  full")
        assert len(head) == 80

    def test_a_reason_goes_below_and_is_whole(self) -> None:
        head, line, *reason = texts([row(reason=REASON)], 80, rule=False)
        assert "REASON" not in head
        assert line.startswith("orders     1,234  xx")
        assert reason[0].startswith("    reason  no message")
        assert " ".join(" ".join(reason).split()) == f"reason {REASON}"

    def test_a_name_that_leaves_no_room_is_above_its_values(self) -> None:
        name = "DIRECT=OS:" + "computer." * 4 + r"example\private$\orders"
        head, *lines = texts([row(), row(queue=name)], 80)
        at = head.index("MESSAGES") + len("MESSAGES") - len("1,234")
        assert lines[0].startswith("orders ")
        assert lines[2] == name
        assert lines[3].startswith(" " * at + "1,234  xxx")
        assert lines[0][at:] == lines[3][at:]

    def test_a_terminal_too_narrow_for_a_table_gets_a_list(self) -> None:
        name = "DIRECT=OS:" + "computer." * 8 + r"example\private$\orders"
        lines = ["".join(line) for line in layout([row(queue=name)], COLUMNS, 40, rule=False)]
        assert lines[0] == name
        assert lines[1] == "    messages  1,234"
        assert "".join(lines).count("y") == 90 + 1  # of "body"

    def test_wide_letters_count_twice(self) -> None:
        _, line = layout([row(label="漢" * 40)], COLUMNS, 80, rule=False)
        shown = "".join(line)
        assert sum(2 if letter == "漢" else 1 for letter in shown) <= 80

    def test_nothing_to_show_in_a_column(self) -> None:
        head, _ = texts([row(reason="")], 80)
        assert "REASON" not in head


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with tiercel.open(tmp_path / "data") as qm:
        for name in ("orders", "a-queue-with-a-name-of-some-length"):
            queue = qm.create_queue(name, label="Orders of the shop, and some more words about them")
            queue.send(tiercel.Message(b"hello " * 20, label="order 7", delivery=1))
        gone = tiercel.Message(b"x" * 90, label="an order that is late", delivery=1, negative_journaling=True)
        gone.time_to_be_received = 0
        qm.queue("orders").send(gone)
        qm.create_queue("lake").send(tiercel.Message(b"claimed", delivery=1))
        qm.consumer("a-spark-job").claim("lake")
        paid = qm.create_queue("paid", transactional=True)
        transaction = qm.begin_transaction()
        paid.send(b"in doubt", transaction=transaction)
        qm.driver.run(lambda: qm.driver.engine.resource_manager.prepare(transaction.id))
        far = qm.queue(r"DIRECT=OS:warehouse.example\private$\incoming-orders")
        far.send(tiercel.Message(b"far", delivery=1))
    return tmp_path / "data"


def on_a_terminal(columns: int, data: Path, *commands: str) -> str:
    """What a terminal of this width shows for some commands."""
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    words = [[*command.split(), "--data", str(data)] for command in commands]
    program = f"from tiercel.cli import main\nfor words in {words!r}: main(words)"
    environment = {**os.environ, "TERM": "xterm"}
    for name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"):
        environment.pop(name, None)
    with subprocess.Popen([sys.executable, "-c", program], stdout=side, env=environment):  # noqa: S603  # our own
        os.close(side)
        shown = bytearray()
        while piece := _read(main):
            shown += piece
    os.close(main)
    return re.sub(r"\x1b\[[0-9;]*m", "", shown.decode()).replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # the other side is closed
        return b""


@pytest.mark.parametrize("columns", [80, 120])
def test_a_real_terminal_shows_every_answer(columns: int, data: Path, run: Run) -> None:
    def said(command: str) -> list[Record]:
        return run.fine(*command.split(), "--json", "--data", data).records

    queues, dead, transactions, discards = map(said, ("ls", "dead", "transactions", "discards"))
    commands = (
        "ls",
        "ls -l",
        "ls --all",
        "outgoing",
        "dead",
        "discards",
        "claims",
        "transactions",
        "peek orders -n 5",
    )
    shown = on_a_terminal(columns, data, *commands)
    assert max(map(len, shown.splitlines())) <= columns
    flat = " ".join(shown.split())
    for queue in queues:
        assert queue["format_name"] in flat
    assert dead[0]["lookup_id"] in flat
    assert dead[0]["reason"] in flat
    assert discards[0]["reason"] in flat
    assert transactions[0]["id"] in flat
    assert "in doubt" in flat
    assert "a-spark-job" in flat
    assert (
        "waiting to connect" in flat
    )  # the state of the outgoing queue, in a word that needs no specification
