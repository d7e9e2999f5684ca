"""The cost of a revision beside another: CPU time of the daemon per message, as a ratio of pairs.

bench_pairs.py --base REVISION-OR-DIRECTORY [--head DIRECTORY] [--cases in out both once] [--bar PERCENT] ...

Each side runs with the sources of its own tree; the load generator is the same for both. A round measures
nine pairs by default, and gives the median of the ratios. Its spread is the interquartile range of the
ratios; a round with a spread above the bar is repeated. Within a pair the sides take turns in short slices.
The ratio of a pair is the median over its turns: what else the computer does lasts longer than a turn (often
it makes a core half as fast for seconds), so it meets both sides of a turn alike, but not one median as the
other.
"""

import argparse
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench_daemon import DAEMON, ORDERED, SECOND, Daemon, Meter, Tiercel, common_port, folder, run_in

ROOT: Final = Path(__file__).resolve().parents[1]
CASES: Final = ("in", "out", "both", "once")
IDLE_S: Final = 2.0
LONGEST_S: Final = 600.0

PRELOAD: Final = """
import asyncio, sys
import tiercel
from tiercel import aio

async def main(data, listen, destination, count):
    async with await aio.open(data, listen=listen) as qm:
        queue = qm.queue(destination)
        for start in range(0, count, 100):
            async with qm.transaction() as transaction:
                for number in range(start, min(start + 100, count)):
                    await queue.send(tiercel.Message(bytes(1024)), transaction=transaction)

asyncio.run(main(*sys.argv[1:4], int(sys.argv[4])))
"""


@dataclass(frozen=True)
class Pair:
    """The costs of both sides in each turn, in microseconds per message."""

    base: list[float]
    head: list[float]

    @property
    def percent(self) -> float:
        turns = zip(self.base, self.head, strict=True)
        return statistics.median((head / base - 1) * 100 for base, head in turns)


@dataclass(frozen=True)
class Round:
    pairs: list[Pair]

    @property
    def spread(self) -> float:
        """The interquartile range, in percentage points."""
        low, _, high = statistics.quantiles((pair.percent for pair in self.pairs), n=4)
        return high - low

    def __str__(self) -> str:
        base = statistics.median(cost for pair in self.pairs for cost in pair.base)
        head = statistics.median(cost for pair in self.pairs for cost in pair.head)
        change = statistics.median(pair.percent for pair in self.pairs)
        return f"{base:>9.1f}{head:>9.1f}{change:>+9.1f} %{self.spread:>9.1f}"


def exactly_once(tree: Path, place: Path, window: int, count: int) -> float:
    """Transactional messages from one daemon to another of the same tree: the cost of both together."""
    port = common_port(DAEMON, SECOND)
    destination = rf"DIRECT=TCP:{SECOND}\private$\ordered"
    with tempfile.TemporaryDirectory(dir=place) as scratch:
        first, second = Path(scratch) / "first", Path(scratch) / "second"
        Tiercel.create_queue(tree, second, f"{SECOND}:{port}", ORDERED, transactional=True)
        run_in(tree, PRELOAD, first, f"{DAEMON}:{port}", destination, count)
        sender = Daemon(DAEMON, port, first, window, tree=tree)  # cannot connect yet, and tries every 100 ms
        meters = [Meter(sender.pid)]
        receiver = Daemon(SECOND, port, second, window, tree=tree)
        meters.append(Meter(receiver.pid))
        try:
            used = _used_when_idle(meters)
        finally:
            sender.stop()
            receiver.stop()
        arrived = Tiercel.count(tree, second, ORDERED)
        assert arrived == count, f"{arrived} of {count} messages have arrived"
    return used / count * 1e6


def _used_when_idle(meters: list[Meter]) -> float:
    """CPU seconds since the meters were started, when nothing was used for a while."""
    deadline = time.monotonic() + LONGEST_S
    used = -1.0
    while (now := sum(meter.seconds for meter in meters)) > used + 0.02:
        assert time.monotonic() < deadline, "the daemons are still busy"
        used = now
        time.sleep(IDLE_S)
    return used


@contextmanager
def costs(tree: Path, place: Path, case: str, window: int, warm_up: int) -> Iterator[Callable[[int], float]]:
    """Measures one side with a number of messages at every call."""
    if case == "once":
        yield lambda count: exactly_once(tree, place, window, count)
        return
    with tempfile.TemporaryDirectory(dir=place) as scratch:
        subject = Tiercel(Path(scratch), window, tree)
        measure = {"in": subject.into, "out": subject.out, "both": subject.both}[case]
        try:
            measure(warm_up)
            yield lambda count: measure(count).cost
        finally:
            subject.stop()


def run_round(trees: tuple[Path, Path], place: Path, case: str, arguments: argparse.Namespace) -> Round:
    return Round([run_pair(trees, place, case, arguments) for _ in range(arguments.pairs)])


def run_pair(trees: tuple[Path, Path], place: Path, case: str, arguments: argparse.Namespace) -> Pair:
    """New daemons with empty queues."""
    count = arguments.messages // arguments.slices
    with (
        costs(trees[0], place, case, arguments.window, count) as of_base,
        costs(trees[1], place, case, arguments.window, count) as of_head,
    ):
        return Pair(*take_turns((of_base, of_head), arguments.slices, count))


def take_turns(
    sides: Sequence[Callable[[int], float]], slices: int, count: int
) -> tuple[list[float], list[float]]:
    """The costs of both sides; the one that begins a slice ends the next."""
    first: list[float] = []
    second: list[float] = []
    turns = [(sides[0], first), (sides[1], second)]
    for _ in range(slices):
        for measure, found in turns:
            found.append(measure(count))
        turns.reverse()
    return first, second


def compare(trees: tuple[Path, Path], place: Path, arguments: argparse.Namespace) -> None:
    print("           base \u00b5s  head \u00b5s     change   spread  rounds", flush=True)
    for case in arguments.cases:
        rounds = [run_round(trees, place, case, arguments)]
        while rounds[-1].spread >= arguments.bar and len(rounds) < arguments.rounds:
            rounds.append(run_round(trees, place, case, arguments))
        best = min(rounds, key=lambda each: each.spread)
        note = "" if best.spread < arguments.bar else f"  spread above {arguments.bar} points"
        print(f"{case:8}{best}{len(rounds):>8}{note}", flush=True)


@contextmanager
def tree_of(revision: str) -> Iterator[Path]:
    """A directory as it is; a revision as a worktree that is removed afterwards."""
    if Path(revision).is_dir():
        yield Path(revision).resolve()
        return
    tree = Path(tempfile.mkdtemp(prefix="bench-base-", dir=ROOT / "bench"))
    git = ["git", "-C", str(ROOT), "worktree"]
    subprocess.run([*git, "add", "--quiet", "--detach", str(tree), revision], check=True)  # noqa: S603
    try:
        yield tree
    finally:
        subprocess.run([*git, "remove", "--force", str(tree)], check=True)  # noqa: S603


def add_options(parser: argparse.ArgumentParser) -> None:
    # 6,400 a turn: a multiple of every window, so that no turn ends with the timer of the acknowledgements.
    parser.add_argument("--messages", type=int, default=102_400, help="in each pair (default: 102400)")
    parser.add_argument("--slices", type=int, default=16, help="turns in a pair (default: 16)")
    parser.add_argument("--window", type=int, default=64)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument(
        "--bar", type=float, default=3.0, help="largest accepted spread, in points (default: 3)"
    )
    parser.add_argument("--rounds", type=int, default=5, help="most rounds per case (default: 5)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--base", required=True, help="revision or source tree to compare with")
    parser.add_argument("--head", default=str(ROOT), help="revision or source tree (default: this one)")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES)
    add_options(parser)
    arguments = parser.parse_args()
    if arguments.pairs < 2:
        parser.error("--pairs must be at least 2")
    with tree_of(arguments.base) as base, tree_of(arguments.head) as head, folder() as place:
        print(
            f"CPU time of the daemon per message, {arguments.messages} messages of 1 KiB, "
            f"window {arguments.window}; change and spread of {arguments.pairs} pairs"
        )
        compare((base, head), place, arguments)


if __name__ == "__main__":
    main()
