"""`python -m tiercel.sim`: runs seeds, and replays one with everything that happened in it."""

import argparse
import sys
import time

from tiercel.sim.simulation import run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tiercel.sim", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this seed alone")
    parser.add_argument("--trace", action="store_true", help="print everything that happens")
    parser.add_argument("--seeds", type=int, default=1000, help="how many seeds to run (1000)")
    parser.add_argument("--from", type=int, default=1, dest="first", help="the first of them (1)")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first seed that fails")
    options = parser.parse_args()
    if options.seed is not None:
        result = run(options.seed, listener=print if options.trace else None)
        print(result)
        return 1 if result.problems else 0
    return _run_many(range(options.first, options.first + options.seeds), keep_going=options.keep_going)


def _run_many(seeds: range, *, keep_going: bool) -> int:
    started, failed, messages, crashes, hours = time.monotonic(), 0, 0, 0, 0.0
    done = 0
    for done, seed in enumerate(seeds, 1):  # noqa: B007 -- the progress is printed below
        result = run(seed)
        messages, crashes = messages + result.messages, crashes + result.crashes
        hours += result.seconds / 3600
        if result.problems:
            failed += 1
            print(result, flush=True)
            if not keep_going:
                break
    elapsed = time.monotonic() - started
    print(
        f"{done} seeds, {failed} failed; {messages} messages, {crashes} crashes, {hours:.0f} simulated hours"
        f" in {elapsed:.0f} s ({done / elapsed:.0f} seeds a second)"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
