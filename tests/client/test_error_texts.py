"""Errors as a user reads them: what failed, on what, and a fix that helps in that very situation."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tiercel

from .conftest import ORDERS
from .support import fill

NUMBER: Any = 7  # where bytes are required


class Situations:
    """Things that go wrong; the text of each error is matched below."""

    def __init__(self, qm: tiercel.EmbeddedQueueManager, directory: Path) -> None:
        self.qm, self.directory = qm, directory
        self.queue = qm.create_queue(ORDERS)
        self.transactional = qm.create_queue(r".\private$\payments", transactional=True)
        self.message = fill(self.queue, b"x")[0]

    def ended_transaction(self) -> None:
        tx = self.qm.begin_transaction()
        tx.commit()
        tx.commit()

    def single_message_over_quota(self) -> object:
        self.queue.set_properties(quota_kib=1)
        return self.queue.send(bytes(2000))


CASES: list[tuple[str, Callable[[Situations], object], str, str]] = [
    ("nothing there", lambda s: s.transactional.receive(0), "payments", "Wait longer"),
    ("no such queue", lambda s: s.qm.queue(r".\private$\x"), r"\\x: no such queue", "create the queue"),
    ("exists", lambda s: s.qm.create_queue(ORDERS), r"orders: .* exists already", "another name"),
    ("no name", lambda s: s.qm.create_queue(""), "empty", r"\.\\private\$\\"),
    ("no path name", lambda s: s.qm.create_queue("a=b"), "a=b", r"private\$\\name"),
    (
        "slashes",
        lambda s: s.qm.create_queue("./private$/orders"),
        "character '/'",
        "Leave that character out|backslash",
    ),
    ("elsewhere", lambda s: s.qm.create_queue(r"a\private$\b"), "this computer", r"\. as the computer"),
    ("remote read", lambda s: s.qm.queue(r"a\private$\b").receive(0), "another computer", "on its own"),
    (
        "long label",
        lambda s: s.queue.send(tiercel.Message(label="x" * 300)),
        "present: 300, limit: 249",
        "Shorten",
    ),
    (
        "priority",
        lambda s: s.queue.send(tiercel.Message(priority=8)),
        "priority.*present: 8, limit: 0 to 7",
        "within",
    ),
    (
        "number as body",
        lambda s: s.queue.send(tiercel.Message(NUMBER)),
        "body.*present: int, limit: bytes",
        "Pass bytes",
    ),
    (
        "number as message",
        lambda s: s.queue.send(NUMBER),
        "present: int, limit: Message, bytes or str",
        "Pass",
    ),
    ("too big", lambda s: s.queue.send(bytes(5 << 20)), "limit: 4194304", "Split the body"),
    ("quota", Situations.single_message_over_quota, "limit: 1 KiB", "(?i)raise the quota"),
    ("no transaction", lambda s: s.transactional.send(b"x"), "payments.*transactional", "in a transaction"),
    (
        "with transaction",
        lambda s: s.queue.send(b"x", transaction=s.qm.begin_transaction()),
        "orders.*transactional",
        "without",
    ),
    (
        "receive with transaction",
        lambda s: s.queue.receive(0, transaction=s.qm.begin_transaction()),
        "orders: the queue is not transactional",
        "without a transaction",
    ),
    ("ended transaction", Situations.ended_transaction, "transaction .* ended", "Begin a new one"),
    (
        "lookup id",
        lambda s: s.queue.receive(lookup_id=5),
        "message 5 of queue .*orders",
        "received, moved or expired",
    ),
    ("time-out", lambda s: s.queue.receive(-1), "timeout.*present: -1, limit: 0 or more", "seconds, or None"),
    ("property", lambda s: s.queue.set_properties(lable="x"), "property lable of queue .*orders", "label"),
    (
        "transactional",
        lambda s: s.queue.set_properties(transactional=True),
        "property transactional",
        "Set one of",
    ),
    ("dead letters", lambda s: s.qm.dead_letters.send(b"x"), "only the queue manager", "Send to"),
    (
        "journal",
        lambda s: s.queue.journal.delete(),
        "orders;JOURNAL",
        "urge|queue it belongs to|queue itself",
    ),
    ("subqueue", lambda s: s.queue.subqueue("x").send(b"x"), "being moved there", "Send to the queue itself"),
    ("move to itself", lambda s: s.queue.move(s.message, None), "orders", "subqueue"),
    ("format name", lambda s: s.qm.queue("DIRECT=XX:a"), "DIRECT=XX:a", "OS, TCP"),
    ("cursor", lambda s: s.queue.cursor().peek_next(), "no current message", "Peek at the current"),
    ("open twice", lambda s: tiercel.open(s.directory), "already open", "another directory"),
    (
        "public name",
        lambda s: s.qm.queue(f"PUBLIC={'0' * 8}-0000-0000-0000-{'0' * 12}").send(b""),
        "directory",
        "Use",
    ),
]


@pytest.mark.parametrize(("go", "problem", "fix"), [pytest.param(*case[1:], id=case[0]) for case in CASES])
def test_says_what_and_how(
    qm: tiercel.EmbeddedQueueManager,
    directory: Path,
    go: Callable[[Situations], object],
    problem: str,
    fix: str,
) -> None:
    situations = Situations(qm, directory)
    with pytest.raises(tiercel.MqError) as raised:
        go(situations)
    error = raised.value
    text = str(error)
    start_of_fix = text.rindex(error.fix[1:]) - 1
    assert re.search(problem, text[:start_of_fix]), text
    assert re.search(fix, text[start_of_fix:]), text
    assert text.endswith(f"[{error.name} 0x{error.code:08X}]")
