"""What the record of the life of messages costs: CPU time per message, on against off, in one process.

bench_life.py [--pairs N] [--commits N] [--run N] [--ring BYTES]

Both sides are engines on stores of their own and take turns, commit by commit, so that what else the computer
does meets both alike. `in` is the arrival of a run of messages of one shape, `out` sending them on, with the
commits. With a small ring every commit also drops a row. The daemon's own cost per message (`bench_pairs`) is
two to three times that of the engine; the difference is the same.
"""

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar
from uuid import UUID

from tiercel.engine.arrivals import Source
from tiercel.engine.engine import Engine
from tiercel.engine.identity import Identity
from tiercel.model.codes import DeliveryGuarantee, QueueAccess
from tiercel.model.format_name import FormatName
from tiercel.model.identifiers import MessageId
from tiercel.model.message import Message
from tiercel.model.path_name import PathName
from tiercel.security.access import Token
from tiercel.store.lmdb_store import LmdbStore
from tiercel.wire.alike import Alike
from tiercel.wire.message import encode_message
from tiercel.wire.user_message import UserMessage

T = TypeVar("T")
OWNER = Token.local_system()
PEER = UUID(int=7)
SOURCE = Source(PEER, "192.0.2.7", True)
HERE = FormatName.parse(r"DIRECT=OS:.\private$\orders")
FAR = FormatName.parse(r"DIRECT=TCP:192.0.2.9\private$\far")


class Side:
    def __init__(self, folder: Path, life_bytes: int) -> None:
        self.store = LmdbStore.open(folder)
        self.engine = Engine(
            self.store, Identity("here"), now=time.time(), owner=OWNER, life_bytes=life_bytes
        )
        self.numbers = 0
        self.run(lambda: self.engine.queues.create(PathName.parse(r".\private$\orders"), OWNER))
        self.far = self.run(lambda: self.engine.opening.open(FAR, QueueAccess.SEND, token=OWNER))

    def run(self, command: Callable[[], T]) -> T:
        self.engine.begin(time.time())
        result = command()
        self.engine.commit()
        return result

    def measure(self, case: str, count: int) -> float:
        return self.into(count) if case == "in" else self.out(count)

    def into(self, count: int) -> float:
        packets = []
        for _ in range(count):
            self.numbers += 1
            message = Message(
                bytes(1024),
                delivery=DeliveryGuarantee.RECOVERABLE,
                destination_queue=HERE,
                id=MessageId(PEER, self.numbers),
                sent_time=int(time.time()),
            )
            packets.append(encode_message(message))
        run = [Alike(UserMessage(packets[0]), packets)]
        used = self._used(lambda: self.engine.arrivals.arrive(run, SOURCE))
        assert self.engine.queues.get(HERE).count == self.numbers, "every message has arrived"
        return used

    def out(self, count: int) -> float:
        message = Message(bytes(1024), delivery=DeliveryGuarantee.RECOVERABLE)
        send = self.engine.sending.send
        self.run(lambda: [send(self.far, message) for _ in range(count)])
        queue, outgoing = self.engine.queues.get(FAR), self.engine.outgoing
        taken = []
        used = self._used(lambda: taken.extend(outgoing.take(queue, count)))
        return used + self._used(lambda: outgoing.delivered(taken))

    def _used(self, command: Callable[[], object]) -> float:
        before = time.process_time()
        self.run(command)
        return time.process_time() - before


@contextmanager
def sides(ring: int) -> Iterator[tuple[Side, Side]]:
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=Path(__file__).parent))
    try:
        off, on = Side(folder / "off", 0), Side(folder / "on", ring)
        yield off, on
        off.store.close()
        on.store.close()
    finally:
        shutil.rmtree(folder)


def measure(case: str, arguments: argparse.Namespace) -> None:
    differences, bases = [], []
    with sides(arguments.ring) as (off, on):
        turns = [off, on]
        for side in turns:
            side.measure(case, arguments.run)
        for _ in range(arguments.pairs):
            used = {off: 0.0, on: 0.0}
            for _ in range(arguments.commits):
                for side in turns:
                    used[side] += side.measure(case, arguments.run)
                turns.reverse()
            messages = arguments.commits * arguments.run
            bases.append(used[off] / messages * 1e6)
            differences.append((used[on] - used[off]) / messages * 1e6)
    low, middle, high = statistics.quantiles(differences, n=4)
    base = statistics.median(bases)
    print(f"{case:4}{base:9.2f}{middle:+9.2f}{middle / base * 100:+8.1f} %{low:+9.2f} to {high:+.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--commits", type=int, default=40, help="of each side in a pair (default: 40)")
    parser.add_argument("--run", type=int, default=64, help="messages per commit (default: 64)")
    parser.add_argument("--ring", type=int, default=256 << 20, help="bytes (default: 256 MiB)")
    arguments = parser.parse_args()
    print(f"engine, runs of {arguments.run}, ring of {arguments.ring} bytes, {arguments.pairs} pairs")
    print("      off µs  life µs   change   quartiles µs")
    for case in ("in", "out"):
        measure(case, arguments)


if __name__ == "__main__":
    main()
