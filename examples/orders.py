r"""A shop and its warehouse over one transactional queue.

    python examples/orders.py [directory]

Run it twice with the same directory: the messages of the first run are still in the queue.
"""

import sys
import tempfile
from pathlib import Path

import tiercel

ORDERS, SHIPPING = r".\private$\orders", r".\private$\shipping"


def queue(qm: tiercel.EmbeddedQueueManager, name: str) -> tiercel.EmbeddedQueue:
    return qm.create_queue(name, transactional=True, exist_ok=True)


def take_orders(qm: tiercel.EmbeddedQueueManager) -> None:
    """Send all orders of a basket, or none."""
    with qm.transaction() as tx:
        for number, item in enumerate(["tea", "bread", "a brick"], start=1):
            order = tiercel.Message(item.encode(), label=f"order {number}")
            queue(qm, ORDERS).send(order, transaction=tx)


def ship(qm: tiercel.EmbeddedQueueManager) -> None:
    """Receive one order and forward it in the same transaction: never lost, never shipped twice."""
    with qm.transaction() as tx:
        order = queue(qm, ORDERS).receive(timeout=0, transaction=tx)
        if order.body == b"a brick":
            raise ValueError(f"{order.label}: we do not ship bricks")
        queue(qm, SHIPPING).send(tiercel.Message(b"parcel: " + order.body), transaction=tx)
        print(f"{order.label}: {order.body.decode()} is on its way")


def main(directory: Path) -> None:
    with tiercel.open(directory) as qm:
        take_orders(qm)
        orders = queue(qm, ORDERS)
        while True:
            try:
                ship(qm)
            except tiercel.IoTimeoutError:
                break
            except ValueError as problem:
                print(problem)
                orders.move(orders.peek(timeout=0), "refused")
        for each in qm.queues():
            print(f"{each.path_name}: {each.count} messages, {each.size_bytes} bytes")
        print(f"refused: {orders.subqueue('refused').count}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(Path(sys.argv[1] if len(sys.argv) > 1 else scratch))
