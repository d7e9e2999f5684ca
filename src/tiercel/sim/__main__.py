"""`python -m tiercel.sim`: runs seeds, and replays one with everything that happened in it."""

import argparse
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial

from tiercel.server.process_tuning import collect_garbage_rarely
from tiercel.sim.simulation import Result, run

_PROGRESS_S = 5.0
_SEEDS_AT_ONCE = 8  # handed to a process together


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tiercel.sim", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this seed alone")
    parser.add_argument("--trace", action="store_true", help="print every event of that seed")
    parser.add_argument("--seeds", type=int, default=1000, help="number of seeds (default: 1000)")
    parser.add_argument("--from", type=int, default=1, dest="first", help="first seed (default: 1)")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes (default: 1)")
    parser.add_argument("--keep-going", action="store_true", help="continue after a seed that fails")
    parser.add_argument(
        "--enemies", action="store_true", help="put a hostile machine into half of the worlds"
    )
    parser.add_argument("--http", action="store_true", help="let some machines speak HTTP with each other")
    parser.add_argument("--protected", action="store_true", help="sign and encrypt messages")
    options = parser.parse_args()
    run_one = partial(run, enemies=options.enemies, http=options.http, protected=options.protected)
    if options.seed is not None:
        listener = print if options.trace else None
        result = run_one(options.seed, listener=listener)
        print(result)
        return 1 if result.problems else 0
    seeds = range(options.first, options.first + options.seeds)
    collect_garbage_rarely()
    with _results(run_one, seeds, options.jobs) as results:
        return _report(results, keep_going=options.keep_going)


@contextmanager
def _results(run_one: Callable[[int], Result], seeds: range, jobs: int) -> Iterator[Iterable[Result]]:
    """Results as they come: in the order of the seeds only if there is one process."""
    if jobs == 1:
        yield map(run_one, seeds)
        return
    with multiprocessing.Pool(jobs) as pool:
        yield pool.imap_unordered(run_one, seeds, _SEEDS_AT_ONCE)


def _report(results: Iterable[Result], *, keep_going: bool) -> int:
    started = told = time.monotonic()
    done, failed, messages, crashes, hours = 0, 0, 0, 0, 0.0

    def speed() -> str:
        return f"{done / max(time.monotonic() - started, 0.001):.1f} seeds/s"

    for result in results:
        done += 1
        messages, crashes = messages + result.messages, crashes + result.crashes
        hours += result.seconds / 3600
        if result.problems:
            failed += 1
            print(result, flush=True)
            if not keep_going:
                break
        if time.monotonic() - told >= _PROGRESS_S:
            told = time.monotonic()
            print(f"{done} seeds so far, {failed} failed, {speed()}", flush=True)
    print(
        f"{done} seeds, {failed} failed; {messages} messages, {crashes} crashes, {hours:.0f} simulated hours"
        f" in {time.monotonic() - started:.0f} s ({speed()})"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
