"""The log: one line per event, whatever a peer says."""

import asyncio
import errno
import io
import json
import logging
import os
import resource
import socket
from collections.abc import Iterator
from uuid import UUID

import pytest

from tiercel.server import log


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    level = log.LOGGER.level
    log.LOGGER.addHandler(handler)
    log.LOGGER.setLevel(logging.INFO)
    yield out
    log.LOGGER.removeHandler(handler)
    log.LOGGER.setLevel(level)


def use(formatter: logging.Formatter) -> None:
    log.LOGGER.handlers[-1].setFormatter(formatter)


def test_text(lines: io.StringIO) -> None:
    use(log.TextLines())
    log.info("session_opened", address="10.0.0.1", peer=UUID(int=7), reason="", count=None)
    stamp, rest = lines.getvalue().split(" ", 1)
    assert stamp.startswith("time=20")
    assert stamp.endswith("Z")
    assert rest == (
        "level=info event=session_opened address=10.0.0.1 peer=00000000-0000-0000-0000-000000000007\n"
    )


def test_nobody_can_forge_a_line(lines: io.StringIO) -> None:
    use(log.TextLines())
    log.warning("session_refused", reason='x\nlevel=info event="start"\u2028\x1b[2J')
    assert lines.getvalue().count("\n") == 1
    assert lines.getvalue().splitlines() == [lines.getvalue().rstrip("\n")]
    assert lines.getvalue().isascii()
    assert "\x1b" not in lines.getvalue()


def test_json(lines: io.StringIO) -> None:
    use(log.JsonLines())
    log.warning("session_refused", reason="a\nb", peer=UUID(int=7), count=3)
    entry = json.loads(lines.getvalue())
    assert lines.getvalue().count("\n") == 1
    assert entry.pop("time")
    peer = "00000000-0000-0000-0000-000000000007"
    assert entry == {
        "level": "warning",
        "event": "session_refused",
        "reason": "a\nb",
        "peer": peer,
        "count": 3,
    }


def test_a_line_of_somebody_else_and_a_trace(lines: io.StringIO) -> None:
    use(log.JsonLines())
    log.LOGGER.error("what %s said", "asyncio", exc_info=ValueError("x"))
    entry = json.loads(lines.getvalue())
    assert (entry["event"], entry["text"]) == ("message", "what asyncio said")
    assert "ValueError: x" in entry["trace"]


def test_what_is_below_the_level_costs_nothing(lines: io.StringIO) -> None:
    log.debug("dial_failed", reason="x")
    assert lines.getvalue() == ""


def test_what_strangers_can_repeat_is_counted(lines: io.StringIO) -> None:
    use(log.TextLines())
    now = 100.0
    refused = log.Repeated("logon_refused", lambda: now)
    for second in range(2):
        now = 100.0 + second
        for _ in range(1000):
            refused("no such account")
            refused("wrong password")
    now = 200.0
    refused("wrong password")
    told = [line.split(" event=")[1] for line in lines.getvalue().splitlines()]
    assert told == [
        'logon_refused reason="no such account"',
        'logon_refused reason="wrong password" count=1000',
        'logon_refused reason="no such account" count=999',
        'logon_refused reason="no such account"',
        'logon_refused reason="wrong password" count=1000',
        'logon_refused reason="no such account" count=999',
        'logon_refused reason="wrong password"',
    ]


def test_and_their_inventions_do_not_fill_the_log(lines: io.StringIO) -> None:
    use(log.TextLines())
    now = 100.0
    refused = log.Repeated("logon_refused", lambda: now)
    for number in range(1000):
        refused(f"no account {number}")
    now = 200.0
    refused("the last")
    told = [line.split(" event=")[1] for line in lines.getvalue().splitlines()]
    assert told == [
        'logon_refused reason="no account 0"',
        *(f'logon_refused reason="no account {number}" count=1' for number in range(1, 9)),
        "logon_refused reason=others count=991",
        'logon_refused reason="the last"',
    ]


def test_a_burst_is_logged_line_by_line(lines: io.StringIO) -> None:
    use(log.TextLines())
    now = 100.0
    opened = log.Repeated("session_opened", lambda: now, burst=3)
    for second in range(2):
        now = 100.0 + second
        for number in range(10):
            opened("", connection=number)
    told = [line.split(" event=")[1] for line in lines.getvalue().splitlines()]
    burst = [f"session_opened connection={number}" for number in range(3)]
    assert told == [*burst, "session_opened count=7", *burst]


def test_running_out_of_file_descriptors_is_one_line_a_second(lines: io.StringIO) -> None:
    use(log.TextLines())

    async def main() -> None:
        loop = asyncio.get_running_loop()
        log.limit_accept_errors(loop)
        listener = socket.create_server(("127.0.0.1", 0), backlog=100)
        server = await loop.create_server(asyncio.Protocol, sock=listener)
        clients = [socket.create_connection(listener.getsockname()) for _ in range(20)]
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        spare = os.open(os.devnull, os.O_RDONLY)
        resource.setrlimit(resource.RLIMIT_NOFILE, (spare, hard))  # no number is free
        try:
            os.close(spare)
            for _ in range(500):  # whatever the loop logs
                if not lines.getvalue():
                    await asyncio.sleep(0.01)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        server.close()
        for each in clients:
            each.close()

    asyncio.run(main())
    logged = lines.getvalue().splitlines()
    assert "level=error event=out_of_file_descriptors" in logged[0]
    assert len(logged) == 1


def test_other_errors_of_the_loop_are_logged_in_full(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        log.limit_accept_errors(loop)
        loop.call_exception_handler({"message": "a bug", "exception": OSError(errno.EIO, "broken")})

    asyncio.run(main())
    assert "a bug" in caplog.text
