r"""A queue manager is killed during a transaction; another process opens what it left.

A second process sends three orders and commits, sends two more, and is killed with SIGKILL before it commits.
This one then opens the same directory: the three orders are there, the two are not.
"""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import tiercel

ORDERS = r".\private$\orders"


def doomed(folder: str) -> None:
    qm = tiercel.open(folder)
    orders = qm.create_queue(ORDERS, transactional=True)
    with qm.transaction() as transaction:
        for number in (1, 2, 3):
            orders.send(tiercel.Message(b"...", label=f"order {number}"), transaction=transaction)
    print("  committed: orders 1, 2 and 3", flush=True)
    transaction = qm.begin_transaction()
    for number in (4, 5):
        orders.send(tiercel.Message(b"...", label=f"order {number}"), transaction=transaction)
    taken = orders.receive(timeout=0, transaction=transaction)
    print(f"  not committed: orders 4 and 5 were sent, {taken.label} was received", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        print("A process opens a queue manager:", flush=True)
        child = subprocess.run([sys.executable, __file__, folder], check=False)  # noqa: S603  # this very file
        print(f"  killed by signal {-child.returncode}")
        print("Another process opens what it left:")
        with tiercel.open(Path(folder)) as qm:
            orders = qm.queue(ORDERS)
            labels = [message.label for message in orders.cursor()]
            first = orders.receive(timeout=0)
            print(f"  found: {', '.join(labels)}; received again (never committed): {first.label}")
    survived = labels == ["order 1", "order 2", "order 3"] and first.label == "order 1"
    print("Everything committed is there, and nothing else." if survived else "LOST!")
    return 0 if survived else 1


if __name__ == "__main__":
    if len(sys.argv) > 1:
        doomed(sys.argv[1])
    sys.exit(main())
