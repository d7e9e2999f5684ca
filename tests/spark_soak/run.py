"""`python tests/spark_soak/run.py [--sinks ...] [--victims ...] [--steps ...] [--seed N]`: the long soak.

Everybody is killed at every step for every sink; then the scenes on a real cluster and with two drivers.
"""

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import NoReturn

sys.path.insert(0, str(Path(__file__).parents[1]))

from spark_soak import scenes
from spark_soak.soak import Kill, Result, Soak
from spark_soak.steps import Sink, Step, Victim


def say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 -- a script


def main() -> None:
    parser = argparse.ArgumentParser(description="Kill streaming jobs at every step of a micro-batch.")
    for name, kind in (("sinks", Sink), ("victims", Victim), ("steps", Step)):
        parser.add_argument(f"--{name}", nargs="*", type=kind, default=list(kind), metavar="NAME")
    parser.add_argument("--scenes", nargs="*", choices=list(scenes.ALL), default=list(scenes.ALL))
    parser.add_argument("--together", action="store_true", help="one pipeline into all tables: fewer starts")
    parser.add_argument("--minutes", type=float, help="of each sink; then it kills no more, and counts")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, _interrupt)  # so that every process is ended
    say(f"seed {chosen.seed}")
    survived: dict[str, Result] = {}
    is_fine = True
    for sinks in _groups(chosen.sinks, together=chosen.together):
        kills = [Kill(step, victim) for step in chosen.steps for victim in chosen.victims]
        random.Random(chosen.seed).shuffle(kills)
        name = "+".join(sinks)
        say(f"{name}: {len(kills)} kills")
        soak = Soak(_folder(name), sinks, kills, chosen.seed, lambda text: say(f"  {text}"))
        soak.minutes = chosen.minutes
        is_fine &= _run(soak.run, soak.folder)
        survived |= dict.fromkeys(sinks, soak.result)
    for name in chosen.scenes:
        say(f"{name}:")
        folder = _folder(name)
        is_fine &= _run(lambda name=name, folder=folder: say(f"  {scenes.ALL[name](folder)}"), folder)  # type: ignore[misc]
    if survived:
        say(table(survived, chosen.steps))
    sys.exit(not is_fine)


def _groups(sinks: list[Sink], *, together: bool) -> list[list[Sink]]:
    if not together:
        return [[sink] for sink in sinks]
    queues: list[Sink] = [sink for sink in sinks if sink is Sink.QUEUE]
    tables: list[Sink] = [sink for sink in sinks if sink is not Sink.QUEUE]
    return [group for group in (tables, queues) if group]


def _folder(name: str) -> Path:
    return Path(tempfile.mkdtemp(prefix=f"spark-soak-{name.replace(' ', '-')}-"))


def _run(what: Callable[[], object], folder: Path) -> bool:
    try:
        what()
    except AssertionError as problem:
        say(f"  FAILED: {problem}\n  stores, tables and logs are in {folder}")
        return False
    shutil.rmtree(folder)
    return True


def table(survived: dict[str, Result], steps: list[Step]) -> str:
    """The kill matrix, in Markdown: a line for each step, a column for each sink, in it who was killed."""
    rows = [["killed at", *survived], ["---"] * (len(survived) + 1)]
    rows += [[step, *(_killed(result, step) for result in survived.values())] for step in steps]
    for name, values in (
        ("kills", [len(result.kills) for result in survived.values()]),
        ("messages, each found once", [result.messages for result in survived.values()]),
        ("starts of the job", [result.starts for result in survived.values()]),
        ("seconds", [round(result.seconds) for result in survived.values()]),
    ):
        rows.append([name, *map(str, values)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _killed(result: Result, step: Step) -> str:
    return ", ".join(victim for victim in Victim if Kill(step, victim) in result.kills)


def _interrupt(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
