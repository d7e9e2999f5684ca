"""Publishing 128 MiB of staged rows: how long others wait, at most, for each of its turns."""

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

import tiercel
from tiercel.engine.publication import Row
from tiercel.engine.stage_records import StageId
from tiercel.model.format_name import FormatName
from tiercel.server.driver import Driver
from tiercel.server.process_tuning import collect_garbage_rarely

T = TypeVar("T")

MESSAGES, CHUNK, BODY = 128 * 1024, 1024, b"x" * 1024
RUNS = 3
STEPS = ("stage", "prepare", "store", "commit")


def rows_of(payload: bytes) -> Iterator[Row]:
    for at in range(0, len(payload), len(BODY)):
        body = payload[at : at + len(BODY)]
        yield NAME, tiercel.Message(body, delivery=tiercel.DeliveryGuarantee.RECOVERABLE)


NAME = FormatName.parse(r"DIRECT=OS:.\private$\orders")


class Turn(NamedTuple):
    """Seconds by the clock, and of this process."""

    clock: float
    cpu: float


Turns = dict[str, list[Turn]]  # of each step


def timed(driver: Driver, step: Callable[[], T]) -> tuple[Turn, T]:
    clock, cpu = time.perf_counter(), time.process_time()
    result = driver.run(step)
    return Turn(time.perf_counter() - clock, time.process_time() - cpu), result


def run(qm: tiercel.EmbeddedQueueManager, number: int, *, transactional: bool) -> Turns:
    driver, stage = qm.driver, StageId("bench", str(number), "0", "a")
    stages, payload = driver.engine.stages, BODY * CHUNK
    turns: Turns = {each: [] for each in STEPS}
    for chunk in range(MESSAGES // CHUNK):
        turns["stage"].append(timed(driver, partial(stages.stage, stage, chunk, payload, CHUNK))[0])
    begin = partial(stages.begin_publish, "bench", str(number), [stage], rows_of, driver.token)
    publication = driver.run(lambda: begin(transactional=transactional))
    for name, step in (("prepare", publication.prepare), ("store", publication.store)):
        is_done = False
        while not is_done:
            turn, is_done = timed(driver, step)
            turns[name].append(turn)
    turn, published = timed(driver, publication.commit)
    assert published.messages == MESSAGES
    turns["commit"].append(turn)
    return turns


def print_step(step: str, runs: list[list[Turn]]) -> None:
    """Medians of all turns together and of the longest."""
    kinds = [(kind, fold) for kind in (0, 1) for fold in (sum, max)]
    cells = [statistics.median(fold(turn[kind] for turn in turns) for turns in runs) for kind, fold in kinds]
    print(f"  {step:8}{''.join(f'{cell * 1000:9.0f}' for cell in cells)}")


def main() -> None:
    collect_garbage_rarely()
    for transactional in (True, False):
        directory = Path(tempfile.mkdtemp())
        try:
            with tiercel.open(directory / "data") as qm:
                qm.set_properties(queue_manager_quota_kib=0xFFFF_FFFF)
                qm.create_queue(r".\private$\orders", transactional=transactional)
                results = [run(qm, number, transactional=transactional) for number in range(RUNS)]
        finally:
            shutil.rmtree(directory)
        kind = "transactional" if transactional else "outside of transactions"
        print(f"{MESSAGES} messages of {len(BODY)} bytes, {kind}, medians of {RUNS}, in ms:")
        print(f"  {'':8}{'clock':>9}{'longest':>9}{'CPU':>9}{'longest':>9}")
        for step in STEPS:
            print_step(step, [turns[step] for turns in results])


if __name__ == "__main__":
    main()
