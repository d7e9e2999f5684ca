"""Publishing staged rows: how long the loop is held, by a slice and by the commit at the end."""

import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import tiercel
from tiercel.engine.publication import Publication, Row
from tiercel.engine.stage_records import StageId
from tiercel.model.format_name import FormatName

MESSAGES, CHUNK, BODY = 20_000, 2_000, b"x" * 1024
RUNS = 5


def rows_of(payload: bytes) -> Iterator[Row]:
    for at in range(0, len(payload), len(BODY)):
        body = payload[at : at + len(BODY)]
        yield NAME, tiercel.Message(body, delivery=tiercel.DeliveryGuarantee.RECOVERABLE)


NAME = FormatName.parse(r"DIRECT=OS:.\private$\orders")


def run(
    qm: tiercel.EmbeddedQueueManager, number: int, *, transactional: bool
) -> tuple[float, float, float, float]:
    """Seconds: to stage everything, of the longest slice, of all slices, of the commit."""
    driver, stage = qm.driver, StageId("bench", str(number), "0", "a")
    stages, payload = driver.engine.stages, BODY * CHUNK
    start = time.perf_counter()
    for chunk in range(MESSAGES // CHUNK):
        driver.run(lambda chunk=chunk: stages.stage(stage, chunk, payload, CHUNK))  # type: ignore[misc]
    staged = time.perf_counter() - start
    publication = driver.run(
        lambda: stages.begin_publish(
            "bench", str(number), [stage], rows_of, driver.token, transactional=transactional
        )
    )
    assert isinstance(publication, Publication)
    slices, done = [], False
    while not done:
        start = time.perf_counter()
        done = driver.run(publication.prepare)
        slices.append(time.perf_counter() - start)
    start = time.perf_counter()
    assert driver.run(publication.commit).messages == MESSAGES
    return staged, max(slices), sum(slices), time.perf_counter() - start


def main() -> None:
    for transactional in (True, False):
        directory = Path(tempfile.mkdtemp())
        try:
            with tiercel.open(directory / "data") as qm:
                qm.create_queue(r".\private$\orders", transactional=transactional)
                results = [run(qm, number, transactional=transactional) for number in range(RUNS)]
        finally:
            shutil.rmtree(directory)
        staged, longest, prepared, committed = (
            statistics.median(each) * 1000 for each in zip(*results, strict=True)
        )
        kind = "transactional" if transactional else "outside of transactions"
        print(f"{MESSAGES} messages of {len(BODY)} bytes, {kind}, medians of {RUNS}:")
        print(f"  stage {staged:.0f} ms, prepare {prepared:.0f} ms (longest slice {longest:.0f} ms)")
        print(f"  commit {committed:.0f} ms = {committed * 1000 / MESSAGES:.1f} us a message")


if __name__ == "__main__":
    main()
