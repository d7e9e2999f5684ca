"""A service that is killed at work loses no message, and repeats none that it has committed.

`make crash-wcf` kills it more often than the suite has time for.
"""

import os
import random
import subprocess
import sys
from pathlib import Path

import tiercel
from tiercel import wcf

from .killed_service import ACTION, ADDRESS

KILLS = int(os.environ.get("TIERCEL_WCF_KILLS", "5"))
SERVICE = Path(__file__).parent / "killed_service.py"


def killed_after(directory: Path, lines: int | None) -> list[tuple[str, int]]:
    """What a service says until it is killed after so many lines, or until it has nothing more to do."""
    said: list[tuple[str, int]] = []
    command = [sys.executable, str(SERVICE), str(directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        assert process.stdout is not None
        while (lines is None or len(said) < lines) and (line := process.stdout.readline()):
            verb, number = line.split()
            said.append((verb, int(number)))
        if lines is not None:
            process.kill()
        rest = process.stdout.read()  # it may have come further before it was killed
    said += [(line.split()[0], int(line.split()[1])) for line in rest.splitlines() if len(line.split()) == 2]
    return said


def test_kills(tmp_path: Path) -> None:
    count, draw = KILLS + 5, random.Random(7)
    with tiercel.open(tmp_path) as qm:
        qm.create_queue(r".\private$\orders", transactional=True)
        with wcf.Endpoint(qm, ADDRESS).client() as client:
            for number in range(count):
                client.send(ACTION, {"number": number})
    ended: set[int] = set()  # its operation has returned at least once
    committed: set[int] = set()
    for kill in range(KILLS + 1):
        said = killed_after(tmp_path, None if kill == KILLS else draw.choice([1, 2]))
        started = [number for verb, number in said if verb == "start"]
        assert not committed & set(started), "a message came again after its commit"
        assert started == sorted(set(started)), "an operation returned, and its message came again"
        # When a message starts, the ones before it are committed; whether the last one is, nobody knows.
        committed |= set(range(max(started, default=0)))
        ended |= {number for verb, number in said if verb == "end"}
    assert ended == set(range(count)), "a message was lost"
    with tiercel.open(tmp_path) as qm:
        queue = qm.queue(r".\private$\orders")
        assert [queue.count, queue.subqueue("retry").count, queue.subqueue("poison").count] == [0, 0, 0]
