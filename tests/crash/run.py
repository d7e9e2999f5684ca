"""`python tests/crash/run.py N [SEED]`: kills a queue manager under load N times and says what was found."""

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from crash.kill import Killer
from tiercel.store.lmdb_store import LmdbStore


def main() -> None:
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time())
    with tempfile.TemporaryDirectory() as directory:
        data = Path(directory) / "data"
        with Killer(data, seed) as killer:
            for number in range(1, kills + 1):
                killer.kill()
                if number % 100 == 0 or number == kills:
                    print(_line(killer), flush=True)  # noqa: T201 -- a script
        problems = LmdbStore.verify(data)
    print(f"seed {seed}: {problems or 'the file is sound'}")  # noqa: T201 -- a script
    sys.exit(bool(problems))


def _line(killer: Killer) -> str:
    return (
        f"{killer.kills} kills, {killer.acknowledged} acknowledged operations all there; of the last ones,"
        f" which nobody had heard of, {killer.undecided_kept} were there and {killer.undecided_lost} were not"
    )


if __name__ == "__main__":
    main()
